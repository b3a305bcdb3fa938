/** Acting on all that match: the number first, then the act, then what came of it. */
import { plural, t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ApiError, api, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count } from "../../lib/format";
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

const TITLE = { cancel: t`Cancel tasks`, retry: t`Retry tasks` };
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
          <Button type="submit">
            <Trans>Close</Trans>
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>{act === "cancel" ? t`Keep them` : t`Leave them`}</Button>
            <Button
              type="submit"
              kind={act === "cancel" ? "danger" : "primary"}
              icon={act === "cancel" ? "stop" : "undo"}
              busy={!found || busy}
            >
              {!found
                ? t`Counting`
                : act === "cancel"
                  ? plural(number, { one: "Cancel # task", other: "Cancel # tasks" })
                  : plural(number, { one: "Retry # task", other: "Retry # tasks" })}
            </Button>
          </>
        )
      }
    >
      {error && <Failed error={error} what={t`Nothing was done`} />}
      {isOther && (
        <p className="notice" data-tone="warn" role="alert">
          <Trans>Another number of tasks matches by now. Nothing was done.</Trans>
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
        {act === "cancel"
          ? t`Nothing that matches is pending or running: there is nothing to cancel.`
          : t`Nothing that matches has failed: there is nothing to try again.`}
      </p>
    );
  }
  const parts = counts.map(({ status, number }) => `${count(number)} ${lookOf(status).word}`).join(", ");
  return (
    <>
      <p>
        <Plural
          value={total}
          one={
            <span>
              <strong># task</strong> matches: {parts}.
            </span>
          }
          other={
            <span>
              <strong># tasks</strong> match: {parts}.
            </span>
          }
        />
      </p>
      <p className="soft">
        {act === "cancel"
          ? t`These are cancelled, and nothing else. An execution fails if one of its steps is among them.`
          : t`Each is submitted again, as a new task. Steps are left out: retry their executions.`}
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
      toastError(error, t`It was not stopped`);
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
              <Trans>Stop it</Trans>
            </Button>
          )}
          <Button type="submit">{isDone ? t`Close` : t`Close; it goes on`}</Button>
        </>
      }
    >
      {error && <Failed error={error} what={t`The job cannot be read`} />}
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
          act={data.action === "cancel" ? "cancel" : "retry"}
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
          <Button type="submit">
            <Trans>Close</Trans>
          </Button>
        ) : outcome ? (
          <Button onClick={onClose}>
            <Trans>Stop here</Trans>
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>
              <Trans>Keep them</Trans>
            </Button>
            <Button type="submit" kind="danger" icon="stop">
              <Plural value={rows.length} one="Cancel # task" other="Cancel # tasks" />
            </Button>
          </>
        )
      }
    >
      {outcome ? (
        <>
          <Progress {...outcome} failed={outcome.failed.length} of={rows.length} act="cancel" />
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
          <Plural
            value={rows.length}
            one="The selected task is cancelled, and nothing else. One that has ended stays as it is."
            other="The # selected tasks are cancelled, and nothing else. One that has ended stays as it is."
          />
        </p>
      )}
    </Dialog>
  );
}

type Numbers = {
  done: number;
  changed: number;
  skipped: number;
  failed: number;
  of: number;
  act: "cancel" | "retry";
};

function Progress({ done, changed, skipped, failed, of, act }: Numbers) {
  const made = count(changed);
  const said = [
    act === "cancel"
      ? plural(of, { one: `${made} of # task cancelled`, other: `${made} of # tasks cancelled` })
      : plural(of, { one: `${made} of # task submitted again`, other: `${made} of # tasks submitted again` }),
    skipped > 0 && plural(skipped, { one: "# left as it was", other: "# left as they were" }),
    failed > 0 && t`${count(failed)} refused`,
  ];
  return (
    <div className="stack" role="status">
      <span className="bar" aria-hidden="true">
        <i style={{ width: `${(done / Math.max(1, of)) * 100}%` }} />
      </span>
      <p>{said.filter(Boolean).join(", ")}.</p>
    </div>
  );
}
