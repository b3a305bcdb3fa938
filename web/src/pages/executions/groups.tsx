/** Executions by template and plan: what runs of each now, and how the last ones ended. */
import { t } from "@lingui/core/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { Link } from "wouter";
import { getPage, type ParamsOf } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { FilterBar } from "../../ui/chips";
import { createdIn, Filters, listOf, Since, TextFilter } from "../../ui/filters";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { type Group, grouped, groupOf, nowOf } from "./group";
import { LAST_ENDED, Strip } from "./outcomes";

type Query = NonNullable<ParamsOf<"/api/plans/executions">["query"]>;
const PATH = "/api/plans/executions" as const;
/** The begin of a query's key: one of a group is read again only after events of that group. */
const OF_GROUP = "executions of a group";
const OPEN = { status: ["pending", "running"] as Query["status"], limit: 100 };
const NAMES = ["tags", "since"];

export default function Groups() {
  const [params, set] = useParams();
  const may = useMay();
  const filter: Query = {
    ...(params.has("tags") && { tags: listOf(params.get("tags")) }),
    ...createdIn(params.get("since")),
  };
  const nameOf = useNameOf();
  const mayTemplates = may("templates: read");
  const templates = useRows("/api/templates", undefined, { enabled: mayTemplates });
  const latest = useQuery({
    queryKey: [OF_GROUP, "latest"],
    queryFn: ({ signal }) => getPage(PATH, { query: { limit: 100 } }, signal),
    refetchOnMount: "always",
  });
  useChanges();
  const order = latest.data?.items;
  const groups = useMemo(() => grouped(templates.rows, order ?? [], nameOf), [templates.rows, order, nameOf]);
  const list = {
    data: templates.data || !mayTemplates ? order : undefined,
    error: templates.error ?? latest.error,
    refetch: () => Promise.all([templates.refetch(), latest.refetch()]),
    rows: groups,
    total: groups.length + templates.total - templates.rows.length,
    more: templates.more,
  };
  return (
    <>
      <Filters>
        <TextFilter name="tags" label={t`Tags`} params={params} set={set} />
        <Since name="since" word={t`Started`} value={params.get("since")} set={set} />
      </Filters>
      <FilterBar page="executions" names={NAMES} set={set} />
      <Listed
        list={list}
        label={t`Executions by template`}
        keyOf={({ id }) => id}
        href={listed}
        columns={columnsOf(filter)}
      />
    </>
  );
}

const listed = ({ of, id }: Group) => `/executions?${of}=${encodeURIComponent(id)}`;

const columnsOf = (filter: Query): Column<Group>[] => [
  {
    id: "name",
    header: t`Template or plan`,
    width: "minmax(150px, 3fr)",
    cell: (group) => (
      <span className="executions-group">
        <Link href={listed(group)} className="cut">
          {visible(group.name)}
        </Link>
        {group.of === "templateId" && (
          <span translate="no" className="faint small mono cut">
            {group.id}
          </span>
        )}
      </span>
    ),
  },
  {
    id: "runs",
    header: t`Runs`,
    width: "64px",
    number: true,
    cell: (group) => <Runs group={group} filter={filter} />,
  },
  {
    id: "failed",
    header: t`Failed`,
    width: "76px",
    number: true,
    cell: (group) => <FailedLately group={group} filter={filter} />,
  },
  {
    id: "now",
    header: t`Now`,
    width: "minmax(112px, 2fr)",
    cell: (group) => <NowOf group={group} filter={filter} />,
  },
  {
    id: "outcomes",
    header: t`The last ${LAST_ENDED.limit} outcomes`,
    width: "minmax(376px, 9fr)",
    cell: (group) => <Outcomes group={group} filter={filter} />,
  },
];

type Of = { group: Group; filter: Query };

/** One page of the runs of a group, read when its row comes into view. */
function useRuns({ group, filter }: Of, which: Query) {
  const query: Query = { ...filter, ...which, [group.of]: group.id };
  return useQuery({
    queryKey: [OF_GROUP, group.id, query],
    queryFn: ({ signal }) => getPage(PATH, { query }, signal),
  });
}

function Runs(of: Of) {
  const ended = useRuns(of, LAST_ENDED).data;
  const open = useRuns(of, OPEN).data;
  return ended && open ? count(ended.total + open.total) : "…";
}

function FailedLately(of: Of) {
  const { data } = useRuns(of, LAST_ENDED);
  if (!data) return "…";
  const failed = data.items.filter(({ status }) => status === "failed").length;
  return (
    <span data-tip={t`${count(failed)} of the last ${count(data.items.length)} that ended`}>
      {count(failed)}
    </span>
  );
}

function NowOf(of: Of) {
  const { data } = useRuns(of, OPEN);
  if (!data) return "…";
  const { running, held, waiting } = nowOf(data.items);
  // Of more than one page, what each of the others does is not known.
  const word = (number: number) => (data.hasMore ? `${count(number)}+` : count(number));
  return (
    <span className="executions-now">
      {running > 0 && <Status state="running" word={t`${word(running)} running`} />}
      {held > 0 && <Status state="awaiting_approval" word={t`${word(held)} in review`} />}
      {waiting > 0 && <Status state="pending" word={t`${word(waiting)} waiting`} />}
      {data.total === 0 && <span className="faint">–</span>}
    </span>
  );
}

function Outcomes(of: Of) {
  const { data } = useRuns(of, LAST_ENDED);
  if (!data) return "…";
  if (data.items.length === 0) return <span className="faint">{t`none yet`}</span>;
  return <Strip ended={data.items} of={visible(of.group.name)} />;
}

/** Reads the runs of a group again after events of it, at most once a second. */
function useChanges() {
  const client = useQueryClient();
  const changed = useRef(new Set<string>());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const read = () => {
    timer.current = undefined;
    for (const id of changed.current) void client.invalidateQueries({ queryKey: [OF_GROUP, id] });
    changed.current.clear();
  };
  useLive(
    ["execution.*"],
    undefined,
    ({ data }) => {
      const id = groupOf(data as { templateId?: string; planId: string });
      if (!id) return;
      changed.current.add(id);
      timer.current ??= setTimeout(read, 1_000);
    },
    () => void client.invalidateQueries({ queryKey: [OF_GROUP] }),
  );
  useEffect(() => () => clearTimeout(timer.current), []);
}
