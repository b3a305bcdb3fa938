/** Acting on all that match: the number first, then the act, then what came of it. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ApiError, api, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count, plural } from "../../lib/format";
import { useLive } from "../../live/live";
import { Button, Failed, Loading } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { lookOf } from "../../ui/status";
import { toastError } from "../../ui/toast";
import {
  type Act,
  begin,
  cancelRows,
  type Matching,
  matching,
  type Outcome,
  type TaskQuery,
} from "./matching";

export type Target = { words: string } & ({ act: Act; filter: TaskQuery } | { rows: string[] });

const TITLE = { cancel: "Cancel tasks", retry: "Retry tasks" };
const JOB = "/api/bulk/{id}" as const;
/** The time between two readings of a running job, in milliseconds. */
const EVERY = 1_000;

export function Bulk({ target, onClose }: { target: Target; onClose: () => void }) {
  const title = `${TITLE["act" in target ? target.act : "cancel"]}: ${target.words}`;
  return "rows" in target ? (
    <Chosen title={title} rows={target.rows} onClose={onClose} />
  ) : (
    <Matched title={title} act={target.act} query={target.filter} onClose={onClose} />
  );
}

type Around = { title: string; onClose: () => void };

/** All that the filter matches, by a job of the server. */
function Matched({ title, act, query, onClose }: Around & { act: Act; query: TaskQuery }) {
  const [found, setFound] = useState<Matching>();
  const [error, setError] = useState<Error>();
  const [isOther, setOther] = useState(false);
  const [busy, setBusy] = useState(false);
  const [job, setJob] = useState<string>();
  const once = useRef({ act, query }).current;
  useEffect(() => {
    matching(once.act, once.query).then(setFound, setError);
  }, [once]);
  const go = async () => {
    if (!found || found.total === 0) return onClose();
    setBusy(true);
    setOther(false);
    try {
      setJob((await begin(found)).id);
    } catch (refused) {
      // Another number matches by now: the dialog shows it and asks anew.
      if (refused instanceof ApiError && refused.status === 409) {
        await matching(once.act, once.query).then(setFound, setError);
        setOther(true);
      } else setError(refused as Error);
    }
    setBusy(false);
  };
  if (job !== undefined) return <Running title={title} id={job} onClose={onClose} />;
  const number = found?.total ?? 0;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => !busy && void go()}
      footer={
        found?.total === 0 ? (
          <Button type="submit">Close</Button>
        ) : (
          <>
            <Button onClick={onClose}>{act === "cancel" ? "Keep them" : "Leave them"}</Button>
            <Button
              type="submit"
              kind={act === "cancel" ? "danger" : "primary"}
              icon={act === "cancel" ? "stop" : "undo"}
              busy={!found || busy}
            >
              {found ? `${act === "cancel" ? "Cancel" : "Retry"} ${plural(number, "task")}` : "Counting"}
            </Button>
          </>
        )
      }
    >
      {error && <Failed error={error} what="Nothing was done" />}
      {isOther && (
        <p className="notice" data-tone="warn" role="alert">
          Another number of tasks matches by now. Nothing was done.
        </p>
      )}
      {!error && !found && <Loading lines={2} />}
      {!error && found && <MatchingSummary found={found} />}
    </Dialog>
  );
}

function MatchingSummary({ found: { act, counts, total } }: { found: Matching }) {
  if (total === 0) {
    return (
      <p>
        Nothing that matches {act === "cancel" ? "is pending or running" : "has failed"}: there is nothing to{" "}
        {act === "cancel" ? "cancel" : "try again"}.
      </p>
    );
  }
  const parts = counts.map(({ status, number }) => `${count(number)} ${lookOf(status).word}`).join(", ");
  return (
    <>
      <p>
        <strong>{plural(total, "task")}</strong> {total === 1 ? "matches" : "match"}: {parts}.
      </p>
      <p className="soft">
        {act === "cancel"
          ? "These are cancelled, and nothing else. An execution fails if one of its steps is among them."
          : "Each is submitted again, as a new task. Steps are left out: retry their executions."}
      </p>
    </>
  );
}

/** The job: its progress is read again until it ends, and it goes on without this page. */
function Running({ title, id, onClose }: Around & { id: string }) {
  const client = useQueryClient();
  const { data, error, dataUpdatedAt } = useApi(JOB, { path: { id } });
  const isDone = data !== undefined && data.status !== "running";
  const stop = async () => {
    try {
      await unwrap(api.DELETE("/api/bulk/{id}", { params: { path: { id } } }));
      await client.invalidateQueries({ queryKey: [JOB, { path: { id } }] });
    } catch (error) {
      toastError(error, "It was not stopped");
    }
  };
  useLive(["bulk.*"]);
  // The only event of a job is its end, so a running one is read again for its progress.
  useEffect(() => {
    if (isDone || dataUpdatedAt === 0) return;
    const again = () => void client.invalidateQueries({ queryKey: [JOB, { path: { id } }] });
    const timer = setTimeout(again, EVERY);
    return () => clearTimeout(timer);
  }, [client, id, isDone, dataUpdatedAt]);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={onClose}
      footer={
        <>
          {data && !isDone && (
            <Button kind="danger" icon="stop" needs="bulk: run" onClick={() => void stop()}>
              Stop it
            </Button>
          )}
          <Button type="submit">{isDone ? "Close" : "Close; it goes on"}</Button>
        </>
      }
    >
      {error && <Failed error={error} what="The job cannot be read" />}
      {data?.reason && (
        <p className="notice" data-tone="warn">
          {data.reason}
        </p>
      )}
      {!data ? (
        <Loading lines={2} />
      ) : (
        <Progress
          done={data.done}
          changed={data.succeeded}
          skipped={data.skipped}
          failed={data.failed}
          of={data.total}
          verb={data.action === "cancel" ? "cancelled" : "submitted again"}
        />
      )}
    </Dialog>
  );
}

/** The rows that were selected, each by itself. */
function Chosen({ title, rows, onClose }: Around & { rows: string[] }) {
  const client = useQueryClient();
  const [outcome, setOutcome] = useState<Outcome>();
  const [isDone, setDone] = useState(false);
  const stopped = useRef(false);
  useEffect(() => {
    stopped.current = false;
    return () => {
      stopped.current = true;
    };
  }, []);
  const go = async () => {
    if (isDone) return onClose();
    if (outcome) return;
    setOutcome(await cancelRows(rows, setOutcome, () => stopped.current));
    setDone(true);
    await client.invalidateQueries({ queryKey: ["/api/tasks"] });
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void go()}
      footer={
        isDone ? (
          <Button type="submit">Close</Button>
        ) : outcome ? (
          <Button onClick={onClose}>Stop here</Button>
        ) : (
          <>
            <Button onClick={onClose}>Keep them</Button>
            <Button type="submit" kind="danger" icon="stop">
              Cancel {plural(rows.length, "task")}
            </Button>
          </>
        )
      }
    >
      {outcome ? (
        <>
          <Progress {...outcome} failed={outcome.failed.length} of={rows.length} verb="cancelled" />
          {outcome.failed.slice(0, 5).map(({ id, why }) => (
            <p key={id} className="small">
              <span translate="no" className="mono">
                {id}
              </span>
              : {why}
            </p>
          ))}
        </>
      ) : (
        <p>
          {rows.length === 1 ? "The selected task is" : `The ${count(rows.length)} selected tasks are`}{" "}
          cancelled, and nothing else. One that has ended stays as it is.
        </p>
      )}
    </Dialog>
  );
}

type Numbers = { done: number; changed: number; skipped: number; failed: number; of: number; verb: string };

function Progress({ done, changed, skipped, failed, of, verb }: Numbers) {
  return (
    <div className="stack" role="status">
      <span className="bar" aria-hidden="true">
        <i style={{ width: `${(done / Math.max(1, of)) * 100}%` }} />
      </span>
      <p>
        {count(changed)} of {plural(of, "task")} {verb}
        {skipped > 0 && `, ${count(skipped)} left as they were`}
        {failed > 0 && `, ${count(failed)} refused`}.
      </p>
    </div>
  );
}
