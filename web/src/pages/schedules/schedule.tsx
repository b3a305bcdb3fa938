/** One schedule: when it runs, what became of each run, and what may be done with it. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { api, unwrap } from "../../api/client";
import { useApi, usePage, useRows } from "../../api/hooks";
import { count, duration, tail } from "../../lib/format";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Listed } from "../../ui/listed";
import { Mark, Status, State as Work } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { CATCH_UPS, changed, OVERLAPS, type Run, type Schedule, triggered, workOf } from "./read";
import { Lately, State, useEnds } from "./schedules";
import { TargetShown } from "./target";
import { Both, Words } from "./times";
import "../../ui/plain.css";
import "./schedules.css";

const Preview = lazy(() => import("./preview"));

export default function SchedulePage() {
  const { id = "" } = useRoute();
  useEnds();
  useLive(["execution.*", "task.*"]);
  const read = useApi("/api/schedules/{id}", { path: { id } });
  return (
    <PageFrame
      title={read.data ? visible(read.data.name) : t`Schedule`}
      actions={read.data && <Actions of={read.data} />}
    >
      <Loaded query={read} lines={8}>
        {(schedule) => (
          <>
            <Summary of={schedule} />
            <div className="schedules-two">
              <div className="stack">
                <Runs id={schedule.id} zone={schedule.timezone ?? "UTC"} />
                <Panel title={t`What it starts`}>
                  {schedule.target ? <TargetShown target={schedule.target} /> : <Loading lines={2} />}
                </Panel>
              </div>
              <div className="stack">
                {schedule.cron ? (
                  <Suspense fallback={<Loading lines={6} />}>
                    <Preview
                      cron={schedule.cron}
                      zone={schedule.timezone ?? "UTC"}
                      nextRunAt={schedule.nextRunAt}
                    />
                  </Suspense>
                ) : (
                  <Panel title={t`When it runs`}>
                    <p className="pad">
                      <Trans>
                        Once: <Both at={schedule.at} zone="UTC" />
                      </Trans>
                    </p>
                  </Panel>
                )}
              </div>
            </div>
          </>
        )}
      </Loaded>
    </PageFrame>
  );
}

function Summary({ of }: { of: Schedule }) {
  const personOf = useNames();
  return (
    <>
      <div className="schedules-summary">
        <State of={of} />
        {of.cron && (
          <span>
            <strong>
              <Words cron={of.cron} />
            </strong>{" "}
            <span className="soft" translate="no">
              <code>{of.cron}</code> {of.timezone}
            </span>
          </span>
        )}
        {of.nextRunAt && (
          <span>
            <Trans>
              next run <Ago at={of.nextRunAt} />
            </Trans>
          </span>
        )}
        <Lately of={of} />
      </div>
      <p className="soft">
        <Trans>
          A run that comes while an earlier one goes on {OVERLAPS[of.overlap] ?? of.overlap}. Of runs that
          were missed, {CATCH_UPS[of.catchUp] ?? of.catchUp}.
        </Trans>{" "}
        {of.jitterMs > 0 && <Trans>Each is delayed by up to {duration(of.jitterMs)}.</Trans>}{" "}
        <Trans>Its work belongs to {visible(personOf(of.createdBy))}.</Trans>
      </p>
    </>
  );
}

function Actions({ of }: { of: Schedule }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState<string>();
  const [deletes, setDeletes] = useState(false);
  const run = async (name: string, call: () => Promise<unknown>, failed: string) => {
    setBusy(name);
    try {
      await call();
    } catch (error) {
      toastError(error, failed);
    }
    setBusy(undefined);
    await client.invalidateQueries({
      predicate: ({ queryKey: [path] }) => String(path).startsWith("/api/schedules"),
    });
  };
  const trigger = () =>
    run(
      "trigger",
      async () => {
        const work = workOf(await triggered(of.id));
        toast(t`It runs now.`, work && { action: { label: t`Show it`, run: () => navigate(work.href) } });
      },
      t`It was not started`,
    );
  return (
    <>
      <Button needs="schedules: manage" icon="next" busy={busy === "trigger"} onClick={() => void trigger()}>
        <Trans>Run now</Trans>
      </Button>
      <Button
        needs="schedules: manage"
        busy={busy === "pause"}
        onClick={() =>
          void run("pause", () => changed(of.id, { enabled: !of.enabled }), t`It was not changed`)
        }
      >
        {of.enabled ? t`Pause` : t`Resume`}
      </Button>
      <EditLink id={of.id} />
      <Button needs="schedules: manage" kind="danger" onClick={() => setDeletes(true)}>
        <Trans>Delete</Trans>
      </Button>
      {deletes && (
        <Confirm
          title={t`Delete ${visible(of.name)}`}
          verb={t`Delete`}
          onClose={() => setDeletes(false)}
          run={async () => {
            await unwrap(api.DELETE("/api/schedules/{id}", { params: { path: { id: of.id } } }));
            await client.invalidateQueries({ queryKey: ["/api/schedules"] });
            navigate("/schedules");
            toast(t`The schedule was deleted.`);
          }}
        >
          <p>
            <Trans>
              It starts nothing any more, and its list of runs is gone. What it has started goes on.
            </Trans>{" "}
            {of.queued > 0 && (
              <Plural
                value={of.queued}
                one="# run that waits is skipped."
                other="# runs that wait are skipped."
              />
            )}
          </p>
        </Confirm>
      )}
    </>
  );
}

function EditLink({ id }: { id: string }) {
  const may = useMay();
  if (!may("schedules: manage")) return null;
  return (
    <Link className="button" href={`/schedules/${id}/edit`}>
      <Trans>Edit</Trans>
    </Link>
  );
}

const WORDS: Record<string, React.ReactNode> = {
  started: (
    <Mark tone="good" icon="check">
      <Trans>started</Trans>
    </Mark>
  ),
  queued: (
    <Mark tone="warn" icon="clock">
      <Trans>waits</Trans>
    </Mark>
  ),
  skipped: <Status state="skipped" />,
  missed: (
    <Mark tone="bad" icon="warn">
      <Trans>missed</Trans>
    </Mark>
  ),
  failed: (
    <Mark tone="bad" icon="cross">
      <Trans>not started</Trans>
    </Mark>
  ),
};

function Runs({ id, zone }: { id: string; zone: string }) {
  const list = useRows("/api/schedules/{id}/runs", { path: { id } });
  const columns: Column<Run>[] = [
    {
      id: "at",
      header: t`Time`,
      width: "minmax(216px, 1.2fr)",
      cell: (run) => <Both at={run.scheduledAt} zone={zone} />,
    },
    { id: "outcome", header: t`Outcome`, width: "110px", cell: (run) => WORDS[run.outcome] ?? run.outcome },
    {
      id: "work",
      header: t`What became of it`,
      width: "minmax(170px, 2fr)",
      cell: (run) => <Became run={run} />,
    },
  ];
  return (
    <Panel title={t`Runs`} actions={list.data && <span className="soft small">{count(list.total)}</span>}>
      <Listed
        list={list}
        empty={
          <p className="pad soft">
            <Trans>None was due yet. The last 1,000 are kept here.</Trans>
          </p>
        }
        sized={1.4}
        label={t`Runs`}
        keyOf={(run) => `${run.scheduledAt} ${run.decidedAt} ${run.executionId ?? run.taskId ?? ""}`}
        columns={columns}
      />
    </Panel>
  );
}

const ID = /\b(dt_(?:exec|task)_[0-9a-z]+)\b/;

/** The work of a run and its state, or the reason why there is none, with a link to the run that was in the way. */
function Became({ run }: { run: Run }) {
  const work = workOf(run);
  if (!work) {
    const text = run.error ?? "";
    const [before, id, after] = text.split(ID);
    if (!id) return <span className="soft schedules-why">{visible(text) || "–"}</span>;
    return (
      <span className="soft schedules-why">
        {visible(before ?? "")}
        <Link href={id.startsWith("dt_exec") ? `/executions/${id}` : `/tasks/${id}`} data-tip={id}>
          {tail(id)}
        </Link>
        {visible(after ?? "")}
      </span>
    );
  }
  return (
    <span className="row wrap">
      <Link translate="no" className="mono" href={work.href} data-tip={work.id}>
        {tail(work.id)}
      </Link>
      {work.list === "executions" ? <OfExecution id={work.id} /> : <OfTask id={work.id} />}
    </span>
  );
}

function OfExecution({ id }: { id: string }) {
  const { data } = usePage("/api/plans/executions", { query: { search: id, limit: 1 } });
  const found = data?.items.find((each) => each.id === id);
  return found ? <Work of={found} /> : <Unknown is={data !== undefined} />;
}

function OfTask({ id }: { id: string }) {
  const { data } = usePage("/api/tasks", { query: { search: id, limit: 1 } });
  const found = data?.items.find((each) => each.id === id);
  return found ? <Work of={found} /> : <Unknown is={data !== undefined} />;
}

const Unknown = ({ is }: { is: boolean }) => <span className="faint">{is ? t`no longer stored` : "…"}</span>;
