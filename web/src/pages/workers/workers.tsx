/** /workers: who is connected, how busy, on what; draining. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, type ItemOf, unwrap } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Empty, PageFrame, Panel } from "../../ui/basics";
import { ClosedModel, isClosed } from "../../ui/closed-model";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago, Lasted } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import "./workers.css";

type Worker = ItemOf<"/api/workers">;
type Task = ItemOf<"/api/tasks">;

export default function Workers() {
  useLive(["worker.*", "task.*"]);
  const may = useMay();
  const [params, set] = useParams();
  const [drained, setDrained] = useState<Worker>();
  const workers = useRows("/api/workers");
  // A sum of the overview leads here.
  const state = params.get("state");
  const shown = state
    ? workers.rows.filter((worker) => (worker.status === "lost") === (state === "lost"))
    : workers.rows;
  const chosen = params.get("worker") ?? undefined;
  const columns: Column<Worker>[] = [
    {
      id: "name",
      header: t`Worker`,
      width: "minmax(160px, 2fr)",
      cell: (worker) => (
        <span className="workers-name">
          <Link href={`/workers?worker=${worker.id}`}>{worker.name}</Link>
          <span translate="no" className="faint small mono">
            {tail(worker.id)}
          </span>
        </span>
      ),
    },
    { id: "status", header: t`State`, width: "110px", cell: (worker) => <Status state={worker.status} /> },
    { id: "running", header: t`Running`, width: "140px", cell: (worker) => <Busy worker={worker} /> },
    {
      id: "queues",
      header: t`Queues`,
      width: "minmax(110px, 1fr)",
      cell: (worker) => names(worker.queues, t`none`),
    },
    {
      id: "models",
      header: t`Models`,
      width: "minmax(110px, 1fr)",
      cell: (worker) => names(worker.models, t`none`),
    },
    {
      id: "functions",
      header: t`Functions`,
      width: "minmax(100px, 1fr)",
      phone: false,
      cell: (worker) => names(worker.functions ?? [], t`none`),
    },
    {
      id: "version",
      header: t`Version`,
      width: "80px",
      phone: false,
      cell: (worker) => (
        <span translate="no" className="mono cut">
          {worker.version}
        </span>
      ),
    },
    {
      id: "connected",
      header: t`Connected`,
      width: "100px",
      cell: (worker) => <Ago at={worker.connectedAt} />,
    },
  ];
  if (workers.rows.some((worker) => worker.status === "lost")) {
    // Of a connected worker it would be the time of the reading: signs of life are no events.
    columns.push({
      id: "heard",
      header: t`Last heard`,
      width: "100px",
      cell: (worker) => <Ago at={worker.status === "lost" ? worker.lastHeartbeatAt : undefined} />,
    });
  }
  if (may("workers: manage")) {
    columns.push({
      id: "actions",
      header: t`Actions`,
      width: "90px",
      cell: (worker) =>
        worker.status === "active" && (
          <Button size="small" onClick={() => setDrained(worker)}>
            <Trans>Drain</Trans>
          </Button>
        ),
    });
  }
  const credit = sum(workers.rows, (worker) => (worker.status === "active" ? worker.concurrency : 0));
  const busy = sum(workers.rows, (worker) => worker.running);
  return (
    <PageFrame
      title={t`Workers`}
      actions={
        workers.rows.length > 0 && (
          <>
            <span className="soft">
              <Plural
                value={credit}
                one={`${count(busy)} of # place in use`}
                other={`${count(busy)} of # places in use`}
              />
            </span>
            {state && (
              <Button kind="quiet" icon="cross" onClick={() => set({ state: undefined })}>
                {state === "lost" ? t`Only those lost` : t`Only those connected`}
              </Button>
            )}
          </>
        )
      }
    >
      {may("models: read") && <Paused />}
      <Listed
        label={t`Workers`}
        list={{ ...workers, rows: shown, total: state ? shown.length : workers.total }}
        keyOf={(worker) => worker.id}
        current={chosen}
        columns={columns}
        sized={1}
        empty={
          workers.rows.length === 0 && (
            <Empty
              title={t`No worker is connected`}
              command={`callboard worker --server ${window.location.origin} --key-file worker.key --provider openai --base-url http://127.0.0.1:11434/v1`}
              needs="auth: manage keys"
              action={
                <span className="row wrap">
                  {may("auth: manage keys") && (
                    <Link className="button" href="/admin/keys">
                      <Trans>Make a key of role worker</Trans>
                    </Link>
                  )}
                  <Link className="button" href="/docs/how-to/workers">
                    <Trans>How to run workers</Trans>
                  </Link>
                </span>
              }
            >
              <Trans>
                Tasks wait until a worker takes them. A worker runs where it reaches the model; it needs a key
                of its own.
              </Trans>
            </Empty>
          )
        }
      />
      {workers.rows.length > 0 && may("tasks: read") && (
        <Running worker={chosen} workers={workers.rows} onAll={() => set({ worker: undefined })} />
      )}
      {drained && <Drain worker={drained} onClose={() => setDrained(undefined)} />}
    </PageFrame>
  );
}

const sum = (workers: Worker[], of: (worker: Worker) => number) =>
  workers.reduce((total, worker) => total + of(worker), 0);

function names(list: string[], none: string) {
  const text = list.join(", ");
  if (text === "") return <span className="faint">{none}</span>;
  return (
    <span className="cut" data-tip={list.length > 1 ? list.join("\n") : undefined}>
      {text === "*" ? t`any` : text}
    </span>
  );
}

function Busy({ worker: { running, concurrency } }: { worker: Worker }) {
  return (
    <span className="workers-busy">
      <span className="bar" aria-hidden="true">
        <i style={{ width: `${concurrency === 0 ? 0 : Math.min(100, (running / concurrency) * 100)}%` }} />
      </span>
      <span>
        <Trans>
          {count(running)} of {count(concurrency)}
        </Trans>
      </span>
    </span>
  );
}

/** What runs now, of all workers or of one. */
function Running({ worker, workers, onAll }: { worker?: string; workers: Worker[]; onAll: () => void }) {
  const tasks = useRows("/api/tasks", { query: { status: "running" } } as never);
  const rows = worker ? tasks.rows.filter((task) => task.workerId === worker) : tasks.rows;
  const name = new Map(workers.map((each) => [each.id, each.name]));
  const of = worker ? (name.get(worker) ?? tail(worker)) : undefined;
  const isPart = worker !== undefined && tasks.total > tasks.rows.length;
  const columns: Column<Task>[] = [
    {
      id: "task",
      header: t`Task`,
      width: "minmax(190px, 1.4fr)",
      cell: (task) => (
        <span className="cut">
          <Link translate="no" className="mono" href={`/tasks/${task.id}`}>
            {task.stepId ?? tail(task.id)}
          </Link>
          {task.planExecutionId && (
            <>
              {" "}
              <span className="soft">
                <Trans>of</Trans>
              </span>{" "}
              <Link
                translate="no"
                className="mono"
                href={`/executions/${task.planExecutionId}?step=${task.stepId}`}
                data-tip={task.planExecutionId}
              >
                {tail(task.planExecutionId)}
              </Link>
            </>
          )}
        </span>
      ),
    },
    {
      id: "worker",
      header: t`Worker`,
      width: "minmax(120px, 1fr)",
      cell: (task) => <span className="cut">{name.get(task.workerId ?? "") ?? task.workerId ?? "–"}</span>,
    },
    {
      id: "model",
      header: t`Model`,
      width: "minmax(120px, 1fr)",
      cell: (task) => <span className="cut">{task.model}</span>,
    },
    {
      id: "queue",
      header: t`Queue`,
      width: "minmax(90px, 1fr)",
      phone: false,
      cell: (task) => <span className="cut">{task.queue}</span>,
    },
    {
      id: "attempt",
      header: t`Attempt`,
      phone: false,
      width: "80px",
      number: true,
      cell: (task) => task.attempt,
    },
    {
      id: "since",
      header: t`Runs for`,
      width: "100px",
      number: true,
      cell: (task) => <Lasted from={task.startedAt} />,
    },
  ];
  return (
    <Panel
      title={of ? t`Running on ${of}` : t`Running now`}
      actions={
        <>
          <span className="soft small">{worker ? count(rows.length) : count(tasks.total)}</span>
          {worker && (
            <Button size="small" onClick={onAll}>
              <Trans>All workers</Trans>
            </Button>
          )}
        </>
      }
    >
      <Listed
        label={t`Running tasks`}
        list={{ ...tasks, rows, total: worker ? undefined : tasks.total }}
        keyOf={(task) => task.id}
        href={(task) => `/tasks/${task.id}`}
        columns={columns}
        sized={1}
        empty={
          <p className="workers-none soft">{isPart ? t`None of those that are loaded.` : t`Nothing runs.`}</p>
        }
      />
      {isPart && (
        <p className="workers-none small soft">
          <Trans>
            Of {count(tasks.total)} running tasks, {count(tasks.rows.length)} are loaded.
          </Trans>{" "}
          <Button size="small" onClick={tasks.more}>
            <Trans>Load more</Trans>
          </Button>
        </p>
      )}
    </Panel>
  );
}

function Drain({ worker, onClose }: { worker: Worker; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const client = useQueryClient();
  const run = async () => {
    setBusy(true);
    try {
      await unwrap(api.POST("/api/workers/{id}/drain", { params: { path: { id: worker.id } } }));
      await client.invalidateQueries({ queryKey: ["/api/workers"] });
      toast(t`${worker.name} takes no further task.`);
      onClose();
    } catch (error) {
      toastError(error, t`It was not drained`);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Drain ${worker.name}`}
      onClose={onClose}
      onSubmit={() => void run()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Keep it</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            <Trans>Drain</Trans>
          </Button>
        </>
      }
    >
      <p>
        <Plural
          value={worker.running}
          one="It takes no further task, finishes # task, and leaves. Nothing is lost; to have it again, start it again."
          other="It takes no further task, finishes # tasks, and leaves. Nothing is lost; to have it again, start it again."
        />
      </p>
    </Dialog>
  );
}

/** The models whose providers refuse calls at the moment. */
function Paused() {
  const models = useRows("/api/models");
  const paused = models.rows.filter(isClosed);
  if (paused.length === 0) return null;
  return (
    <Panel title={t`Models that are paused`}>
      <ul className="workers-paused">
        {paused.map((model) => (
          <li key={model.name} className="row wrap">
            <Link className="mono" translate="no" href={`/models?model=${encodeURIComponent(model.name)}`}>
              {model.name}
            </Link>
            <ClosedModel of={model} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
