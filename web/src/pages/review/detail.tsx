/** The open item: its output, why it is held, what it was made from, and the decision. */
import { lazy, type Ref, Suspense, useImperativeHandle, useRef, useState } from "react";
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count, money, short } from "../../lib/format";
import { keyOf } from "../../lib/keys";
import { formatted, visible } from "../../lib/visible";
import { Button, Field, Loading } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { LongText } from "../../ui/long-text";
import { Status } from "../../ui/status";
import { Ago } from "../../ui/time";
import { Neighbours, Sources, useAround } from "./around";
import type { Choice } from "./decisions";
import { useDraft } from "./drafts";
import { History } from "./history";
import { useNames } from "./names";
import { isOpen } from "./review";
import { Why } from "./why";

const Edit = lazy(() => import("./editor").then((it) => ({ default: it.Edit })));
const Diff = lazy(() => import("./editor").then((it) => ({ default: it.Diff })));

export type DetailHandle = { approve: () => void; edit: () => void; reject: () => void; diff: () => void };
type View = "output" | "edit" | "diff";

type Props = {
  item: Approval;
  position?: string;
  backTo: string;
  onDecide: (choice: Choice) => void;
  onNext: () => void;
  hasNext: boolean;
  /** To the item before and after, where there is one. */
  onStep: { before?: () => void; after?: () => void };
  ref?: Ref<DetailHandle>;
};

export function Detail({ item, position, backTo, onDecide, onNext, hasNext, onStep, ref }: Props) {
  const [draft, setDraft] = useDraft(item.taskId);
  const [view, setView] = useState<View>("output");
  const [rejecting, setRejecting] = useState(false);
  const top = useRef<HTMLDivElement>(null);
  const around = useAround(item);
  const output = item.output ?? "";
  const earlier = useEarlier(item);
  const canDecide = isOpen(item);

  const approve = () => {
    if (!canDecide) return;
    const isEdited = draft.edit !== undefined && draft.edit !== output;
    onDecide({
      kind: "approve",
      ...(isEdited ? { modifiedOutput: draft.edit } : {}),
      ...(draft.comment ? { comment: draft.comment } : {}),
    });
  };
  const reject = () => canDecide && setRejecting(true);
  const edit = () => {
    if (!canDecide) return;
    setView(view === "edit" ? "output" : "edit");
  };
  const canDiff =
    draft.edit !== undefined || item.decision?.modifiedOutput !== undefined || earlier !== undefined;
  const diff = () => canDiff && setView(view === "diff" ? "output" : "diff");
  useImperativeHandle(ref, () => ({ approve, reject, edit, diff }));

  const title = item.stepId ?? "Task";
  const isEdited = draft.edit !== undefined && draft.edit !== output;
  return (
    <article className="review-detail" aria-label={title}>
      <header className="review-title" ref={top}>
        <Link href={backTo} className="button review-back" data-kind="quiet" aria-label="Back to the list">
          <Icon name="back" />
        </Link>
        <div className="grow">
          <h2 className="cut">
            {title}{" "}
            <span className="faint review-group">
              {item.stepId ? (item.templateId ?? "plan") : `queue ${item.queue}`}
            </span>
          </h2>
        </div>
        <Status state={item.status} filled />
        <span className="small soft">
          held <Ago at={item.createdAt} />
        </span>
        <div className="review-steps">
          <Button
            size="small"
            kind="quiet"
            icon="back"
            aria-label="Previous"
            hotkey={keyOf("review.previous", "k")}
            disabled={!onStep.before}
            onClick={onStep.before}
          />
          {position && <span className="small faint review-position">{position}</span>}
          <Button
            size="small"
            kind="quiet"
            icon="next"
            aria-label="Next"
            hotkey={keyOf("review.next", "j")}
            disabled={!onStep.after}
            onClick={onStep.after}
          />
        </div>
      </header>
      <Claimed item={item} />
      <Decided item={item} onNext={onNext} hasNext={hasNext} />
      <div className="review-columns">
        <div className="review-texts">
          <section className="panel review-output" aria-label="The output and its versions">
            <div className="review-tabs">
              <div className="tabs" role="tablist">
                <Tab name="Output" shown={view === "output"} choose={() => setView("output")} />
                {canDecide && (
                  <Tab
                    name={isEdited ? "Edit (changed)" : "Edit"}
                    hotkey={keyOf("review.edit", "e")}
                    shown={view === "edit"}
                    choose={() => setView("edit")}
                  />
                )}
                {canDiff && (
                  <Tab
                    name="Difference"
                    hotkey={keyOf("review.diff", "d")}
                    shown={view === "diff"}
                    choose={() => setView("diff")}
                  />
                )}
              </div>
              {isEdited && canDecide && (
                <Button
                  size="small"
                  kind="quiet"
                  icon="undo"
                  onClick={() => {
                    setDraft({ edit: undefined });
                    setView("output");
                  }}
                >
                  Discard the edit
                </Button>
              )}
            </div>
            <div role="tabpanel" aria-label={view} className="review-panel">
              <Suspense fallback={<Loading />}>
                {view === "output" && <Output text={output} />}
                {view === "edit" && (
                  <Edit
                    text={draft.edit ?? output}
                    original={output}
                    onChange={(text) => setDraft({ edit: text === output ? undefined : text })}
                    onDone={() => {
                      setView("output");
                      top.current?.closest<HTMLElement>("main")?.focus();
                    }}
                  />
                )}
                {view === "diff" && <Compared item={item} edit={draft.edit} earlier={earlier} />}
              </Suspense>
            </div>
          </section>
          <Sources item={item} around={around} />
        </div>
        <aside className="review-facts" aria-label="About this output">
          <Part title="Why it is held">
            <Why item={item} />
          </Part>
          {item.planExecutionId && (
            <Part title="Where it stands">
              <Neighbours item={item} around={around} />
            </Part>
          )}
          <Part title="Facts">
            <Facts item={item} />
          </Part>
          <Part title="History">
            <History item={item} />
          </Part>
        </aside>
      </div>
      {canDecide && (
        <footer className="review-bar">
          <input
            className="input review-comment"
            aria-label="Comment"
            placeholder="Comment, if any"
            maxLength={10_000}
            value={draft.comment ?? ""}
            onChange={(event) => setDraft({ comment: event.target.value || undefined })}
          />
          <Button kind="quiet" onClick={onNext} hotkey={keyOf("review.skip", "s")} disabled={!hasNext}>
            Skip
          </Button>
          <Button
            kind="danger"
            icon="cross"
            onClick={reject}
            hotkey={keyOf("review.reject", "r")}
            needs="hitl: approve/reject"
          >
            Reject…
          </Button>
          <Button
            kind="primary"
            icon="check"
            onClick={approve}
            hotkey={keyOf("review.approve", "a")}
            needs="hitl: approve/reject"
          >
            {isEdited ? "Approve the edit" : "Approve"}
          </Button>
        </footer>
      )}
      {rejecting && (
        <RejectDialog
          item={item}
          reason={draft.reason ?? ""}
          setReason={(reason) => setDraft({ reason: reason || undefined })}
          onClose={() => setRejecting(false)}
          onReject={(choice) => {
            setRejecting(false);
            onDecide(choice);
          }}
        />
      )}
    </article>
  );
}

function Tab({
  name,
  hotkey,
  shown,
  choose,
}: {
  name: string;
  hotkey?: string;
  shown: boolean;
  choose: () => void;
}) {
  return (
    <button type="button" role="tab" aria-selected={shown} onClick={choose}>
      {name} {hotkey && <kbd translate="no">{hotkey}</kbd>}
    </button>
  );
}

function Part({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className="review-part">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** The output as it is; JSON with line breaks, unless the reviewer wants it raw. */
function Output({ text }: { text: string }) {
  const [raw, setRaw] = useState(false);
  const pretty = formatted(text);
  return (
    <>
      <LongText label="Output" text={pretty !== undefined && !raw ? pretty : text} />
      <p className="review-under small faint">
        {count(text.length)} characters
        {pretty !== undefined && (
          <Button size="small" kind="quiet" onClick={() => setRaw(!raw)}>
            {raw ? "Formatted" : "As it is"}
          </Button>
        )}
      </p>
    </>
  );
}

/** The output of the task that this one tries again. */
function useEarlier(item: Approval): string | undefined {
  const task = useApi("/api/tasks/{id}", { path: { id: item.taskId } });
  const retryOf = task.data?.retryOf;
  const earlier = useApi(
    "/api/hitl/{taskId}",
    { path: { taskId: retryOf ?? "" } },
    { enabled: retryOf !== undefined },
  );
  return earlier.data?.output;
}

function Compared({ item, edit, earlier }: { item: Approval; edit?: string; earlier?: string }) {
  const output = item.output ?? "";
  const after = item.decision?.modifiedOutput ?? edit;
  if (after !== undefined) return <Diff before={output} after={after} names={["Output", "Edited output"]} />;
  return <Diff before={earlier ?? ""} after={output} names={["Rejected output", "Output"]} />;
}

function Facts({ item }: { item: Approval }) {
  const { data: task } = useApi("/api/tasks/{id}", { path: { id: item.taskId } });
  const usage = task?.usage;
  return (
    <dl className="facts small">
      <dt>Task</dt>
      <dd>
        <Link href={`/tasks/${item.taskId}`} translate="no" className="mono">
          {item.taskId}
        </Link>
      </dd>
      <dt>Model</dt>
      <dd>{item.model}</dd>
      <dt>Queue</dt>
      <dd>{item.queue}</dd>
      {usage && (
        <>
          <dt>Tokens</dt>
          <dd>
            {short(usage.input)} in, {short(usage.output)} out
          </dd>
          <dt>Cost</dt>
          <dd>{usage.priceUnknown ? "no price is known" : money(usage.totalCost)}</dd>
        </>
      )}
      {task?.finishReason && task.finishReason !== "stop" && (
        <>
          <dt>Ended by</dt>
          <dd>{task.finishReason}</dd>
        </>
      )}
      {task?.retryOf && (
        <>
          <dt>Tries again</dt>
          <dd>
            <Link href={`/review/${task.retryOf}`} translate="no" className="mono">
              {task.retryOf}
            </Link>
          </dd>
        </>
      )}
      <dt>Due</dt>
      <dd>
        <Ago at={item.timeoutAt} />
      </dd>
      {item.tags.length > 0 && (
        <>
          <dt>Tags</dt>
          <dd>
            {item.tags.map((tag) => (
              <span key={tag} className="tag cut">
                {visible(tag)}
              </span>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

function Claimed({ item }: { item: Approval }) {
  const nameOf = useNames();
  const by = item.claimedBy;
  if (!isOpen(item) || !by || nameOf(by) === "you") return null;
  return (
    <div className="notice" data-tone="warn">
      <span className="status" data-tone="warn">
        <Icon name="person" />
      </span>
      <div>{nameOf(by)} looks at this now. You may decide all the same; the first decision counts.</div>
    </div>
  );
}

function Decided({ item, onNext, hasNext }: { item: Approval; onNext: () => void; hasNext: boolean }) {
  const nameOf = useNames();
  if (isOpen(item)) return null;
  const { decision } = item;
  return (
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
                <Link href={`/tasks/${decision.retryTaskId}`}>The task that tries again</Link>
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
  );
}

type RejectProps = {
  item: Approval;
  reason: string;
  setReason: (reason: string) => void;
  onClose: () => void;
  onReject: (choice: Choice) => void;
};

function RejectDialog({ item, reason, setReason, onClose, onReject }: RejectProps) {
  const [retry, setRetry] = useState(false);
  const [prompt, setPrompt] = useState<string>();
  const submit = () => {
    const own = retry && prompt !== undefined && prompt !== item.prompt ? { retryPrompt: prompt } : {};
    onReject({ kind: "reject", reason: reason.trim(), retry, ...own });
  };
  return (
    <Dialog
      title={`Reject ${item.stepId ?? "the output"}`}
      onClose={onClose}
      onSubmit={() => reason.trim() && submit()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            {retry ? "Reject and try again" : "Reject"}
          </Button>
        </>
      }
    >
      <Field label="Reason" hint={retry ? "The model gets it as feedback." : "Kept in the history."}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            required
            maxLength={10_000}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && reason.trim()) submit();
            }}
          />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" checked={retry} onChange={(event) => setRetry(event.target.checked)} />
        Try again, with the reason in the prompt
      </label>
      {retry && (
        <Field label="Prompt" hint="As before, unless you change it.">
          {(props) => (
            <textarea
              {...props}
              translate="no"
              className="textarea mono"
              value={prompt ?? item.prompt ?? ""}
              onChange={(event) => setPrompt(event.target.value)}
            />
          )}
        </Field>
      )}
      {!retry && item.planExecutionId && (
        <p className="small soft">The steps behind it are cancelled, and the execution fails.</p>
      )}
    </Dialog>
  );
}
