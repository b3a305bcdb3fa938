/** Cost or tokens by day, stacked by model, template, tag or account. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueries } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { get } from "../../api/client";
import { useApi } from "../../api/hooks";
import { axisMoney, count, money, short } from "../../lib/format";
import { useParams } from "../../lib/search";
import { Button, Failed, Loading, Panel } from "../../ui/basics";
import { Scroll } from "../../ui/sized";
import { type By, Name, WORDS } from "./costs";
import { download, tableOf } from "./figures";
import { type Bucket, bucketsOf, heights, LAYERS, type Layer, layersOf, type Sum } from "./stack";

const Chart = lazy(() => import("./chart"));
const PATH = "/api/usage" as const;
const GROUPS: By[] = ["model", "template", "tag", "account"];
const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5"];
const REST = "--c6";
const NONE: Bucket[] = [];

function stackedTitle(isTokens: boolean, isByDay: boolean, word: string) {
  if (isByDay) return isTokens ? t`Tokens by day and ${word}` : t`Cost by day and ${word}`;
  return isTokens ? t`Tokens by week and ${word}` : t`Cost by week and ${word}`;
}

export function Stacked({ days, tagKey }: { days: string[]; tagKey: string }) {
  const [params, set] = useParams();
  const groups: By[] = tagKey ? [...GROUPS, "tagKey"] : GROUPS;
  const by = groups.find((each) => each === params.get("stack")) ?? (tagKey ? "tagKey" : "model");
  const dayNames = JSON.stringify(days);
  const isTokens = params.get("of") === "tokens";
  const buckets = useMemo(() => bucketsOf(JSON.parse(dayNames), Date.now()), [dayNames]);
  const { spans, error, isReading } = useSpans(buckets, by, tagKey);
  const figure = isTokens ? (sum: Sum) => sum.input + sum.output : (sum: Sum) => sum.totalCost;
  const layers = layersOf(spans, figure);
  const tops = heights(layers);
  const text = isTokens ? count : money;
  const word = by === "tagKey" ? tagKey : WORDS[by];
  return (
    <Panel title={stackedTitle(isTokens, buckets.length === days.length, word)}>
      <div className="pad stack">
        <div className="filters">
          <select
            className="select"
            aria-label={t`Stacked by`}
            value={by}
            onChange={(event) => set({ stack: event.target.value })}
          >
            {groups.map((each) => (
              <option key={each} value={each}>
                {each === "tagKey" ? tagKey : each}
              </option>
            ))}
          </select>
          <select
            className="select"
            aria-label={t`Figure`}
            value={isTokens ? "tokens" : "cost"}
            onChange={(event) => set({ of: event.target.value === "tokens" ? "tokens" : undefined })}
          >
            <option value="cost">{t`cost`}</option>
            <option value="tokens">{t`tokens`}</option>
          </select>
          <Button
            size="small"
            onClick={() =>
              download(
                tableOf(
                  ["from", word, "tasks", "input", "output", "costUsd"],
                  spans.flatMap((sums, index) =>
                    (sums ?? []).map((sum) => [
                      buckets[index]?.name ?? "",
                      sum.key ?? "",
                      sum.tasks,
                      sum.input,
                      sum.output,
                      sum.totalCost,
                    ]),
                  ),
                ),
                `${word}-by-day`,
              )
            }
          >
            CSV
          </Button>
        </div>
        {error ? (
          <Failed error={error} what={t`It cannot be added up`} />
        ) : isReading ? (
          <Loading lines={6} />
        ) : (
          <>
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                label={isTokens ? t`Tokens by ${word}, stacked` : t`Cost by ${word}, stacked`}
                x={buckets.map((_, index) => index)}
                xRange={[-0.5, buckets.length - 0.5]}
                xText={(value) => buckets[value]?.name.slice(5) ?? ""}
                yText={isTokens ? short : axisMoney}
                // The highest is drawn first: each further one covers what is beneath it.
                lines={layers
                  .map((layer, index) => ({
                    label: layer.key ?? "",
                    kind: "bars" as const,
                    colour: colourOf(layer, index),
                    values: tops[index] ?? [],
                  }))
                  .reverse()}
              />
            </Suspense>
            {by === "tag" && (
              <p className="small soft">
                <Trans>A task with several tags counts for each of them.</Trans>
              </p>
            )}
            <Legend layers={layers} by={by} tagKey={tagKey} text={text} />
          </>
        )}
      </div>
    </Panel>
  );
}

const colourOf = ({ isRest }: Layer, index: number) => (isRest ? REST : (COLOURS[index % LAYERS] ?? REST));

type LegendProps = { layers: Layer[]; by: By; tagKey: string; text: (value: number) => string };

/** The chart as a table: the colour, the group, its sum and its share. */
function Legend({ layers, by, tagKey, text }: LegendProps) {
  const all = layers.reduce((sum, { total }) => sum + total, 0);
  return (
    <Scroll>
      <table className="plain-table insights-dense">
        <tbody>
          {layers.map((layer, index) => (
            <tr key={layer.isRest ? "rest" : `of ${layer.key}`}>
              <th scope="row">
                <i className="insights-colour" style={{ background: `var(${colourOf(layer, index)})` }} />
                {layer.isRest ? t`all others` : <Name by={by} name={layer.key} tagKey={tagKey} />}
              </th>
              <td className="num">{text(layer.total)}</td>
              <td className="num">{all > 0 ? `${Math.round((layer.total / all) * 100)} %` : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The groups of each span. What has ended is read once; only the span of today is read again after events. */
function useSpans(buckets: Bucket[], by: By, tagKey: string) {
  const queryOf = ({ from, to }: Bucket) => ({
    query: { groupBy: by, from, to, ...(by === "tagKey" && { tagKey }) },
  });
  const closed = buckets.filter(({ isOpen }) => !isOpen);
  const open = buckets.find(({ isOpen }) => isOpen);
  const past = useQueries({
    queries: (closed.length > 0 ? closed : NONE).map((bucket) => ({
      queryKey: ["usage of a span that has ended", queryOf(bucket)],
      queryFn: ({ signal }: { signal: AbortSignal }) => get(PATH, queryOf(bucket), signal),
      retry: false,
    })),
  });
  const today = useApi(PATH, open && queryOf(open), { enabled: open !== undefined });
  const reads = [...past, ...(open ? [today] : [])];
  return {
    spans: reads.map(({ data }) => data?.groups),
    error: reads.find(({ error }) => error)?.error ?? undefined,
    isReading: reads.some(({ data }) => data === undefined),
  };
}
