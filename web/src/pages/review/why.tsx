/** Why an output is held, and why by this reviewer: in a sentence, and in figures of outputs like it. */
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { duration, percent, plural, ratio } from "../../lib/format";
import { useNames } from "../../lib/people";
import { useMay } from "../../session/session";
import { Ago } from "../../ui/time";
import { Reassign } from "./reassign";
import { isOpen } from "./review";

/** Why it is held, whose it is, and since when. */
export function Reason({ item }: { item: Approval }) {
  return (
    <p className="review-reason">
      {reasonText(item)} {item.reason === "requested" ? "Asked" : "Held"} <Ago at={item.createdAt} />.{isOpen(item) && <Whose item={item} />}
    </p>
  );
}

function Whose({ item }: { item: Approval }) {
  const nameOf = useNames();
  const may = useMay()("hitl: approve/reject");
  const history = useApi("/api/hitl/{taskId}/history", { path: { taskId: item.taskId } });
  const to = nameOf(item.assignedTo);
  const others = to !== "you" && may ? "; you may decide it too" : "";
  if (!item.assignedTo)
    return (
      <>
        {" "}
        Nobody has it{may && ": any reviewer may decide it"}. {may && <Reassign item={item} />}
      </>
    );
  const given = history.data?.findLast(({ action }) => action === "assigned" || action === "escalated");
  const after = given?.details?.escalationAfterMs;
  const isLate = given?.action === "escalated" && given.from && given.from !== item.assignedTo;
  return (
    <>
      {" "}
      {isLate ? "It came to" : "Assigned to"} {to}
      {given && (
        <>
          {" "}
          <Ago at={given.timestamp} />
        </>
      )}
      {isLate &&
        `, because ${nameOf(given.from)} had not decided${after ? ` within ${duration(after)}` : " in time"}`}
      {others}. {may && <Reassign item={item} />}
      {item.status === "expired" && (
        <>
          {" "}
          Its review time ended <Ago at={item.timeoutAt} />.
        </>
      )}
    </>
  );
}

export function Why({ item }: { item: Approval }) {
  const may = useMay();
  const { confidence, threshold, reason } = item;
  return (
    <div className="review-why">
      {confidence !== undefined && (
        <div className="review-scale" aria-hidden="true">
          <i
            className="review-scale-value"
            style={{ width: `${confidence * 100}%` }}
            data-against={threshold === undefined ? "none" : confidence < threshold ? "below" : "above"}
          />
          {threshold !== undefined && <b style={{ left: `${threshold * 100}%` }} />}
        </div>
      )}
      <dl className="facts small">
        <dt>Confidence</dt>
        <dd>
          {ratio(confidence)}
          {item.confidenceSource && item.confidenceSource !== "none" && (
            <span className="faint">, {SOURCES[item.confidenceSource] ?? item.confidenceSource}</span>
          )}
        </dd>
        <dt>Threshold</dt>
        <dd>
          {ratio(threshold)}{" "}
          {reason === "required" && <span className="faint">(held at any confidence)</span>}
        </dd>
      </dl>
      {item.untested && (
        <p className="small soft">
          Untested: fewer than 20 outputs of this step, method and model have been decided.
        </p>
      )}
      {may("hitl: read statistics") && <Record item={item} />}
    </div>
  );
}

const SOURCES: Record<string, string> = {
  logprobs: "from the token probabilities",
  samples: "from repeated answers",
  judge: "by a judging model",
  reported: "as the worker reported it",
};

function reasonText({ reason, confidence, threshold, sampled, stepId, field }: Approval): string {
  if (sampled) return "It would have passed. It is held as a sample, to learn how good such outputs are.";
  switch (reason) {
    case "required":
      return stepId ? "Every output of this step is held." : "The caller asked for a review.";
    case "below_threshold":
      return `Its confidence is ${ratio(confidence)}, below ${ratio(threshold)}.`;
    case "requested":
      return field
        ? `The output has passed, and nothing waits for the decision: a review of ${field} was asked for.`
        : "The output has passed, and nothing waits for the decision: a review was asked for.";
    case "no_confidence":
      return "The worker gave no confidence.";
    default:
      return reason.replaceAll("_", " ");
  }
}

type Tally = { approved: number; edited: number; rejected: number };

/** What reviewers made of outputs of the same step with a confidence like this one's. */
function Record({ item }: { item: Approval }) {
  const query = { templateId: item.templateId, stepId: item.stepId };
  const isKnown = item.templateId !== undefined && item.stepId !== undefined;
  const { data } = useApi("/api/hitl/calibration", { query: isKnown ? query : {} });
  if (!data) return null;
  const { confidence } = item;
  const deciles = data.deciles as (Tally & { from: number; to: number })[];
  const mine =
    confidence === undefined
      ? (data.noConfidence as Tally)
      : deciles.find(
          (it, index) => confidence >= it.from && (confidence < it.to || index === deciles.length - 1),
        );
  if (!mine) return null;
  const all = mine.approved + mine.edited + mine.rejected;
  const range =
    confidence === undefined
      ? "without a confidence"
      : `at ${ratio((mine as { from?: number }).from)}–${ratio((mine as { to?: number }).to)}`;
  const scope = isKnown ? "of this step" : "of any step or task";
  if (all === 0)
    return (
      <p className="faint small">
        No output {scope} was decided yet {range}.
      </p>
    );
  return (
    <div className="stack review-record">
      <p className="small soft">
        {plural(all, "decision")} on outputs {scope} {range}
      </p>
      <div className="review-shares" aria-hidden="true">
        {mine.approved > 0 && <i data-tone="good" style={{ flexGrow: mine.approved }} />}
        {mine.edited > 0 && <i data-tone="warn" style={{ flexGrow: mine.edited }} />}
        {mine.rejected > 0 && <i data-tone="bad" style={{ flexGrow: mine.rejected }} />}
      </div>
      <p className="small">
        {percent(mine.approved / all)} approved · {percent(mine.edited / all)} edited ·{" "}
        {percent(mine.rejected / all)} rejected
      </p>
    </div>
  );
}
