/** Tokens and cost of the tasks of some days: by day, model, template and tag. */
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef } from "react";
import { Link } from "wouter";
import { ApiError, type DataOf, type Schemas } from "../../api/client";
import { useApi } from "../../api/hooks";
import { axisMoney, count, money } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Empty, Failed, Loaded, Loading, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Scroll } from "../definition/sized";
import { days } from "./figures";

const Chart = lazy(() => import("./chart"));
const PATH = "/api/usage" as const;
const WINDOWS = [7, 30, 90];
const DAY = 86_400_000;
/** The server adds up many rows for it. */
const EVERY = 10_000;
const SHOWN = 50;

type Sum = Schemas["UsageSum"];
type Groups = DataOf<typeof PATH>;
type By = "day" | "model" | "template" | "tag";

export default function Costs() {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const again = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void client.invalidateQueries({ queryKey: [PATH] });
    }, EVERY);
  };
  useLive(["task.completed", "task.rejected"], undefined, again, again);
  useEffect(() => () => clearTimeout(timer.current), []);
  const [params, set] = useParams();
  const window = WINDOWS.find((each) => String(each) === params.get("days")) ?? 7;
  const today = new Date().toISOString().slice(0, 10);
  const first = new Date(Date.parse(`${today}T00:00:00Z`) - (window - 1) * DAY).toISOString().slice(0, 10);
  const from = `${first}T00:00:00Z`;
  const read = useApi(PATH, { query: { groupBy: "day", from } });
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
        <span className="faint small">
          By the UTC day on which a task was submitted; of tasks that are still stored.
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
              <Found found={found} from={from} shown={days(first, today)} />
            )
          }
        </Loaded>
      )}
    </>
  );
}

function Found({ found, from, shown }: { found: Groups; from: string; shown: string[] }) {
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
            </span>
          }
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                {...bars}
                label="Cost of tasks by the day of their submission"
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
          actions={<span className="soft small">{count(total.input + total.output)} in all</span>}
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                {...bars}
                label="Tokens of tasks by the day of their submission"
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
        <Grouped by="tag" from={from} />
        <Panel title="By day">
          <Sums sums={found.groups.toSorted((a, b) => ((a.key ?? "") < (b.key ?? "") ? 1 : -1))} by="day" />
        </Panel>
      </div>
    </>
  );
}

function Grouped({ by, from }: { by: By; from: string }) {
  const read = useApi(PATH, { query: { groupBy: by, from } });
  return (
    <Panel title={`By ${by}`}>
      <Loaded query={read}>{({ groups }) => <Sums sums={groups} by={by} />}</Loaded>
    </Panel>
  );
}

const NAMES: Record<By, string> = { day: "Day", model: "Model", template: "Template", tag: "Tag" };

function Name({ by, name }: { by: By; name: string | undefined }) {
  if (name === undefined) return <span className="soft">no {by}</span>;
  if (by === "template") return <Link href={`/templates/${name}`}>{name}</Link>;
  if (by === "model") return <Link href={`/tasks?model=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  if (by === "tag") return <Link href={`/tasks?tags=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  return name;
}

function Sums({ sums, by }: { sums: Sum[]; by: By }) {
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
                  <Name by={by} name={sum.key} />
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
