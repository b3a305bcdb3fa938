/** Every execution: the newest first, the last ended, or by template. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { lazy, type ReactNode, Suspense } from "react";
import { Link } from "wouter";
import type { ParamsOf } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count, money, short } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Empty, Loading, PageFrame } from "../../ui/basics";
import { FilterBar } from "../../ui/chips";
import { RunExample } from "../../ui/example";
import {
  type Change,
  createdIn,
  endedIn,
  Filters,
  listOf,
  Since,
  States,
  TextFilter,
} from "../../ui/filters";
import { Listed } from "../../ui/listed";
import { State, Status } from "../../ui/status";
import { Tabs } from "../../ui/tabs";
import { Tags } from "../../ui/tags";
import { Ago, Lasted } from "../../ui/time";
import { BROKEN, CODES, causeOf } from "./cause";
import { Outcomes } from "./outcomes";
import type { Execution } from "./steps";
import "./executions.css";

type Query = NonNullable<ParamsOf<"/api/plans/executions">["query"]>;
const STATES = ["pending", "running", "completed", "failed", "cancelled"] as const;
const NAMES = ["batch", "search", "tags", "status", "planId", "templateId", "since", "ended", "error"];

const Groups = lazy(() => import("./groups"));

export default function Executions() {
  const [params] = useParams();
  if (params.get("view") !== "templates") return <List />;
  return (
    <Frame view="templates">
      <Suspense fallback={<Loading />}>
        <Groups />
      </Suspense>
    </Frame>
  );
}

/** The page around both views; a view keeps the filters of the other in the address. */
function Frame({
  view,
  total,
  children,
}: {
  view: "list" | "templates";
  total?: number;
  children: ReactNode;
}) {
  const [params] = useParams();
  const to = (name?: string) => {
    const next = new URLSearchParams(params);
    next.delete("view");
    if (name) next.set("view", name);
    return next.size > 0 ? `/executions?${next}` : "/executions";
  };
  const tabs = [
    { id: "list", name: t`List`, href: to() },
    { id: "templates", name: t`By template`, href: to("templates") },
  ];
  return (
    <PageFrame
      title={t`Executions`}
      fill
      actions={
        <>
          {total !== undefined && (
            <span className="soft executions-total">
              <Plural value={total} one="# execution" other="# executions" />
            </span>
          )}
          <Link className="button" href="/executions/stuck">
            <Trans>Stuck</Trans>
          </Link>
        </>
      }
    >
      <Tabs label={t`Views`} tabs={tabs} current={view} />
      {children}
    </PageFrame>
  );
}

function List() {
  useLive(["execution.*"]);
  const [params, set] = useParams();
  const isFiltered = NAMES.some((name) => params.has(name));
  const status = listOf(params.get("status"));
  const query = {
    ...(status.length > 0 && { status: status as Query["status"] }),
    ...(params.has("planId") && { planId: params.get("planId") as string }),
    ...(params.has("templateId") && { templateId: params.get("templateId") as string }),
    ...(params.has("batch") && { batch: params.get("batch") as string }),
    ...(params.get("search")?.trim() && { search: params.get("search") as string }),
    ...(params.has("tags") && { tags: listOf(params.get("tags")) }),
    ...createdIn(params.get("since")),
    ...endedIn(params.get("ended")),
    ...(params.has("ended") && { orderBy: "completedAt" as const }),
    ...causeOf(params.get("error")),
  };
  const list = useRows("/api/plans/executions", { query });
  const nameOf = useNameOf();
  return (
    <Frame view="list" total={list.data && list.total}>
      <Filters>
        <TextFilter name="search" label={t`Search title, tag, key, id`} params={params} set={set} />
        <States states={STATES} chosen={status} set={set} />
        <TextFilter name="tags" label={t`Tags`} params={params} set={set} />
        <TextFilter name="planId" label={t`Plan id`} params={params} set={set} />
        <TextFilter name="templateId" label={t`Template id`} params={params} set={set} />
        <Since name="since" word={t`Started`} value={params.get("since")} set={set} />
        <Since name="ended" word={t`Ended`} value={params.get("ended")} set={set} />
        <Cause value={params.get("error")} set={set} />
      </Filters>
      <FilterBar page="executions" names={NAMES} set={set} />
      {params.get("templateId") && <Outcomes templateId={params.get("templateId") as string} />}
      <Listed
        list={list}
        empty={<Nothing isFiltered={isFiltered} />}
        label={t`Executions`}
        keyOf={(it) => it.id}
        href={(it) => `/executions/${it.id}`}
        columns={[
          {
            id: "id",
            header: t`Execution`,
            width: "minmax(240px, 4fr)",
            cell: (it) => (
              <Link href={`/executions/${it.id}`} data-tip={it.id} className="cut">
                {visible(it.title ?? nameOf(it))}
                {it.title && <span className="faint"> {visible(nameOf(it))}</span>}
                {it.templateVersion && <span className="faint"> {it.templateVersion}</span>}
              </Link>
            ),
          },
          {
            id: "tags",
            header: t`Tags and keys`,
            width: "minmax(140px, 2fr)",
            cell: (it) => <Tags of={it} list="/executions" />,
          },
          {
            id: "status",
            header: t`Status`,
            width: "120px",
            cell: (it) => <State of={it} />,
          },
          {
            id: "steps",
            header: t`Steps`,
            width: "170px",
            cell: (it) => <Progress execution={it} />,
          },
          {
            id: "tokens",
            header: t`Tokens`,
            width: "84px",
            number: true,
            phone: false,
            cell: (it) => short(it.usage.total),
          },
          {
            id: "cost",
            header: t`Cost`,
            width: "104px",
            number: true,
            phone: false,
            cell: (it) => (it.usage.priceUnknown ? <Unpriced /> : money(it.usage.totalCost)),
          },
          {
            id: "lasted",
            header: t`Duration`,
            width: "104px",
            number: true,
            cell: (it) => <Lasted from={it.startedAt} to={it.completedAt} />,
          },
          {
            id: "started",
            header: t`Started`,
            width: "96px",
            number: true,
            cell: (it) => <Ago at={it.startedAt ?? it.startAt} />,
          },
        ]}
      />
    </Frame>
  );
}

function Cause({ value, set }: { value: string | null; set: Change }) {
  return (
    <select
      className="select"
      aria-label={t`Cause`}
      value={value ?? ""}
      onChange={(event) => set({ error: event.target.value || undefined })}
    >
      <option value="">{t`for any cause`}</option>
      <option value={BROKEN}>{t`not rejected in review`}</option>
      <option value="REJECTED">{t`rejected in review`}</option>
      {CODES.map((code) => (
        <option key={code}>{code}</option>
      ))}
    </select>
  );
}

export function Unpriced() {
  return (
    <span data-tip={t`The model has no price: its cost counts as 0.`}>
      <Trans>unpriced</Trans>
    </span>
  );
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
        <Trans>
          {count(done)} of {count(total)}
        </Trans>
      </span>
      {failed > 0 && <Status state="failed" word={t`${count(failed)} failed`} />}
      {awaitingApproval > 0 && execution.waitingFor !== "approval" && (
        <Status state="awaiting_approval" word={t`${awaitingApproval} waiting`} />
      )}
    </span>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Empty title={t`No execution matches`}>
        <Trans>Clear the filters to see all.</Trans>
      </Empty>
    );
  return (
    <Empty
      title={t`Nothing was executed yet`}
      command="callboard templates deploy support-reply-v1 --sample"
      needs="templates: deploy"
      action={<RunExample of="execution" />}
    >
      <Trans>
        An execution runs the steps of a plan or of a template. Each appears here as it starts; the{" "}
        <Link href="/templates" className="text-link">
          templates
        </Link>{" "}
        have a form that starts one.
      </Trans>
    </Empty>
  );
}
