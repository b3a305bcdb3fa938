/** Tokens and cost of the tasks of some days: by day, model, template and tag. */
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef } from "react";
import { Link } from "wouter";
import { ApiError, type DataOf, type Schemas } from "../../api/client";
import { useApi } from "../../api/hooks";
import { axisMoney, count, money } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useParams } from "../../lib/search";
import { lastDays, midnight, zone } from "../../lib/span";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Button, Empty, Failed, Loaded, Loading, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Scroll } from "../definition/sized";
import { TextFilter } from "../executions/filters";
import { csvOf } from "./figures";

const Chart = lazy(() => import("./chart"));
const PATH = "/api/usage" as const;
const WINDOWS = [7, 30, 90];
/** The server adds up many rows for it. */
const EVERY = 10_000;
const SHOWN = 50;

type Sum = Schemas["UsageSum"];
type Groups = DataOf<typeof PATH>;
type By = "day" | "model" | "template" | "tag" | "tagKey";

export default function Costs() {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const again = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void client.invalidateQueries({ queryKey: [PATH] });
    }, EVERY);
  };
  useLive(["task.completed", "task.rejected", "hitl.pending"], undefined, again, again);
  useEffect(() => () => clearTimeout(timer.current), []);
  const [params, set] = useParams();
  const window = WINDOWS.find((each) => String(each) === params.get("days")) ?? 7;
  const shown = lastDays(window);
  const first = shown[0] as string;
  const from = new Date(midnight(first)).toISOString();
  const timezone = zone();
  const read = useApi(PATH, { query: { groupBy: "day", from, timezone } });
  const before = useApi(PATH, {
    query: { groupBy: "model", from: new Date(midnight(first, -window)).toISOString(), to: from },
  });
  const tagKey = params.get("tagKey") ?? "";
  const isMany = read.error instanceof ApiError && read.error.status === 400;
  return (
    <>
      <div className="filters">
        <select
          className="select"
          aria-label="Days"
          value={window}
          onChange={(event) => set({ days: event.target.value })}
        >
          {WINDOWS.map((each) => (
            <option key={each} value={each}>
              {each} days
            </option>
          ))}
        </select>
        <TextFilter name="tagKey" label="Tag key, such as customer" params={params} set={set} />
        {read.data && (
          <Button size="small" onClick={() => download(read.data, first)}>
            CSV
          </Button>
        )}
        <span className="faint small">
          By the day of each result in {timezone}, held ones too; of tasks that are still stored.
        </span>
      </div>
      {isMany ? (
        <Failed error={read.error as ApiError} what="There are too many tasks to add up: choose fewer days" />
      ) : (
        <Loaded query={read}>
          {(found) =>
            found.total.tasks === 0 ? (
              <Empty
                title="No task of these days has a result"
                command={'callboard tasks submit "Say hello." --wait'}
                needs="tasks: create"
                action={<RunExample of="task" />}
              >
                What each task used is added up here, by day, model, template and tag.
              </Empty>
            ) : (
              <Found
                found={found}
                before={before.data?.total}
                days={window}
                from={from}
                shown={shown}
                tagKey={tagKey}
              />
            )
          }
        </Loaded>
      )}
    </>
  );
}

type FoundProps = {
  found: Groups;
  before: Sum | undefined;
  days: number;
  from: string;
  shown: string[];
  tagKey: string;
};

function Found({ found, before, days, from, shown, tagKey }: FoundProps) {
  const { total } = found;
  const byDay = new Map(found.groups.map((sum) => [sum.key, sum]));
  const of = (figure: (sum: Sum) => number) =>
    shown.map((each) => {
      const sum = byDay.get(each);
      return sum ? figure(sum) : 0;
    });
  const bars = {
    x: shown.map((_, index) => index),
    xRange: [-0.5, shown.length - 0.5] as [number, number],
    xText: (value: number) => shown[value]?.slice(5) ?? "",
  };
  return (
    <>
      <div className="insights-two">
        <Panel
          title="Cost by day"
          actions={
            <span className="soft small">
              {money(total.totalCost)} in all{total.priceUnknown && ", some prices unknown"}
              {before && (
                <>
                  ; {money(before.totalCost)} in the {days} days before{" "}
                  {change(total.totalCost, before.totalCost)}
                </>
              )}
            </span>
          }
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                {...bars}
                label="Cost of tasks by the day of their result"
                yText={axisMoney}
                lines={[
                  { label: "cost", kind: "bars", colour: "--accent", values: of((sum) => sum.totalCost) },
                ]}
              />
            </Suspense>
          </div>
        </Panel>
        <Panel
          title="Tokens by day"
          actions={
            <span className="soft small">
              {count(total.input + total.output)} in all
              {before && `; ${count(before.input + before.output)} before`}
            </span>
          }
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                {...bars}
                label="Tokens of tasks by the day of their result"
                yText={count}
                lines={[
                  {
                    label: "tokens",
                    kind: "bars",
                    colour: "--accent",
                    values: of((sum) => sum.input + sum.output),
                  },
                ]}
              />
            </Suspense>
          </div>
        </Panel>
      </div>
      <div className="insights-two">
        <Grouped by="model" from={from} />
        <Grouped by="template" from={from} />
        {tagKey ? <Grouped by="tagKey" from={from} tagKey={tagKey} /> : <Grouped by="tag" from={from} />}
        <Panel title="By day">
          <Sums sums={found.groups.toSorted((a, b) => ((a.key ?? "") < (b.key ?? "") ? 1 : -1))} by="day" />
        </Panel>
      </div>
    </>
  );
}

function Grouped({ by, from, tagKey }: { by: By; from: string; tagKey?: string }) {
  const read = useApi(PATH, { query: { groupBy: by, from, tagKey } });
  return (
    <Panel
      title={`By ${tagKey ?? by}`}
      actions={
        read.data && (
          <Button size="small" kind="quiet" onClick={() => download(read.data, tagKey ?? by)}>
            CSV
          </Button>
        )
      }
    >
      <Loaded query={read}>{({ groups }) => <Sums sums={groups} by={by} tagKey={tagKey} />}</Loaded>
    </Panel>
  );
}

/** "(+12 %)"; nothing where there was nothing before. */
function change(now: number, before: number): string {
  if (before === 0) return "";
  const share = Math.round((now / before - 1) * 100);
  return `(${share >= 0 ? "+" : "−"}${Math.abs(share)} %)`;
}

function download({ groups, groupBy }: Groups, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvOf(groups, groupBy)], { type: "text/csv" }));
  link.download = `callboard-cost-${name}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

const NAMES: Record<By, string> = {
  day: "Day",
  model: "Model",
  template: "Template",
  tag: "Tag",
  tagKey: "Value",
};

function Name({ by, name, tagKey }: { by: By; name: string | undefined; tagKey?: string }) {
  const nameOf = useNameOf();
  if (name === undefined) return <span className="soft">no {tagKey ?? by}</span>;
  if (by === "template")
    return <Link href={`/templates/${name}`}>{visible(nameOf({ templateId: name }))}</Link>;
  if (by === "tagKey")
    return <Link href={`/tasks?tags=${encodeURIComponent(`${tagKey}:${name}`)}`}>{visible(name)}</Link>;
  if (by === "model") return <Link href={`/tasks?model=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  if (by === "tag") return <Link href={`/tasks?tags=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  return name;
}

function Sums({ sums, by, tagKey }: { sums: Sum[]; by: By; tagKey?: string }) {
  return (
    <>
      <Scroll>
        <table className="definition-table insights-dense">
          <thead>
            <tr>
              <th scope="col">{NAMES[by]}</th>
              {["Tasks", "Input", "Output", "Cost"].map((each) => (
                <th key={each} scope="col" className="num">
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sums.slice(0, SHOWN).map((sum) => (
              <tr key={sum.key ?? ""}>
                <th scope="row">
                  <Name by={by} name={sum.key} tagKey={tagKey} />
                </th>
                <td className="num">{count(sum.tasks)}</td>
                <td className="num">{count(sum.input)}</td>
                <td className="num">{count(sum.output)}</td>
                <td className="num">
                  {money(sum.totalCost)}
                  {sum.priceUnknown && (
                    <span className="faint" data-tip="A model without a price counts as $0.">
                      {" "}
                      + ?
                    </span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {sums.length > SHOWN && (
        <p className="definition-pad small soft">
          The {SHOWN} that cost most, of {count(sums.length)}.
        </p>
      )}
    </>
  );
}
