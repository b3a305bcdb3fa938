/** What is said above an item: who looks at it, what was decided, what was refused. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import type { Approval } from "../../api/client";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { useMay, useWho } from "../../session/session";
import { Button, Command } from "../../ui/basics";
import { Icon } from "../../ui/icons";
import { Status } from "../../ui/status";
import { Ago } from "../../ui/time";
import { forgetDraft, useDraft } from "./drafts";
import { TaskLink } from "./facts";
import { forgetRefusal, type Refusal } from "./refusals";
import { isOpen } from "./review";

export function Claimed({ item }: { item: Approval }) {
  const nameOf = useNames();
  const may = useMay()("hitl: approve/reject");
  const me = useWho().user.id;
  const by = item.claimedBy;
  if (!isOpen(item) || !by || by === me) return null;
  return (
    <div className="notice" data-tone="warn">
      <span className="status" data-tone="warn">
        <Icon name="person" />
      </span>
      <div>
        <Trans>{nameOf(by)} looks at this now.</Trans>{" "}
        {may && <Trans>You may decide it too; the first decision counts.</Trans>}
      </div>
    </div>
  );
}

type DecidedProps = { item: Approval; onNext: () => void; hasNext: boolean; children: ReactNode };

/** `children` stand beside the way on. */
export function Decided({ item, onNext, hasNext, children }: DecidedProps) {
  const nameOf = useNames();
  if (isOpen(item)) return null;
  const { decision } = item;
  return (
    <>
      <Unused item={item} />
      <div className="notice" data-decided={item.status}>
        <Status state={item.status} />
        <div className="grow">
          {decision ? (
            <>
              <Trans>
                by {nameOf(decision.by)} <Ago at={decision.at} />
              </Trans>
              {decision.wasModified && t`, with an edit`}
              {decision.comment && (
                <q className="review-said" translate="no" dir="auto">
                  {visible(decision.comment)}
                </q>
              )}
              {decision.retryTaskId && (
                <div>
                  <TaskLink id={decision.retryTaskId}>{t`The task that tries again`}</TaskLink>
                </div>
              )}
            </>
          ) : (
            t`Nothing is to be decided any more: its task has ended.`
          )}
        </div>
        {children}
        {hasNext && (
          <Button size="small" onClick={onNext}>
            <Trans>Next</Trans>
          </Button>
        )}
      </div>
    </>
  );
}

/** The server refused the decision: the item is as it was, and what was written is still there. */
export function Refused({ item, refusal }: { item: Approval; refusal: Refusal | undefined }) {
  if (!refusal || !isOpen(item)) return null;
  const what =
    refusal.kind === "reject"
      ? t`The rejection was refused`
      : refusal.isEdit
        ? t`The approval of the edit was refused`
        : t`The approval was refused`;
  return (
    <div className="notice" data-tone="bad" role="alert" data-refused={refusal.kind}>
      <span className="status" data-tone="bad">
        <Icon name="warn" />
      </span>
      <div className="grow">
        <strong>{what}</strong> <Ago at={new Date(refusal.at).toISOString()} />
        <div className="review-wrap">{visible(refusal.message)}</div>
      </div>
      <Button size="small" onClick={() => forgetRefusal(item.taskId)}>
        <Trans>Dismiss</Trans>
      </Button>
    </div>
  );
}

/** The filters hide the open item, so nothing decides it. */
export function Unlisted({ first, clear }: { first?: () => void; clear?: () => void }) {
  return (
    <div className="notice" data-tone="warn" role="status" data-unlisted>
      <span className="status" data-tone="warn">
        <Icon name="search" />
      </span>
      <div className="grow">
        <strong>
          <Trans>This output is not in the list</Trans>
        </strong>
        <div>
          <Trans>The filters hide it, so it cannot be decided here.</Trans>
        </div>
      </div>
      {first && (
        <Button size="small" onClick={first}>
          <Trans>Open the first of the list</Trans>
        </Button>
      )}
      {clear && (
        <Button size="small" onClick={clear}>
          <Trans>Clear the filters</Trans>
        </Button>
      )}
    </div>
  );
}

/** What this reviewer wrote, where another's decision counts. */
function Unused({ item }: { item: Approval }) {
  const [draft] = useDraft(item.taskId);
  const written = draft.edit ?? draft.reason;
  if (written === undefined || written === item.decision?.modifiedOutput) return null;
  return (
    <div className="notice" data-tone="warn" data-unused>
      <div className="grow stack">
        <strong>{draft.edit === undefined ? t`Your reason was not used` : t`Your edit was not used`}</strong>
        <Command>{written}</Command>
      </div>
      <Button size="small" onClick={() => forgetDraft(item.taskId)}>
        <Trans>Discard</Trans>
      </Button>
    </div>
  );
}
