/** Every execution, the newest first. */
import { Link } from "wouter";
import type { ParamsOf } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { count, money, plural, short, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Empty, Failed, Loading, PageFrame } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import { Ago, Lasted } from "../../ui/time";
import { Filters, listOf, Since, States, sinceOf, TextFilter } from "./filters";
import type { Execution } from "./steps";
import "./executions.css";

type Query = NonNullable<ParamsOf<"/api/plans/executions">["query"]>;
const STATES = ["pending", "running", "completed", "failed", "cancelled"] as const;
const NAMES = ["status", "planId", "templateId", "since"];

export default function Executions() {
  useLive(["execution.*"]);
  const [params, set] = useParams();
  const isFiltered = NAMES.some((name) => params.has(name));
  const status = listOf(params.get("status"));
  const query = {
    ...(status.length > 0 && { status: status as Query["status"] }),
    ...(params.has("planId") && { planId: params.get("planId") as string }),
    ...(params.has("templateId") && { templateId: params.get("templateId") as string }),
    ...(params.has("since") && { createdAfter: sinceOf(params.get("since")) }),
  };
  const { rows, total, more, data, error, refetch } = useRows("/api/plans/executions", { query });
  const plans = usePlanNames();
  const clear = () => set(Object.fromEntries(NAMES.map((name) => [name, undefined])));
  return (
    <PageFrame
      title="Executions"
      fill
      actions={data && <span className="soft executions-total">{plural(total, "execution")}</span>}
    >
      <Filters isFiltered={isFiltered} clear={clear}>
        <States states={STATES} chosen={status} set={set} />
        <TextFilter name="planId" label="Plan id" params={params} set={set} />
        <TextFilter name="templateId" label="Template id" params={params} set={set} />
        <Since value={params.get("since")} set={set} />
      </Filters>
      {error && !data ? (
        <Failed error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading />
      ) : total === 0 ? (
        <Nothing isFiltered={isFiltered} />
      ) : (
        <Table
          label="Executions"
          rows={rows}
          total={total}
          more={more}
          keyOf={(it) => it.id}
          href={(it) => `/executions/${it.id}`}
          columns={[
            {
              id: "id",
              header: "Execution",
              width: "minmax(190px, 3fr)",
              cell: (it) => (
                <Link href={`/executions/${it.id}`} data-tip={it.id}>
                  {visible(it.title ?? plans.get(it.planId) ?? it.templateId ?? "plan")}{" "}
                  <span translate="no" className="mono faint">
                    {tail(it.id)}
                  </span>
                </Link>
              ),
            },
            {
              id: "status",
              header: "Status",
              width: "120px",
              cell: (it) => <Status state={it.status} />,
            },
            {
              id: "steps",
              header: "Steps",
              width: "minmax(150px, 1.4fr)",
              cell: (it) => <Progress execution={it} />,
            },
            {
              id: "tokens",
              header: "Tokens",
              width: "84px",
              number: true,
              phone: false,
              cell: (it) => short(it.usage.total),
            },
            {
              id: "cost",
              header: "Cost",
              width: "92px",
              number: true,
              phone: false,
              cell: (it) => (it.usage.priceUnknown ? <Unpriced /> : money(it.usage.totalCost)),
            },
            {
              id: "lasted",
              header: "Duration",
              width: "104px",
              number: true,
              cell: (it) => <Lasted from={it.startedAt} to={it.completedAt} />,
            },
            {
              id: "started",
              header: "Started",
              width: "96px",
              number: true,
              cell: (it) => <Ago at={it.startedAt ?? it.startAt} />,
            },
          ]}
        />
      )}
    </PageFrame>
  );
}

export function Unpriced() {
  return <span data-tip="The model has no price: its cost counts as 0.">unpriced</span>;
}

/** The names of the plans, as far as one page has them. */
function usePlanNames(): Map<string, string> {
  const { data } = usePage("/api/plans", { query: { limit: 100 } });
  return new Map(data?.items.map(({ id, name }) => [id, name]));
}

/** "12 of 40", with a bar, and what needs somebody. */
export function Progress({ execution }: { execution: Execution }) {
  const { progress } = execution;
  if (!progress) return <span className="faint">–</span>;
  const { total, completed, skipped, failed, awaitingApproval } = progress;
  const done = completed + skipped;
  return (
    <span className="executions-progress">
      <span className="bar" aria-hidden="true">
        <i style={{ width: `${total ? (done / total) * 100 : 0}%` }} />
      </span>
      <span className="num">
        {count(done)} of {count(total)}
      </span>
      {failed > 0 && <Status state="failed" word={`${count(failed)} failed`} />}
      {awaitingApproval > 0 && <Status state="awaiting_approval" word={`${awaitingApproval} waiting`} />}
    </span>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No execution matches">Clear the filters to see all.</Empty>;
  return (
    <Empty
      title="Nothing was executed yet"
      command="callboard templates deploy support-reply-v1 --sample"
      needs="templates: deploy"
      action={<RunExample of="execution" />}
    >
      An execution runs the steps of a plan or of a template. Each appears here as it starts; the{" "}
      <Link href="/templates" className="text-link">
        templates
      </Link>{" "}
      have a form that starts one.
    </Empty>
  );
}
