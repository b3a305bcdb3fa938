/** /models: how much each model is used beside its limits, who runs it, what it costs, and what is closed. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { useApi, useRows } from "../../api/hooks";
import { count, money } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useAgain } from "../../live/again";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Empty, PageFrame, Panel } from "../../ui/basics";
import { isClosed } from "../../ui/closed-model";
import { Listed } from "../../ui/listed";
import { Scroll } from "../../ui/sized";
import { Mark } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { type Gauge, gaugesOf, type Model, perMillion } from "./figures";
import { Meter } from "./meter";
import { ModelPage } from "./model";
import "../../ui/plain.css";

/** The use of the last minute falls without an event. */
const MINUTE = 61_000;

export default function Models() {
  useLive(["task.*", "worker.*"]);
  useAgain(["task.*"], ([path]) => path === "/api/models", MINUTE);
  const [params] = useParams();
  const chosen = params.get("model");
  return chosen === null ? <All /> : <ModelPage key={chosen} name={chosen} />;
}

const hrefOf = ({ name }: Model) => `/models?model=${encodeURIComponent(name)}`;

function All() {
  const list = useRows("/api/models");
  const columns: Column<Model>[] = [
    {
      id: "name",
      header: t`Model`,
      width: "minmax(180px, 2fr)",
      cell: (model) => (
        <Link href={hrefOf(model)} translate="no" className="cut">
          {model.name}
        </Link>
      ),
    },
    { id: "state", header: t`State`, width: "150px", cell: (model) => <State of={model} /> },
    ...["requests", "tokens", "inFlight"].map(
      (id): Column<Model> => ({
        id,
        header:
          { requests: t`Requests a minute`, tokens: t`Tokens a minute`, inFlight: t`In flight` }[id] ?? "",
        width: "minmax(130px, 1fr)",
        named: true,
        cell: (model) => <Meter of={gaugesOf(model).find((gauge) => gauge.id === id) as Gauge} />,
      }),
    ),
    {
      id: "price",
      header: t`Price, 1 M tokens`,
      width: "minmax(150px, 1fr)",
      named: true,
      cell: (model) => <Price of={model} />,
    },
  ];
  return (
    <PageFrame
      title={t`Models`}
      actions={
        list.data && (
          <span className="soft">
            <Plural value={list.total} one="# model" other="# models" />
          </span>
        )
      }
    >
      <Listed
        list={list}
        empty={
          <Empty
            title={t`No model is known`}
            action={
              <Link className="button" href="/docs/how-to/workers">
                <Trans>How to run workers</Trans>
              </Link>
            }
          >
            <Trans>A model is listed once a worker announces it by its name, or once it has limits.</Trans>
          </Empty>
        }
        sized={1}
        label={t`Models`}
        keyOf={(model) => model.name}
        href={hrefOf}
        columns={columns}
      />
      <Unpriced models={list.rows} />
    </PageFrame>
  );
}

function State({ of }: { of: Model }) {
  if (of.closedUntil) {
    return (
      <span className="row wrap">
        <Mark tone="bad" icon="stop">
          <Trans>closed</Trans>
        </Mark>
        <span className="soft small">
          <Trans>
            opens <Ago at={of.closedUntil} />
          </Trans>
        </span>
      </span>
    );
  }
  if (isClosed(of)) {
    return (
      <Mark tone="warn" icon="stop">
        <Plural value={of.closedQueues?.length ?? 0} one="closed for # queue" other="closed for # queues" />
      </Mark>
    );
  }
  return of.workers > 0 ? (
    <Mark tone="good" icon="dot">
      <Plural value={of.workers} one="# worker" other="# workers" />
    </Mark>
  ) : (
    <span data-tip={t`A worker may run it by a pattern, such as gpt-*: its page says so`}>
      <Mark tone="mute" icon="dot">
        <Trans>not announced</Trans>
      </Mark>
    </span>
  );
}

function Price({ of: { price } }: { of: Model }) {
  if (!price) {
    return (
      <Mark tone="warn" icon="warn">
        <Trans>no price</Trans>
      </Mark>
    );
  }
  return (
    <span className="num" data-tip={t`input · output`}>
      {perMillion(price.input)} · {perMillion(price.output)}
    </span>
  );
}

/** Models that were called and have no price: their costs are not known, and count as 0. */
function Unpriced({ models }: { models: Model[] }) {
  const may = useMay()("budgets: read");
  const usage = useApi("/api/usage", { query: { groupBy: "model" } }, { enabled: may, retry: false });
  const called = (usage.data?.groups ?? []).filter(({ priceUnknown }) => priceUnknown);
  const listed = models.filter(({ price, name }) => !price && !called.some(({ key }) => key === name));
  if (called.length + listed.length === 0) return null;
  return (
    <Panel
      title={t`Models without a price`}
      actions={
        <span className="soft small">
          <Trans>in the last 30 days</Trans>
        </span>
      }
    >
      <Scroll>
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">
                <Trans>Model</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Tasks</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Tokens</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Cost that is known</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {called.map(({ key = "", tasks, input, output, totalCost }) => (
              <tr key={key}>
                <th scope="row" translate="no">
                  {key}
                </th>
                <td className="num">{count(tasks)}</td>
                <td className="num">{count(input + output)}</td>
                <td className="num">{money(totalCost)}</td>
              </tr>
            ))}
            {listed.map(({ name }) => (
              <tr key={name}>
                <th scope="row" translate="no">
                  {name}
                </th>
                <td className="num">0</td>
                <td className="num">0</td>
                <td className="num">{money(0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p className="pad small soft">
        <Trans>
          Their calls count as $0: in costs, in budgets and for the most that a run may cost.{" "}
          <Link href="/docs/reference/prices">How prices are set</Link>
        </Trans>
      </p>
    </Panel>
  );
}
