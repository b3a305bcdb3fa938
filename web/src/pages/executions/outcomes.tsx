/** How the last runs of a template or plan ended, the oldest first, each a link. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { usePage } from "../../api/hooks";
import { count, duration, instant, percent } from "../../lib/format";
import { useRoving } from "../../lib/roving";
import { visible } from "../../lib/visible";
import { lookOf } from "../../ui/status";
import type { Execution } from "./steps";
import "./outcomes.css";

/** The query of the last runs that ended, of which a page is what a strip shows. */
export const LAST_ENDED = {
  status: ["completed", "failed", "cancelled"] as ("completed" | "failed" | "cancelled")[],
  orderBy: "completedAt" as const,
  limit: 50,
};

export function Outcomes({ templateId }: { templateId: string }) {
  const { data } = usePage("/api/plans/executions", { query: { templateId, ...LAST_ENDED } });
  const ended = data?.items ?? [];
  if (ended.length === 0) return null;
  const completed = ended.filter(({ status }) => status === "completed").length;
  return (
    <div className="executions-outcomes">
      <Strip ended={ended} />
      <span className="soft small">
        <Trans>
          {percent(completed / ended.length)} of the last {count(ended.length)} completed
        </Trans>
      </span>
    </div>
  );
}

/** Runs that have ended, given the latest first. A failure is told by its height too, not by its colour alone. */
export function Strip({ ended, of }: { ended: Execution[]; of?: string }) {
  const roving = useRoving(ended.length, ended.length - 1);
  return (
    <ol
      className="executions-strip"
      aria-label={
        of
          ? t`The last ${count(ended.length)} outcomes of ${of}`
          : t`The last ${count(ended.length)} outcomes`
      }
      {...roving.around}
    >
      {ended.toReversed().map((execution, index) => {
        const lines = wordsOf(execution);
        return (
          <li key={execution.id}>
            <Link
              href={`/executions/${execution.id}`}
              data-tone={lookOf(execution.status).tone}
              data-tip={lines.join("\n")}
              {...roving.of(index)}
            >
              <span className="hide">{lines.join(", ")}</span>
            </Link>
          </li>
        );
      })}
    </ol>
  );
}

function wordsOf({ title, status, startedAt, completedAt }: Execution): string[] {
  const { word } = lookOf(status);
  const took = startedAt && completedAt ? duration(Date.parse(completedAt) - Date.parse(startedAt)) : "";
  return [
    visible(title ?? ""),
    took ? t`${word} after ${took}` : word,
    completedAt ? instant(completedAt) : "",
  ].filter(Boolean);
}
