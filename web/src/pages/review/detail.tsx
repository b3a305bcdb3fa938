/** The open item: its output beside what it was made from, why it is held, and the decision. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  lazy,
  type ReactNode,
  type Ref,
  Suspense,
  useEffect,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from "react";
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { keyOf } from "../../lib/keys";
import { useMay } from "../../session/session";
import { Button, Loading } from "../../ui/basics";
import { Boundary } from "../../ui/boundary";
import { checker, refusedFields } from "../../ui/form/check";
import { useWrong } from "../../ui/form/form";
import { Icon } from "../../ui/icons";
import { Status } from "../../ui/status";
import { TemplateName } from "../../ui/template-name";
import { Neighbours, Sources, useAround } from "./around";
import { Bar } from "./bar";
import type { Choice } from "./decisions";
import { type Draft, useDraft } from "./drafts";
import { Facts } from "./facts";
import { History } from "./history";
import { Claimed, Decided, Refused } from "./notices";
import { Compared, Output, useEarlier } from "./output";
import { type Refusal, useRefusals } from "./refusals";
import { Reject } from "./reject";
import { Corrects, Reopen, type ReopenHandle } from "./reopen";
import { isOpen } from "./review";
import { rememberEnd, seenToEnd } from "./select";
import { Reason, Why } from "./why";
import "./detail.css";

const correct = () => import("./correct");
/** What is needed where the network is lost, and could not be read then. */
const ahead = () => Promise.all([correct(), import("./outbox-banner")]);
const Correct = lazy(() => correct().then((it) => ({ default: it.Correct })));

/** A key or a click that comes sooner was meant for the item before. */
const SETTLES_MS = 300;

export type DetailHandle = Record<"approve" | "edit" | "reject" | "diff" | "reopen", () => void>;
type View = "output" | "edit" | "diff";

type Props = {
  item: Approval;
  position?: string;
  /** Only what the list marks can be decided. */
  list: "marked" | "loading" | "hidden";
  /** Said above an item that is not in the list. */
  unlisted: ReactNode;
  backTo: string;
  onDecide: (choice: Choice) => void;
  onNext: () => void;
  hasNext: boolean;
  /** To the item before and after, where there is one. */
  onStep: { before?: () => void; after?: () => void };
  ref?: Ref<DetailHandle>;
};

export function Detail(props: Props) {
  const { item, position, list, unlisted, backTo, onDecide, onNext, hasNext, onStep, ref } = props;
  const [draft, setDraft] = useDraft(item.taskId);
  // A blind review begins with the reviewer's own answer.
  const isHidden = item.blind === true && isOpen(item);
  const [view, setView] = useState<View>(isHidden ? "edit" : "output");
  const [rejecting, setRejecting] = useState(false);
  const top = useRef<HTMLDivElement>(null);
  const around = useAround(item);
  const output = item.output ?? (isHidden && item.task?.outputSchema ? "{}" : "");
  const earlier = useEarlier(item);
  const mayRead = useMay();
  const may = mayRead("hitl: approve/reject");
  const canDecide = may && isOpen(item);
  const isEdited = draft.edit !== undefined && draft.edit !== output;
  const refusal = useRefusals()[item.taskId];
  const { faults, toMend, schema, onWrong } = useFaults(item, draft, refusal);
  const panel = useRef<HTMLDivElement>(null);
  const mend = () => {
    setView("edit");
    panel.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  };

  const isSettled = useSettled();
  useEffect(() => {
    if (may) void ahead().catch(() => {});
  }, [may]);
  const [early, setEarly] = useState(false);
  const [seen, setSeen] = useState(() => seenToEnd(item.taskId));
  const isArmed = canDecide && list === "marked";
  const approve = () => {
    if (!isArmed || rejecting) return;
    if (!isSettled) return setEarly(true);
    if (toMend > 0 || (isHidden && !isEdited)) return mend();
    onDecide({
      kind: "approve",
      ...(isEdited ? { modifiedOutput: draft.edit } : {}),
      ...(draft.comment ? { comment: draft.comment } : {}),
    });
  };
  const reject = () => isArmed && !isHidden && setRejecting(true);
  const edit = () => {
    if (!canDecide) return;
    setView(view === "edit" && item.output !== undefined ? "output" : "edit");
  };
  const toEnd = () => {
    // What comes into view is laid out only then, and moves the end on.
    let tries = 20;
    const go = () => {
      const mark = panel.current?.querySelector(".review-end") ?? panel.current;
      mark?.scrollIntoView({ block: "end" });
      if (!seenToEnd(item.taskId) && tries-- > 0) requestAnimationFrame(go);
    };
    go();
  };
  const focus = () => top.current?.closest<HTMLElement>("main")?.focus();
  const canDiff =
    !isHidden &&
    (draft.edit !== undefined || item.decision?.modifiedOutput !== undefined || earlier !== undefined);
  const diff = () => canDiff && setView(view === "diff" ? "output" : "diff");
  const reopening = useRef<ReopenHandle>(null);
  const reopen = () => reopening.current?.ask();
  useImperativeHandle(ref, () => ({ approve, reject, edit, diff, reopen }));

  const title = item.stepId ?? t`Task`;
  return (
    <article
      className="review-detail"
      aria-label={title}
      data-armed={isArmed && isSettled}
      data-rejecting={rejecting || undefined}
    >
      <header className="review-title" ref={top}>
        <Link href={backTo} className="button review-back" data-kind="quiet" aria-label={t`Back to the list`}>
          <Icon name="back" />
        </Link>
        <h2 className="cut grow">
          {title}{" "}
          <span className="faint review-group">
            {item.stepId ? (
              item.templateId ? (
                <TemplateName id={item.templateId} />
              ) : (
                t`plan`
              )
            ) : (
              t`queue ${item.queue}`
            )}
          </span>
        </h2>
        <Status state={item.status} filled />
        <div className="review-steps">
          <Button
            size="small"
            kind="quiet"
            icon="back"
            aria-label={t`Previous`}
            hotkey={keyOf("review.previous", "k")}
            disabled={!onStep.before}
            onClick={onStep.before}
          />
          {position && <span className="small faint review-position">{position}</span>}
          <Button
            size="small"
            kind="quiet"
            icon="next"
            aria-label={t`Next`}
            hotkey={keyOf("review.next", "j")}
            disabled={!onStep.after}
            onClick={onStep.after}
          />
        </div>
      </header>
      <div className="review-body">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and the keyboard must reach that */}
        <div className="review-scroller" tabIndex={0} role="group" aria-label={t`The output and its sources`}>
          <div className="review-notices">
            {canDecide && unlisted}
            <Refused item={item} refusal={refusal} />
            <Claimed item={item} />
            <Corrects item={item} />
            <Decided item={item} onNext={onNext} hasNext={hasNext}>
              <Reopen item={item} ref={reopening} />
            </Decided>
            <Reason item={item} />
          </div>
          <div className="review-columns">
            <section className="panel review-output" aria-label={t`The output and its versions`}>
              <div className="review-tabs">
                <div className="tabs" role="tablist">
                  {item.output !== undefined && (
                    <Tab name={t`Output`} shown={view === "output"} choose={() => setView("output")} />
                  )}
                  {canDecide && (
                    <Tab
                      name={isHidden ? t`Your answer` : isEdited ? t`Edit (changed)` : t`Edit`}
                      hotkey={keyOf("review.edit", "e")}
                      shown={view === "edit"}
                      choose={() => setView("edit")}
                    />
                  )}
                  {canDiff && (
                    <Tab
                      name={t`Difference`}
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
                      if (!isHidden) setView("output");
                    }}
                  >
                    <Trans>Discard the edit</Trans>
                  </Button>
                )}
              </div>
              <div role="tabpanel" aria-label={view} className="review-panel" ref={panel}>
                <Boundary key={view}>
                  <Suspense fallback={<Loading />}>
                    {view === "output" && (
                      <Output
                        text={output}
                        onEnd={() => {
                          rememberEnd(item.taskId);
                          setSeen(true);
                        }}
                      />
                    )}
                    {view === "edit" && (
                      <Correct
                        text={draft.edit ?? output}
                        original={output}
                        schema={schema}
                        faults={faults}
                        onChange={(edit) => setDraft({ edit })}
                        onWrong={onWrong}
                        onDone={() => {
                          if (!isHidden) setView("output");
                          focus();
                        }}
                      />
                    )}
                    {view === "diff" && <Compared item={item} edit={draft.edit} earlier={earlier} />}
                  </Suspense>
                </Boundary>
              </div>
            </section>
            <div className="review-sources">
              <Sources item={item} around={around} />
            </div>
            <aside className="review-facts" aria-label={t`About this output`}>
              <Part title={t`Confidence`}>
                <Why item={item} />
              </Part>
              {item.planExecutionId && mayRead("executions: read") && (
                <Part title={t`Where it stands`}>
                  <Neighbours item={item} around={around} />
                </Part>
              )}
              <Part title={t`Facts`}>
                <Facts item={item} />
              </Part>
              <Part title={t`History`}>
                <History item={item} />
              </Part>
            </aside>
          </div>
        </div>
        {rejecting && (
          <Reject
            item={item}
            reason={draft.reason ?? ""}
            setReason={(reason) => setDraft({ reason: reason || undefined })}
            onClose={() => {
              setRejecting(false);
              focus();
            }}
            onReject={(choice) => {
              setRejecting(false);
              onDecide(choice);
            }}
          />
        )}
      </div>
      {isOpen(item) && (
        <Bar
          comment={draft.comment ?? ""}
          setComment={(comment) => setDraft({ comment: comment || undefined })}
          toMend={toMend}
          mend={mend}
          notice={early ? "early" : seen || view !== "output" ? undefined : "unseen"}
          toEnd={toEnd}
          skip={hasNext ? onNext : undefined}
          reject={isArmed && !isHidden ? reject : undefined}
          approve={isArmed ? approve : undefined}
          isEdited={isEdited}
        />
      )}
    </article>
  );
}

/** True once the item has been shown for a moment. */
function useSettled(): boolean {
  const [isSettled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLES_MS);
    return () => clearTimeout(timer);
  }, []);
  return isSettled;
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

/** What is wrong with the edit: by the schema as it is written, and by the server's last word on it. */
function useFaults(item: Approval, draft: Partial<Draft>, refusal: Refusal | undefined) {
  const schema = item.task?.outputSchema;
  const check = useMemo(() => (schema ? checker(schema, "output") : undefined), [schema]);
  const { isWrong, onWrong } = useWrong();
  const found = useMemo(
    () => (draft.edit !== undefined && check ? check(draft.edit) : []),
    [draft.edit, check],
  );
  // Since it was changed, the server has not seen it.
  const isOfThis = refusal?.isEdit && (draft.at ?? 0) <= refusal.at;
  const said = isOfThis ? refusedFields(refusal.message, "output") : [];
  const toMend = found.filter(({ mild }) => !mild).length + (isWrong ? 1 : 0);
  return { schema, faults: [...said, ...found], toMend, onWrong };
}
