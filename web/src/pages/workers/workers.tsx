/** /workers: who is connected, how busy, on what; draining. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, type ItemOf, unwrap } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count, plural, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Loading, PageFrame, Panel } from "../../ui/basics";
import { ClosedModel, isClosed } from "../../ui/closed-model";
import { Dialog } from "../../ui/dialog";
import { Sized } from "../../ui/sized";
import { Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
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
      header: "Worker",
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
    { id: "status", header: "State", width: "110px", cell: (worker) => <Status state={worker.status} /> },
    { id: "running", header: "Running", width: "140px", cell: (worker) => <Busy worker={worker} /> },
    {
      id: "queues",
      header: "Queues",
      width: "minmax(110px, 1fr)",
      cell: (worker) => names(worker.queues, "none"),
    },
    {
      id: "models",
      header: "Models",
      width: "minmax(110px, 1fr)",
      cell: (worker) => names(worker.models, "none"),
    },
    {
      id: "functions",
      header: "Functions",
      width: "minmax(100px, 1fr)",
      phone: false,
      cell: (worker) => names(worker.functions ?? [], "none"),
    },
    {
      id: "version",
      header: "Version",
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
      header: "Connected",
      width: "100px",
      cell: (worker) => <Ago at={worker.connectedAt} />,
    },
  ];
  if (workers.rows.some((worker) => worker.status === "lost")) {
    // Of a connected worker it would be the time of the reading: signs of life are no events.
    columns.push({
      id: "heard",
      header: "Last heard",
      width: "100px",
      cell: (worker) => <Ago at={worker.status === "lost" ? worker.lastHeartbeatAt : undefined} />,
    });
  }
  if (may("workers: manage")) {
    columns.push({
      id: "actions",
      header: "Actions",
      width: "90px",
      cell: (worker) =>
        worker.status === "active" && (
          <Button size="small" onClick={() => setDrained(worker)}>
            Drain
          </Button>
        ),
    });
  }
  const credit = sum(workers.rows, (worker) => (worker.status === "active" ? worker.concurrency : 0));
  const busy = sum(workers.rows, (worker) => worker.running);
  return (
    <PageFrame
      title="Workers"
      actions={
        workers.rows.length > 0 && (
          <>
            <span className="soft">
              {count(busy)} of {plural(credit, "place")} in use
            </span>
            {state && (
              <Button kind="quiet" icon="cross" onClick={() => set({ state: undefined })}>
                Only those {state === "lost" ? "lost" : "connected"}
              </Button>
            )}
          </>
        )
      }
    >
      {may("models: read") && <Paused />}
      {workers.error && !workers.data ? (
        <Failed error={workers.error} retry={() => void workers.refetch()} />
      ) : !workers.data ? (
        <Loading />
      ) : workers.rows.length === 0 ? (
        <Empty
          title="No worker is connected"
          command={`callboard worker --server ${window.location.origin} --key-file worker.key --provider openai --base-url http://127.0.0.1:11434/v1`}
          needs="auth: manage keys"
          action={
            <span className="row wrap">
              {may("auth: manage keys") && (
                <Link className="button" href="/admin/keys">
                  Make a key of role worker
                </Link>
              )}
              <Link className="button" href="/docs/how-to/workers">
                How to run workers
              </Link>
            </span>
          }
        >
          Tasks wait until a worker takes them. A worker runs where it reaches the model; it needs a key of
          its own.
        </Empty>
      ) : (
        <Sized rows={shown.length}>
          <Table
            label="Workers"
            rows={shown}
            total={state ? shown.length : workers.total}
            more={workers.more}
            keyOf={(worker) => worker.id}
            current={chosen}
            columns={columns}
          />
        </Sized>
      )}
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
      {text === "*" ? "any" : text}
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
        {count(running)} of {count(concurrency)}
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
      header: "Task",
      width: "minmax(190px, 1.4fr)",
      cell: (task) => (
        <span className="cut">
          <Link translate="no" className="mono" href={`/tasks/${task.id}`}>
            {task.stepId ?? tail(task.id)}
          </Link>
          {task.planExecutionId && (
            <>
              {" "}
              <span className="soft">of</span>{" "}
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
      header: "Worker",
      width: "minmax(120px, 1fr)",
      cell: (task) => <span className="cut">{name.get(task.workerId ?? "") ?? task.workerId ?? "–"}</span>,
    },
    {
      id: "model",
      header: "Model",
      width: "minmax(120px, 1fr)",
      cell: (task) => <span className="cut">{task.model}</span>,
    },
    {
      id: "queue",
      header: "Queue",
      width: "minmax(90px, 1fr)",
      phone: false,
      cell: (task) => <span className="cut">{task.queue}</span>,
    },
    {
      id: "attempt",
      header: "Attempt",
      phone: false,
      width: "80px",
      number: true,
      cell: (task) => task.attempt,
    },
    {
      id: "since",
      header: "Runs for",
      width: "100px",
      number: true,
      cell: (task) => <Lasted from={task.startedAt} />,
    },
  ];
  return (
    <Panel
      title={of ? `Running on ${of}` : "Running now"}
      actions={
        <>
          <span className="soft small">{worker ? count(rows.length) : count(tasks.total)}</span>
          {worker && (
            <Button size="small" onClick={onAll}>
              All workers
            </Button>
          )}
        </>
      }
    >
      {tasks.error && !tasks.data ? (
        <Failed error={tasks.error} retry={() => void tasks.refetch()} />
      ) : rows.length === 0 ? (
        <p className="workers-none soft">{isPart ? "None of those that are loaded." : "Nothing runs."}</p>
      ) : (
        <Sized rows={rows.length}>
          <Table
            label="Running tasks"
            rows={rows}
            total={worker ? undefined : tasks.total}
            more={tasks.more}
            keyOf={(task) => task.id}
            href={(task) => `/tasks/${task.id}`}
            columns={columns}
          />
        </Sized>
      )}
      {isPart && (
        <p className="workers-none small soft">
          Of {count(tasks.total)} running tasks, {count(tasks.rows.length)} are loaded.{" "}
          <Button size="small" onClick={tasks.more}>
            Load more
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
      toast(`${worker.name} takes no further task.`);
      onClose();
    } catch (error) {
      toastError(error, "It was not drained");
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Drain ${worker.name}`}
      onClose={onClose}
      onSubmit={() => void run()}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button type="submit" kind="primary" busy={busy}>
            Drain
          </Button>
        </>
      }
    >
      <p>
        It takes no further task, finishes {plural(worker.running, "task")}, and leaves. Nothing is lost; to
        have it again, start it again.
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
    <Panel title="Models that are paused">
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
