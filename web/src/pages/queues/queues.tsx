/** /queues: how many wait in each queue, for how long, who serves it; pausing and limiting. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { ApiError, api, unwrap } from "../../api/client";
import { count } from "../../lib/format";
import { project } from "../../lib/project";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Field, PageFrame } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { RunExample } from "../../ui/example";
import { Listed } from "../../ui/listed";
import { Mark, Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { PauseAll } from "./pause-all";
import { type Queue, readQueues } from "./read";

const KEY = ["/api/queues"];

export default function QueuesPage() {
  useLive(["queue.*", "task.*", "worker.*"]);
  const may = useMay();
  const [limited, setLimited] = useState<Queue>();
  const read = useQuery<Queue[], ApiError>({
    queryKey: KEY,
    queryFn: ({ signal }) => readQueues(signal),
    staleTime: 0,
  });
  const change = useChange();
  const pause = (queue: Queue) =>
    change(queue, { paused: !queue.paused }).then(
      () => toast(`${queue.name} ${queue.paused ? t`goes on.` : t`gives out no task. What runs goes on.`}`),
      (error) => toastError(error, t`It was not changed`),
    );
  const canChange = may("queues: manage");
  const columns: Column<Queue>[] = [
    { id: "name", header: t`Queue`, width: "minmax(160px, 2fr)", cell: (queue) => <Name queue={queue} /> },
    { id: "state", header: t`State`, width: "140px", cell: (queue) => <State queue={queue} /> },
    { id: "depth", header: t`Waiting`, width: "90px", number: true, cell: (queue) => count(queue.depth) },
    {
      id: "oldest",
      header: t`Oldest`,
      width: "100px",
      number: true,
      cell: (queue) => <Ago at={queue.oldestAt} plain />,
    },
    { id: "running", header: t`Running`, width: "90px", number: true, cell: (queue) => count(queue.running) },
    { id: "workers", header: t`Workers`, width: "90px", number: true, cell: (queue) => count(queue.workers) },
    {
      id: "limits",
      header: t`Limits`,
      width: "minmax(140px, 1fr)",
      cell: (queue) => limits(queue),
    },
  ];
  if (canChange) {
    columns.push({
      id: "actions",
      header: t`Actions`,
      width: "170px",
      cell: (queue) => (
        <span className="row">
          <Button size="small" onClick={() => void pause(queue)}>
            {queue.paused ? t`Resume` : t`Pause`}
          </Button>
          <Button size="small" onClick={() => setLimited(queue)}>
            <Trans>Limits</Trans>
          </Button>
        </span>
      ),
    });
  }
  const waiting = read.data?.reduce((sum, queue) => sum + queue.depth, 0) ?? 0;
  return (
    <PageFrame
      title={t`Queues`}
      fill
      actions={
        <>
          {read.data && (
            <span className="soft">
              <Trans>{count(waiting)} waiting in all</Trans>
            </span>
          )}
          {!project && <PauseAll />}
        </>
      }
    >
      <Listed
        label={t`Queues`}
        list={{ ...read, rows: read.data }}
        keyOf={(queue) => queue.name}
        columns={columns}
        empty={
          <Empty
            title={t`No queue is in use`}
            command={'callboard tasks submit "Say hello." --queue default'}
            needs="tasks: create"
            action={<RunExample of="task" />}
          >
            <Trans>A queue exists as soon as a task or a worker names it.</Trans>
          </Empty>
        }
      />
      {limited && (
        <Limits
          queue={limited}
          onClose={() => setLimited(undefined)}
          onSave={async (changed) => {
            await change(limited, changed);
            setLimited(undefined);
          }}
        />
      )}
    </PageFrame>
  );
}

function limits({ concurrent, requestsPerMinute }: Queue) {
  const parts = [
    concurrent ? t`${count(concurrent)} at once` : "",
    requestsPerMinute ? `${count(requestsPerMinute)} a minute` : "",
  ].filter(Boolean);
  return parts.length > 0 ? (
    parts.join(", ")
  ) : (
    <span className="faint">
      <Trans>no limit</Trans>
    </span>
  );
}

function Name({ queue }: { queue: Queue }) {
  return (
    <Link className="cut" href={`/tasks?queue=${encodeURIComponent(queue.name)}`}>
      {queue.name}
    </Link>
  );
}

function State({ queue }: { queue: Queue }) {
  if (queue.paused) return <Status state="paused" />;
  if (queue.depth > 0 && queue.workers === 0) {
    return (
      <Mark tone="bad" icon="warn">
        <Trans>no worker</Trans>
      </Mark>
    );
  }
  if (queue.depth > 0) {
    return (
      <Mark tone="warn" icon="clock">
        <Trans>waiting</Trans>
      </Mark>
    );
  }
  return queue.running ? (
    <Status state="running" />
  ) : (
    <Mark tone="mute" icon="dot">
      <Trans>idle</Trans>
    </Mark>
  );
}

type Change = { paused?: boolean; concurrent?: number; requestsPerMinute?: number };

function useChange() {
  const client = useQueryClient();
  return async (queue: Queue, change: Change) => {
    const params = { path: { name: queue.name } };
    await unwrap(api.PATCH("/api/queues/{name}", { params, body: change }));
    await client.invalidateQueries({ queryKey: KEY });
  };
}

function Limits({
  queue,
  onClose,
  onSave,
}: {
  queue: Queue;
  onClose: () => void;
  onSave: (change: Change) => Promise<void>;
}) {
  const [concurrent, setConcurrent] = useState(String(queue.concurrent || ""));
  const [minute, setMinute] = useState(String(queue.requestsPerMinute || ""));
  const [refused, setRefused] = useState<Error>();
  const faults = refused instanceof ApiError ? refused.faults : [];
  const faultOf = (name: string) => faults.find(({ field }) => field === name)?.message;
  const save = () =>
    onSave({ concurrent: Number(concurrent), requestsPerMinute: Number(minute) }).catch(setRefused);
  return (
    <Dialog
      title={t`Limits of ${queue.name}`}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave as it is</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Set</Trans>
          </Button>
        </>
      }
    >
      {refused && faults.length === 0 && <Failed error={refused} what={t`It was not changed`} />}
      <Field
        label={t`Most tasks that run at once`}
        hint={t`Empty is no limit.`}
        fault={faultOf("concurrent")}
      >
        {(props) => (
          <input
            {...props}
            type="number"
            min="0"
            className="input"
            value={concurrent}
            onChange={(event) => setConcurrent(event.target.value)}
          />
        )}
      </Field>
      <Field
        label={t`Most tasks that begin in a minute`}
        hint={t`Empty is no limit.`}
        fault={faultOf("requestsPerMinute")}
      >
        {(props) => (
          <input
            {...props}
            type="number"
            min="0"
            className="input"
            value={minute}
            onChange={(event) => setMinute(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
