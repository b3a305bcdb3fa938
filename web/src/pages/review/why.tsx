/** Why an output is held, and why by this reviewer: in a sentence, and in figures of outputs like it. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { duration, percent, ratio } from "../../lib/format";
import { useNames } from "../../lib/people";
import { useMay, useWho } from "../../session/session";
import { Ago } from "../../ui/time";
import { Reassign } from "./reassign";
import { isOpen } from "./review";

/** Why it is held, whose it is, and since when. */
export function Reason({ item }: { item: Approval }) {
  return (
    <p className="review-reason">
      {reasonText(item)}{" "}
      {item.reason === "requested" ? (
        <Trans>
          Asked <Ago at={item.createdAt} />.
        </Trans>
      ) : (
        <Trans>
          Held <Ago at={item.createdAt} />.
        </Trans>
      )}
      {isOpen(item) && <Whose item={item} />}
    </p>
  );
}

function Whose({ item }: { item: Approval }) {
  const nameOf = useNames();
  const may = useMay()("hitl: approve/reject");
  const history = useApi("/api/hitl/{taskId}/history", { path: { taskId: item.taskId } });
  const to = nameOf(item.assignedTo);
  const others = item.assignedTo !== useWho().user.id && may ? t`; you may decide it too` : "";
  if (!item.assignedTo)
    return (
      <>
        {" "}
        {may ? <Trans>Nobody has it: any reviewer may decide it.</Trans> : <Trans>Nobody has it.</Trans>}{" "}
        {may && <Reassign item={item} />}
      </>
    );
  const given = history.data?.findLast(({ action }) => action === "assigned" || action === "escalated");
  const after = given?.details?.escalationAfterMs;
  const isLate = given?.action === "escalated" && given.from && given.from !== item.assignedTo;
  return (
    <>
      {" "}
      {isLate ? (
        after ? (
          <Trans>
            It came to {to} <Ago at={given.timestamp} />, because {nameOf(given.from)} had not decided within{" "}
            {duration(after)}
          </Trans>
        ) : (
          <Trans>
            It came to {to} <Ago at={given.timestamp} />, because {nameOf(given.from)} had not decided in time
          </Trans>
        )
      ) : given ? (
        <Trans>
          Assigned to {to} <Ago at={given.timestamp} />
        </Trans>
      ) : (
        <Trans>Assigned to {to}</Trans>
      )}
      {others}. {may && <Reassign item={item} />}
      {item.status === "expired" && (
        <>
          {" "}
          <Trans>
            Its review time ended <Ago at={item.timeoutAt} />.
          </Trans>
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
        <dt>
          <Trans>Confidence</Trans>
        </dt>
        <dd>
          {ratio(confidence)}
          {item.confidenceSource && item.confidenceSource !== "none" && (
            <span className="faint">, {SOURCES[item.confidenceSource] ?? item.confidenceSource}</span>
          )}
        </dd>
        <dt>
          <Trans>Threshold</Trans>
        </dt>
        <dd>
          {ratio(threshold)}{" "}
          {reason === "required" && (
            <span className="faint">
              <Trans>(held at any confidence)</Trans>
            </span>
          )}
        </dd>
      </dl>
      {item.untested && (
        <p className="small soft">
          <Trans>Untested: fewer than 20 outputs of this step, method and model have been decided.</Trans>
        </p>
      )}
      {may("hitl: read statistics") && <Record item={item} />}
    </div>
  );
}

const SOURCES: Record<string, string> = {
  logprobs: t`from the token probabilities`,
  samples: t`from repeated answers`,
  judge: t`by a judging model`,
  reported: t`as the worker reported it`,
};

function reasonText({ reason, confidence, threshold, sampled, stepId, field }: Approval): string {
  if (sampled) return t`It would have passed. It is held as a sample, to learn how good such outputs are.`;
  switch (reason) {
    case "required":
      return stepId ? t`Every output of this step is held.` : t`The caller asked for a review.`;
    case "below_threshold":
      return t`Its confidence is ${ratio(confidence)}, below ${ratio(threshold)}.`;
    case "requested":
      return field
        ? t`The output has passed, and nothing waits for the decision: a review of ${field} was asked for.`
        : t`The output has passed, and nothing waits for the decision: a review was asked for.`;
    case "no_confidence":
      return t`The worker gave no confidence.`;
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
      ? t`without a confidence`
      : t`at ${ratio((mine as { from?: number }).from)}–${ratio((mine as { to?: number }).to)}`;
  const scope = isKnown ? t`of this step` : t`of any step or task`;
  if (all === 0)
    return (
      <p className="faint small">
        <Trans>
          No output {scope} was decided yet {range}.
        </Trans>
      </p>
    );
  return (
    <div className="stack review-record">
      <p className="small soft">
        <Plural
          value={all}
          one={`# decision on outputs ${scope} ${range}`}
          other={`# decisions on outputs ${scope} ${range}`}
        />
      </p>
      <div className="review-shares" aria-hidden="true">
        {mine.approved > 0 && <i data-tone="good" style={{ flexGrow: mine.approved }} />}
        {mine.edited > 0 && <i data-tone="warn" style={{ flexGrow: mine.edited }} />}
        {mine.rejected > 0 && <i data-tone="bad" style={{ flexGrow: mine.rejected }} />}
      </div>
      <p className="small">
        <Trans>
          {percent(mine.approved / all)} approved · {percent(mine.edited / all)} edited ·{" "}
          {percent(mine.rejected / all)} rejected
        </Trans>
      </p>
    </div>
  );
}
