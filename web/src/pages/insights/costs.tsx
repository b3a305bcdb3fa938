/** Tokens and cost of the tasks of some days: by day, model, template and tag. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
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
          aria-label={t`Days`}
          value={window}
          onChange={(event) => set({ days: event.target.value })}
        >
          {WINDOWS.map((each) => (
            <option key={each} value={each}>
              {t`${each} days`}
            </option>
          ))}
        </select>
        <TextFilter name="tagKey" label={t`Tag key, such as customer`} params={params} set={set} />
        {read.data && (
          <Button size="small" onClick={() => download(csvOf(read.data.groups, "day"), first)}>
            CSV
          </Button>
        )}
        <span className="faint small">
          <Trans>
            By the day of each result in {timezone}, held ones too; of tasks that are still stored.
          </Trans>
        </span>
      </div>
      {isMany ? (
        <Failed
          error={read.error as ApiError}
          what={t`There are too many tasks to add up: choose fewer days`}
        />
      ) : (
        <Loaded query={read}>
          {(found) =>
            found.total.tasks === 0 ? (
              <Empty
                title={t`No task of these days has a result`}
                command={'callboard tasks submit "Say hello." --wait'}
                needs="tasks: create"
                action={<RunExample of="task" />}
              >
                <Trans>What each task used is added up here, by day, model, template and tag.</Trans>
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
          <dt>
            <Trans>Cost</Trans>
          </dt>
          <dd>
            {money(total.totalCost)}
            {total.priceUnknown && (
              <span className="faint small">
                {" "}
                <Trans>and models without a price</Trans>
              </span>
            )}
          </dd>
          {before && (
            <dd className="faint small">
              <Trans>
                {money(before.totalCost)} in the {days} days before{" "}
                {change(total.totalCost, before.totalCost)}
              </Trans>
            </dd>
          )}
        </div>
        <div>
          <dt>
            <Trans>Tokens</Trans>
          </dt>
          <dd>{count(tokens)}</dd>
          {before && (
            <dd className="faint small">
              <Trans>{count(before.input + before.output)} before</Trans>
            </dd>
          )}
        </div>
        <div>
          <dt>
            <Trans>Tasks with a result</Trans>
          </dt>
          <dd>{count(total.tasks)}</dd>
          {before && (
            <dd className="faint small">
              <Trans>{count(before.tasks)} before</Trans>
            </dd>
          )}
        </div>
      </dl>
      <Stacked days={shown} tagKey={tagKey} />
      <div className="insights-two">
        <Grouped by="model" from={from} />
        <Grouped by="template" from={from} />
        <Grouped by="account" from={from} />
        {tagKey ? <Grouped by="tagKey" from={from} tagKey={tagKey} /> : <Grouped by="tag" from={from} />}
        <Panel title={t`By day`}>
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
      title={t`By ${tagKey ?? WORDS[by]}`}
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

/** The words of groups within a sentence. */
export const WORDS: Record<By, string> = {
  day: t`day`,
  model: t`model`,
  template: t`template`,
  tag: t`tag`,
  account: t`account`,
  tagKey: t`value`,
};

const NAMES: Record<By, string> = {
  day: t`Day`,
  model: t`Model`,
  template: t`Template`,
  tag: t`Tag`,
  account: t`Account`,
  tagKey: t`Value`,
};

export function Name({ by, name, tagKey }: { by: By; name: string | undefined; tagKey?: string }) {
  const nameOf = useNameOf();
  const personOf = useNames();
  if (name === undefined)
    return (
      <span className="soft">
        <Trans>no {tagKey ?? WORDS[by]}</Trans>
      </span>
    );
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
              {[t`Tasks`, t`Input`, t`Output`, t`Cost`].map((each) => (
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
                    <span className="faint" data-tip={t`A model without a price counts as $0.`}>
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
          <Trans>
            The {SHOWN} that cost most, of {count(sums.length)}.
          </Trans>
        </p>
      )}
    </>
  );
}
