/** How sure the rows are: counted from the export, for any number of rows. A bar chooses its rows. */
import { plural, t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../../api/client";
import { count, percent, ratio } from "../../lib/format";
import { inProject } from "../../lib/project";
import type { useParams } from "../../lib/search";
import { Button, Failed, Loading, Panel } from "../../ui/basics";
import type { Batch } from "./read";
import { Reviews } from "./reviews";

type Params = ReturnType<typeof useParams>[0];
type Change = ReturnType<typeof useParams>[1];

export type Histogram = { bins: number[]; none: number };
export const BINS = 10;
/** So many rows are counted without being asked for: a second of the server's time. */
const AT_ONCE = 10_000;

/** Counts the lines of a column of confidences, which come in pieces. */
export class Counter {
  readonly histogram: Histogram = { bins: Array.from({ length: BINS }, () => 0), none: 0 };
  private rest = "";
  private isHeader = true;

  feed(piece: string) {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line);
  }

  finish(): Histogram {
    if (this.rest !== "") this.line(this.rest);
    this.rest = "";
    return this.histogram;
  }

  private line(line: string) {
    if (this.isHeader) {
      this.isHeader = false;
      return;
    }
    const cell = line.replaceAll('"', "").trim();
    const value = cell === "" ? Number.NaN : Number(cell);
    const { bins } = this.histogram;
    if (Number.isNaN(value)) this.histogram.none += 1;
    else {
      const at = Math.min(BINS - 1, Math.max(0, Math.floor(value * BINS + 1e-9)));
      bins[at] = (bins[at] ?? 0) + 1;
    }
  }
}

async function counted(id: string, step: string, signal: AbortSignal): Promise<Histogram> {
  const query = new URLSearchParams({ format: "csv", columns: `steps.${step}.confidence` });
  const answer = await fetch(inProject(`/api/batches/${id}/export?${query}`), { signal });
  if (!answer.ok || !answer.body) {
    throw new ApiError(
      answer.status,
      "UNKNOWN",
      t`the server answered ${answer.status}`,
      {},
      answer.status >= 500,
    );
  }
  const counter = new Counter();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return counter.finish();
    counter.feed(value);
  }
}

export function Confidence({
  batch,
  step,
  params,
  set,
}: {
  batch: Batch;
  step: string;
  params: Params;
  set: Change;
}) {
  const [asked, setAsked] = useState(false);
  const [reviews, setReviews] = useState(false);
  const isOver = batch.status === "completed" || batch.status === "cancelled";
  const read = useQuery<Histogram, ApiError>({
    // What has ended is counted anew if rows run again.
    queryKey: ["/api/batches/{id}/export", batch.id, step, isOver && batch.completedAt],
    queryFn: ({ signal }) => counted(batch.id, step, signal),
    enabled: asked || batch.rows <= AT_ONCE,
  });
  const chosen: [number, number] | undefined =
    params.has("min") || params.has("max")
      ? [Number(params.get("min") ?? 0), Number(params.get("max") ?? 1)]
      : undefined;
  return (
    <Panel
      title={t`Confidence of ${step}`}
      actions={
        <>
          {!isOver && read.data && (
            <Button size="small" kind="quiet" busy={read.isFetching} onClick={() => void read.refetch()}>
              <Trans>Count again</Trans>
            </Button>
          )}
          <Button
            size="small"
            icon="review"
            needs="batches: run"
            data-tip={t`Outputs that have passed are reviewed afterwards: nothing waits for it.`}
            onClick={() => setReviews(true)}
          >
            <Trans>Review some</Trans>
          </Button>
        </>
      }
    >
      {reviews && <Reviews id={batch.id} step={step} onClose={() => setReviews(false)} />}
      <div className="batches-confidence">
        {read.error && !read.data ? (
          <Failed
            error={read.error}
            what={t`The confidences were not counted`}
            retry={() => void read.refetch()}
          />
        ) : read.data ? (
          <Bars histogram={read.data} chosen={chosen} set={set} />
        ) : read.isFetching ? (
          <Loading lines={3} />
        ) : (
          <Button onClick={() => setAsked(true)}>
            <Plural value={batch.rows} one="Count # row" other="Count # rows" />
          </Button>
        )}
      </div>
    </Panel>
  );
}

function Bars({
  histogram: { bins, none },
  chosen,
  set,
}: {
  histogram: Histogram;
  chosen: [number, number] | undefined;
  set: Change;
}) {
  const most = Math.max(1, ...bins);
  const all = bins.reduce((sum, number) => sum + number, 0);
  return (
    <>
      <ul className="batches-bars" aria-label={t`Rows by confidence, ${count(all)} in all`}>
        {bins.map((number, at) => {
          const [from, to] = [at / BINS, (at + 1) / BINS];
          const range = t`${ratio(from)} to ${ratio(to)}`;
          const said = plural(number, { one: "# row", other: "# rows" });
          // A filter has both of its ends: the upper one of a bar belongs to the next.
          const last = at === BINS - 1 ? to : to - 1e-6;
          const isOn = chosen !== undefined && from >= chosen[0] - 1e-9 && last <= chosen[1] + 1e-9;
          return (
            <li key={from}>
              <button
                type="button"
                aria-pressed={isOn}
                disabled={number === 0}
                aria-label={`${range}: ${said}`}
                data-tip={`${range}\n${said}, ${percent(all ? number / all : 0)}`}
                onClick={() =>
                  set(
                    isOn && chosen && chosen[1] - chosen[0] < 1.5 / BINS
                      ? { min: undefined, max: undefined, order: undefined }
                      : {
                          min: from.toFixed(2),
                          max: String(Number(last.toFixed(6))),
                          order: "confidence.asc",
                        },
                  )
                }
              >
                <i style={{ height: `${number === 0 ? 0 : Math.max(3, (number / most) * 100)}%` }} />
              </button>
            </li>
          );
        })}
      </ul>
      <div className="batches-axis faint small" aria-hidden="true">
        <span>{ratio(0)}</span>
        <span>{ratio(0.5)}</span>
        <span>{ratio(1)}</span>
      </div>
      {none > 0 && (
        <p className="faint small">
          <Plural value={none} one="# row has none." other="# rows have none." />
        </p>
      )}
    </>
  );
}
