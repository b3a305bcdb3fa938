/** A second decision on an output, beside the one that others have gone by. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { useNames } from "../lib/people";
import { visible } from "../lib/visible";
import { Command } from "./basics";
import { Status } from "./status";
import { Ago } from "./time";

type Props = { taskId: string | undefined; correction: Schemas["Decision"] | undefined };

export function Correction({ taskId, correction }: Props) {
  const nameOf = useNames();
  if (!correction) return null;
  const word = correction.status === "rejected" ? t`corrected: rejected` : t`corrected: approved`;
  return (
    <div className="notice" data-correction={correction.status}>
      <Status state={correction.status} word={word} />
      <div className="grow stack">
        <div>
          <Trans>
            afterwards, by {nameOf(correction.by)} <Ago at={correction.at} />
          </Trans>
        </div>
        {correction.comment && (
          <q translate="no" dir="auto">
            {visible(correction.comment)}
          </q>
        )}
        {correction.modifiedOutput !== undefined && <Command>{correction.modifiedOutput}</Command>}
      </div>
      {taskId && (
        <Link href={`/review/${taskId}`}>
          <Trans>Review</Trans>
        </Link>
      )}
    </div>
  );
}
