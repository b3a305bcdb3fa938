/** What is said above an item: who looks at it, what was decided, what was refused. */
import type { Approval } from "../../api/client";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
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
  const by = item.claimedBy;
  if (!isOpen(item) || !by || nameOf(by) === "you") return null;
  return (
    <div className="notice" data-tone="warn">
      <span className="status" data-tone="warn">
        <Icon name="person" />
      </span>
      <div>
        {nameOf(by)} looks at this now.{may && " You may decide it too; the first decision counts."}
      </div>
    </div>
  );
}

export function Decided({ item, onNext, hasNext }: { item: Approval; onNext: () => void; hasNext: boolean }) {
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
              by {nameOf(decision.by)} <Ago at={decision.at} />
              {decision.wasModified && ", with an edit"}
              {decision.comment && (
                <q className="review-said" translate="no" dir="auto">
                  {visible(decision.comment)}
                </q>
              )}
              {decision.retryTaskId && (
                <div>
                  <TaskLink id={decision.retryTaskId}>The task that tries again</TaskLink>
                </div>
              )}
            </>
          ) : (
            "Nothing is to be decided any more: its task has ended."
          )}
        </div>
        {hasNext && (
          <Button size="small" onClick={onNext}>
            Next
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
      ? "The rejection"
      : refusal.isEdit
        ? "The approval of the edit"
        : "The approval";
  return (
    <div className="notice" data-tone="bad" role="alert" data-refused={refusal.kind}>
      <span className="status" data-tone="bad">
        <Icon name="warn" />
      </span>
      <div className="grow">
        <strong>{what} was refused</strong> <Ago at={new Date(refusal.at).toISOString()} />
        <div className="review-wrap">{visible(refusal.message)}</div>
      </div>
      <Button size="small" onClick={() => forgetRefusal(item.taskId)}>
        Dismiss
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
        <strong>This output is not in the list</strong>
        <div>The filters hide it, so it cannot be decided here.</div>
      </div>
      {first && (
        <Button size="small" onClick={first}>
          Open the first of the list
        </Button>
      )}
      {clear && (
        <Button size="small" onClick={clear}>
          Clear the filters
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
        <strong>Your {draft.edit === undefined ? "reason" : "edit"} was not used</strong>
        <Command>{written}</Command>
      </div>
      <Button size="small" onClick={() => forgetDraft(item.taskId)}>
        Discard
      </Button>
    </div>
  );
}
