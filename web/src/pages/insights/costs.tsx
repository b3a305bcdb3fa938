/** Tokens and cost of the tasks of some days: by day, model, template and tag. */
import { Link } from "wouter";
import { ApiError, type DataOf, type Schemas } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count, money } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { lastDays, midnight, zone } from "../../lib/span";
import { visible } from "../../lib/visible";
import { useAgain } from "../../live/again";
import { Button, Empty, Failed, Loaded, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { TextFilter } from "../../ui/filters";
import { Scroll } from "../../ui/sized";
import { csvOf, download } from "./figures";
import { Stacked } from "./stacked";

const PATH = "/api/usage" as const;
const WINDOWS = [7, 30, 90];
/** The server adds up many rows for it. */
const EVERY = 10_000;
const SHOWN = 50;

type Sum = Schemas["UsageSum"];
type Groups = DataOf<typeof PATH>;
export type By = "day" | "model" | "template" | "tag" | "account" | "tagKey";

export default function Costs() {
  useAgain(["task.completed", "task.rejected", "hitl.pending"], ([path]) => path === PATH, EVERY);
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
          <Button size="small" onClick={() => download(csvOf(read.data.groups, "day"), first)}>
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
  const tokens = total.input + total.output;
  return (
    <>
      <dl className="figures insights-figures">
        <div>
          <dt>Cost</dt>
          <dd>
            {money(total.totalCost)}
            {total.priceUnknown && <span className="faint small"> and models without a price</span>}
          </dd>
          {before && (
            <dd className="faint small">
              {money(before.totalCost)} in the {days} days before {change(total.totalCost, before.totalCost)}
            </dd>
          )}
        </div>
        <div>
          <dt>Tokens</dt>
          <dd>{count(tokens)}</dd>
          {before && <dd className="faint small">{count(before.input + before.output)} before</dd>}
        </div>
        <div>
          <dt>Tasks with a result</dt>
          <dd>{count(total.tasks)}</dd>
          {before && <dd className="faint small">{count(before.tasks)} before</dd>}
        </div>
      </dl>
      <Stacked days={shown} tagKey={tagKey} />
      <div className="insights-two">
        <Grouped by="model" from={from} />
        <Grouped by="template" from={from} />
        <Grouped by="account" from={from} />
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
          <Button
            size="small"
            kind="quiet"
            onClick={() => download(csvOf(read.data.groups, tagKey ?? by), tagKey ?? by)}
          >
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

const NAMES: Record<By, string> = {
  day: "Day",
  model: "Model",
  template: "Template",
  tag: "Tag",
  account: "Account",
  tagKey: "Value",
};

export function Name({ by, name, tagKey }: { by: By; name: string | undefined; tagKey?: string }) {
  const nameOf = useNameOf();
  const personOf = useNames();
  if (name === undefined) return <span className="soft">no {tagKey ?? by}</span>;
  if (by === "template")
    return <Link href={`/templates/${name}`}>{visible(nameOf({ templateId: name }))}</Link>;
  if (by === "tagKey")
    return <Link href={`/tasks?tags=${encodeURIComponent(`${tagKey}:${name}`)}`}>{visible(name)}</Link>;
  if (by === "model") return <Link href={`/tasks?model=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  if (by === "account") return <span data-tip={name}>{visible(personOf(name))}</span>;
  if (by === "tag") return <Link href={`/tasks?tags=${encodeURIComponent(name)}`}>{visible(name)}</Link>;
  return name;
}

function Sums({ sums, by, tagKey }: { sums: Sum[]; by: By; tagKey?: string }) {
  return (
    <>
      <Scroll>
        <table className="plain-table insights-dense">
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
        <p className="pad small soft">
          The {SHOWN} that cost most, of {count(sums.length)}.
        </p>
      )}
    </>
  );
}
