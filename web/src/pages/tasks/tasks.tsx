/** Every task. The filters stand in the address; what is cancelled in bulk is what they match. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useState } from "react";
import { Link } from "wouter";
import { useRows } from "../../api/hooks";
import { money, short, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Empty, PageFrame } from "../../ui/basics";
import { FilterBar } from "../../ui/chips";
import { RunExample } from "../../ui/example";
import { createdIn, endedIn, Filters, listOf, Since, States, TextFilter } from "../../ui/filters";
import { Listed } from "../../ui/listed";
import { lookOf, State } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Tags } from "../../ui/tags";
import { Ago, Lasted } from "../../ui/time";
import { Bulk, type Target } from "./bulk";
import { actOf, type TaskQuery, type TaskRow } from "./matching";
import { Submit } from "./submit";
import "../executions/executions.css";
import "./tasks.css";

const STATES = ["pending", "running", "completed", "failed", "rejected", "cancelled"] as const;
const NAMES = ["batch", "search", "status", "queue", "model", "tags", "since", "ended"];
const ORDERS = {
  createdAt: t`newest first`,
  completedAt: t`last ended first`,
  priority: t`highest priority`,
};

function queryOf(params: URLSearchParams): TaskQuery {
  const status = listOf(params.get("status"));
  const tags = listOf(params.get("tags"));
  const order = params.get("order");
  return {
    ...(status.length > 0 && { status: status as TaskQuery["status"] }),
    ...(params.has("queue") && { queue: params.get("queue") as string }),
    ...(params.has("model") && { model: params.get("model") as string }),
    ...(tags.length > 0 && { tags }),
    ...(params.has("batch") && { batch: params.get("batch") as string }),
    ...(params.get("search")?.trim() && { search: params.get("search") as string }),
    ...createdIn(params.get("since")),
    ...endedIn(params.get("ended")),
    ...(params.has("ended") && { orderBy: "completedAt" as const }),
    ...(order && order in ORDERS && { orderBy: order as TaskQuery["orderBy"] }),
  };
}

/** The filter in words, for the question before the act. */
function wordsOf(params: URLSearchParams): string {
  const parts = NAMES.filter((name) => params.has(name)).map((name) => `${name} ${params.get(name)}`);
  return parts.length > 0 ? visible(parts.join(", ")) : t`all tasks`;
}

export default function Tasks() {
  useLive(["task.*"]);
  const may = useMay();
  const [params, set] = useParams();
  const [target, setTarget] = useState<Target>();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const query = queryOf(params);
  const list = useRows("/api/tasks", { query });
  const isFiltered = NAMES.some((name) => params.has(name));
  const submits = params.get("submit") !== null;
  const change = (changes: Record<string, string | undefined>) => {
    // What is chosen may not be listed any more, and nobody cancels what they do not see.
    setChosen(new Set());
    set(changes);
  };
  const act = actOf(query.status ?? []);
  return (
    <PageFrame
      title={t`Tasks`}
      fill
      actions={
        <>
          {list.data && (
            <span className="soft executions-total">
              <Plural value={list.total} one="# task" other="# tasks" />
            </span>
          )}
          {chosen.size > 0 ? (
            <Button
              kind="danger"
              icon="stop"
              needs="tasks: cancel"
              onClick={() => setTarget({ rows: [...chosen], words: t`${chosen.size} selected` })}
            >
              <Trans>Cancel the selected</Trans>
            </Button>
          ) : (
            <Button
              kind={act === "cancel" ? "danger" : undefined}
              icon={act === "cancel" ? "stop" : "undo"}
              needs="bulk: run"
              disabled={query.search !== undefined}
              data-tip={
                query.search === undefined ? undefined : t`A bulk job has no search: filter by tags instead.`
              }
              onClick={() => setTarget({ act, filter: query, words: wordsOf(params) })}
            >
              {act === "retry"
                ? t`Retry all that match`
                : isFiltered
                  ? t`Cancel all that match`
                  : t`Cancel all`}
            </Button>
          )}
          <Button kind="primary" icon="plus" needs="tasks: create" onClick={() => set({ submit: "1" })}>
            <Trans>Submit a task</Trans>
          </Button>
        </>
      }
    >
      <Filters>
        <TextFilter name="search" label={t`Search title, tag, key, id`} params={params} set={change} />
        <States states={STATES} chosen={listOf(params.get("status"))} set={change} />
        <TextFilter name="queue" label={t`Queue`} params={params} set={change} />
        <TextFilter name="model" label={t`Model`} params={params} set={change} />
        <TextFilter name="tags" label={t`Tags`} params={params} set={change} />
        <Since name="since" word={t`Created`} value={params.get("since")} set={change} />
        <Since name="ended" word={t`Ended`} value={params.get("ended")} set={change} />
        <select
          className="select"
          aria-label={t`Order`}
          value={query.orderBy ?? "createdAt"}
          onChange={(event) =>
            change({ order: event.target.value === "createdAt" ? undefined : event.target.value })
          }
        >
          {Object.entries(ORDERS).map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      </Filters>
      <FilterBar page="tasks" names={NAMES} set={change} />
      <Listed
        list={list}
        empty={<Nothing isFiltered={isFiltered} submit={() => set({ submit: "1" })} />}
        label={t`Tasks`}
        keyOf={(task) => task.id}
        href={(task) => `/tasks/${task.id}`}
        nameOf={(task) => tail(task.id)}
        selection={may("tasks: cancel") ? { chosen, set: setChosen } : undefined}
        columns={COLUMNS}
      />
      {target && (
        <Bulk
          target={target}
          onClose={() => {
            setTarget(undefined);
            setChosen(new Set());
          }}
        />
      )}
      {submits && <Submit onClose={() => set({ submit: undefined })} />}
    </PageFrame>
  );
}

const COLUMNS: Column<TaskRow>[] = [
  {
    id: "id",
    header: t`Task`,
    width: "minmax(180px, 2fr)",
    cell: (task) => (
      <Link href={`/tasks/${task.id}`} data-tip={task.id} className="cut">
        {visible(task.title ?? task.stepId ?? t`task`)}
        {task.title && task.stepId && <span className="faint"> {visible(task.stepId)}</span>}
      </Link>
    ),
  },
  {
    id: "tags",
    header: t`Tags and keys`,
    width: "minmax(140px, 2fr)",
    cell: (task) => <Tags of={task} list="/tasks" />,
  },
  {
    id: "status",
    header: t`Status`,
    width: "150px",
    cell: (task) => <State of={task} />,
  },
  {
    id: "waits",
    header: t`Reason`,
    width: "minmax(110px, 1.4fr)",
    phone: false,
    cell: (task) => <Why task={task} />,
  },
  { id: "queue", header: t`Queue`, width: "minmax(80px, 0.8fr)", phone: false, cell: (task) => task.queue },
  { id: "model", header: t`Model`, width: "minmax(132px, 1.1fr)", phone: false, cell: (task) => task.model },
  {
    id: "attempt",
    header: t`Attempt`,
    width: "76px",
    number: true,
    phone: false,
    cell: (task) =>
      task.workersLost ? (
        <span title={t`${task.workersLost} of its workers were lost`}>
          {task.attempt} <span aria-hidden="true">⚠</span>
        </span>
      ) : (
        task.attempt || "–"
      ),
  },
  {
    id: "tokens",
    header: t`Tokens`,
    width: "76px",
    number: true,
    phone: false,
    cell: (task) => (task.usage ? short(task.usage.total) : "–"),
  },
  {
    id: "cost",
    header: t`Cost`,
    width: "104px",
    number: true,
    phone: false,
    cell: (task) => money(task.usage?.totalCost),
  },
  {
    id: "lasted",
    header: t`Duration`,
    width: "90px",
    number: true,
    cell: (task) => <Duration task={task} />,
  },
  {
    id: "created",
    header: t`Created`,
    width: "92px",
    number: true,
    cell: (task) => <Ago at={task.createdAt} />,
  },
];

function Why({ task }: { task: TaskRow }) {
  if (!task.error) return <span className="faint">–</span>;
  return <span data-tip={visible(task.error.message).slice(0, 400)}>{task.error.code}</span>;
}

/** From the first start to the end; while it runs, until now. */
export function Duration({ task }: { task: TaskRow }) {
  const end = task.completedAt ?? task.cancelledAt;
  return <Lasted from={end || task.status === "running" ? task.startedAt : undefined} to={end} />;
}

function Nothing({ isFiltered, submit }: { isFiltered: boolean; submit: () => void }) {
  if (isFiltered)
    return (
      <Empty title={t`No task matches`}>
        <Trans>Clear the filters to see all.</Trans>
      </Empty>
    );
  return (
    <Empty
      title={t`No task was submitted yet`}
      command={'callboard tasks submit "Say hello in one sentence." --stream'}
      needs="tasks: create"
      action={
        <div className="row wrap">
          <RunExample of="task" />
          <Button icon="plus" needs="tasks: create" onClick={submit}>
            <Trans>Submit a task</Trans>
          </Button>
        </div>
      }
    >
      <Trans>
        A task is one prompt for one model. It is stored before it is confirmed, {lookOf("running").word} as
        soon as a worker has room, and its output stands here.
      </Trans>
    </Empty>
  );
}
