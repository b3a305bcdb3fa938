/** Tokens and cost: of executions by day and template, and of models since the server's start. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Link } from "wouter";
import { type ApiError, getPage, type Schemas } from "../../api/client";
import { count, instant, money } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Empty, Loaded, Loading, Panel } from "../../ui/basics";
import { Scroll } from "../definition/sized";
import { day, days, type Sum, sums } from "./figures";
import { names, useMetrics, value } from "./metrics";

const Chart = lazy(() => import("./chart"));
/** So many executions are read at most; the page says if there are more. */
const MOST = 2_000;
const WINDOWS = [7, 30, 90];

type Executions = { items: Schemas["Execution"][]; total: number };

async function readExecutions(since: string, signal?: AbortSignal): Promise<Executions> {
  const items: Schemas["Execution"][] = [];
  for (;;) {
    const query = { createdAfter: since, limit: 100, offset: items.length };
    const page = await getPage("/api/plans/executions", { query } as never, signal);
    items.push(...page.items);
    if (!page.hasMore || page.items.length === 0 || items.length >= MOST) return { items, total: page.total };
  }
}

export default function Costs() {
  useLive(["execution.completed", "execution.failed", "execution.cancelled"]);
  const [params, set] = useParams();
  const window = WINDOWS.find((each) => String(each) === params.get("days")) ?? 7;
  const today = new Date().toISOString().slice(0, 10);
  const first = new Date(Date.parse(`${today}T00:00:00Z`) - (window - 1) * 86_400_000)
    .toISOString()
    .slice(0, 10);
  const read = useQuery<Executions, ApiError>({
    queryKey: ["/api/plans/executions", { since: first }, "cost"],
    queryFn: ({ signal }) => readExecutions(`${first}T00:00:00Z`, signal),
  });
  const may = useMay();
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
        <span className="faint small">Days are in UTC.</span>
      </div>
      <Loaded query={read}>{(found) => <Executed found={found} first={first} today={today} />}</Loaded>
      {may("metrics: read") && <Models />}
    </>
  );
}

function Executed({ found, first, today }: { found: Executions; first: string; today: string }) {
  const { items, total } = found;
  if (items.length === 0) {
    return (
      <Empty
        title="No execution began in these days"
        command="callboard templates deploy contract-review-v1 --sample"
      >
        What each execution used is added up here, by day and by template.
      </Empty>
    );
  }
  const byDay = new Map(sums(items, (each) => day(each.startedAt)).map((sum) => [sum.name, sum]));
  const oldest = items.at(-1)?.startedAt ?? first;
  const isPart = total > items.length;
  const shown = days(isPart ? day(oldest) : first, today);
  const byTemplate = sums(items, (each) => each.templateId ?? "").sort(
    (a, b) => b.cost - a.cost || b.output - a.output,
  );
  const all = sums(items, () => "all")[0];
  const tokens = shown.map((each) => {
    const sum = byDay.get(each);
    return sum ? sum.input + sum.output : 0;
  });
  return (
    <>
      {isPart && (
        <p className="small soft">
          The latest {count(items.length)} of {count(total)} executions, since {instant(oldest)}.
        </p>
      )}
      <div className="insights-two">
        <Panel
          title="Cost by day"
          actions={
            <span className="soft small">
              {all && `${money(all.cost)} in all${all.unknown ? ", some prices unknown" : ""}`}
            </span>
          }
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                label="Cost of executions by the day on which they began"
                x={shown.map((_, index) => index)}
                xRange={[-0.5, shown.length - 0.5]}
                xText={(value) => shown[value]?.slice(5) ?? ""}
                yText={money}
                lines={[
                  {
                    label: "cost",
                    kind: "bars",
                    colour: "--accent",
                    values: shown.map((each) => byDay.get(each)?.cost ?? 0),
                  },
                ]}
              />
            </Suspense>
          </div>
        </Panel>
        <Panel
          title="Tokens by day"
          actions={<span className="soft small">{all && `${count(all.input + all.output)} in all`}</span>}
        >
          <div className="definition-pad">
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                label="Tokens of executions by the day on which they began"
                x={shown.map((_, index) => index)}
                xRange={[-0.5, shown.length - 0.5]}
                xText={(value) => shown[value]?.slice(5) ?? ""}
                yText={count}
                lines={[{ label: "tokens", kind: "bars", colour: "--accent", values: tokens }]}
              />
            </Suspense>
          </div>
        </Panel>
      </div>
      <div className="insights-two">
        <Panel title="By template">
          <Sums
            sums={byTemplate}
            what="Template"
            name={(sum) =>
              sum.name ? (
                <Link href={`/templates/${sum.name}`}>{sum.name}</Link>
              ) : (
                <span className="soft">plans without a template</span>
              )
            }
          />
        </Panel>
        <Panel title="By day">
          <Sums
            sums={[...byDay.values()].sort((a, b) => (a.name < b.name ? 1 : -1))}
            what="Day"
            name={(sum) => sum.name}
          />
        </Panel>
      </div>
    </>
  );
}

function Sums({ sums, what, name }: { sums: Sum[]; what: string; name: (sum: Sum) => React.ReactNode }) {
  return (
    <Scroll>
      <table className="definition-table insights-dense">
        <thead>
          <tr>
            <th scope="col">{what}</th>
            {["Executions", "Input", "Output", "Cost"].map((each) => (
              <th key={each} scope="col" className="num">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sums.map((sum) => (
            <tr key={sum.name}>
              <th scope="row">{name(sum)}</th>
              <td className="num">{count(sum.executions)}</td>
              <td className="num">{count(sum.input)}</td>
              <td className="num">{count(sum.output)}</td>
              <td className="num">
                {money(sum.cost)}
                {sum.unknown && (
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
  );
}

function Models() {
  const read = useMetrics();
  return (
    <Loaded query={read}>
      {(samples) => {
        const models = names(samples, "svc_tokens_total", "model");
        const began = value(samples, "process_start_time_seconds");
        return (
          <Panel
            title="By model"
            actions={
              began !== undefined && (
                <span className="soft small">since the server's start, {instant(began * 1000)}</span>
              )
            }
          >
            {models.length === 0 ? (
              <p className="definition-pad soft">No model has answered since then.</p>
            ) : (
              <Scroll>
                <table className="definition-table insights-dense">
                  <thead>
                    <tr>
                      <th scope="col">Model</th>
                      {["Input tokens", "Output tokens", "Cost"].map((each) => (
                        <th key={each} scope="col" className="num">
                          {each}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {models.map((model) => (
                      <tr key={model}>
                        <th scope="row">{model}</th>
                        <td className="num">
                          {count(value(samples, "svc_tokens_total", { model, kind: "input" }) ?? 0)}
                        </td>
                        <td className="num">
                          {count(value(samples, "svc_tokens_total", { model, kind: "output" }) ?? 0)}
                        </td>
                        <td className="num">{money(value(samples, "svc_cost_usd_total", { model }))}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}
