/** How far a batch is: a bar of its rows by status, and the figures. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNow } from "../../lib/clock";
import { count, duration, money, percent, short } from "../../lib/format";
import { lookOf, Status } from "../../ui/status";
import type { Batch } from "./read";

/** The statuses of rows in the order in which they come, and the members of `progress`. */
export const STATUSES = [
  ["completed", "completed"],
  ["awaiting_approval", "awaitingApproval"],
  ["running", "running"],
  ["pending", "pending"],
  ["failed", "failed"],
  ["rejected", "rejected"],
  ["invalid", "invalid"],
  ["cancelled", "cancelled"],
] as const;

export type RowStatus = (typeof STATUSES)[number][0];

/** The rows that have ended, however. */
export function endedOf({ progress }: Pick<Batch, "progress">): number {
  const { total, pending, running, awaitingApproval } = progress;
  return Math.max(0, total - pending - running - awaitingApproval);
}

/** The bar; its parts are named beside it, in words. */
export function Bar({ batch, small = false }: { batch: Batch; small?: boolean }) {
  const { progress, rows } = batch;
  const shares = STATUSES.map(([status, member]) => [status, progress[member]] as const);
  const said = shares.filter(([, number]) => number > 0).map(([status, number]) => words(status, number));
  return (
    <span
      className="batches-bar"
      data-small={small}
      role="img"
      aria-label={t`${count(endedOf(batch))} of ${count(rows)} rows have ended: ${said.join(", ")}`}
    >
      {shares
        .filter(([status, number]) => number > 0 && status !== "pending")
        .map(([status, number]) => (
          <i
            key={status}
            data-tone={lookOf(status).tone}
            data-status={status}
            style={{ width: `${(number / Math.max(1, rows)) * 100}%` }}
          />
        ))}
    </span>
  );
}

const words = (status: RowStatus, number: number) => `${count(number)} ${lookOf(status).word}`;

/** The rows by status, each a filter of the table. */
export function Counts({
  batch,
  chosen,
  set,
}: {
  batch: Batch;
  chosen: readonly string[];
  set: (chosen: string[]) => void;
}) {
  return (
    <fieldset className="batches-counts">
      <legend className="hide">
        <Trans>Status of the rows</Trans>
      </legend>
      {STATUSES.map(([status, member]) => {
        const number = batch.progress[member];
        const isOn = chosen.includes(status);
        if (number === 0 && !isOn) return null;
        const next = isOn ? chosen.filter((it) => it !== status) : [...chosen, status];
        return (
          <button key={status} type="button" aria-pressed={isOn} onClick={() => set(next)}>
            <Status state={status} /> <strong className="num">{count(number)}</strong>
          </button>
        );
      })}
    </fieldset>
  );
}

export function Figures({ batch }: { batch: Batch }) {
  const now = useNow();
  const { cost, usage, ratePerMinute, estimatedEnd, startedAt, completedAt, rows } = batch;
  const isOver = batch.status === "completed" || batch.status === "cancelled";
  const ended = endedOf(batch);
  return (
    <dl className="batches-figures">
      <Figure name={t`Ended`} under={t`of ${count(rows)}, ${percent(rows ? ended / rows : 0)}`}>
        {count(ended)}
      </Figure>
      <Figure
        name={t`Cost so far`}
        under={
          usage.priceUnknown
            ? t`a model has no price`
            : !isOver && cost.estimated !== undefined
              ? t`about ${money(cost.estimated)} in all`
              : t`${short(usage.total)} tokens`
        }
        tip={t`Held outputs and failed attempts are counted when they are paid. The sum in all is the estimate of the upload, and later that at the mean cost of the rows so far.`}
      >
        {money(cost.actual)}
      </Figure>
      {(batch.reuse !== undefined || batch.dedupe) && (
        <Figure
          name={t`Saved`}
          under={plural(batch.progress.reused, { one: "# row taken over", other: "# rows taken over" })}
          tip={t`The cost that the answers had which were taken over.`}
        >
          {money(cost.saved)}
        </Figure>
      )}
      {cost.max !== undefined && (
        <Figure name={t`Most`} under={t`${percent(cost.max ? cost.actual / cost.max : 1)} used`}>
          {money(cost.max)}
        </Figure>
      )}
      {isOver ? (
        <Figure name={t`Took`} under={t`from start to end`}>
          {startedAt && completedAt ? duration(Date.parse(completedAt) - Date.parse(startedAt)) : "–"}
        </Figure>
      ) : (
        <>
          <Figure name={t`Rate`} under={t`rows a minute`}>
            {ratePerMinute === undefined ? "–" : short(Math.round(ratePerMinute))}
          </Figure>
          <Figure name={t`Time left`} under={t`at this rate`}>
            {estimatedEnd
              ? duration(Math.max(0, Math.round((Date.parse(estimatedEnd) - now) / 1000) * 1000))
              : "–"}
          </Figure>
        </>
      )}
      <Figure name={t`At a time`} under={t`rows at most`}>
        {count(batch.concurrency)}
      </Figure>
    </dl>
  );
}

function Figure(props: { name: string; under: string; tip?: string; children: React.ReactNode }) {
  return (
    <div data-tip={props.tip}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
      <dd className="faint small">{props.under}</dd>
    </div>
  );
}
