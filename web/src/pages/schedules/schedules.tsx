/** /schedules: every schedule, when it runs next, and those that do not succeed. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { useRows } from "../../api/hooks";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useAgain } from "../../live/again";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Empty, PageFrame } from "../../ui/basics";
import { FilterBar } from "../../ui/chips";
import { Listed } from "../../ui/listed";
import { Mark, Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { type Schedule, stateOf, TOO_MANY, useFailures } from "./read";
import { Both, Words } from "./times";
import "./schedules.css";

const NAMES = ["state"];

export default function Schedules() {
  useEnds();
  const [params, set] = useParams();
  const may = useMay();
  const state = params.get("state") ?? "";
  const query = state === "" ? undefined : { enabled: state === "active" };
  const list = useRows("/api/schedules", query && { query });
  const columns: Column<Schedule>[] = [
    {
      id: "name",
      header: t`Schedule`,
      width: "minmax(170px, 2fr)",
      cell: (it) => (
        <Link href={`/schedules/${it.id}`} className="cut" data-tip={it.id}>
          {visible(it.name)}
        </Link>
      ),
    },
    { id: "state", header: t`State`, width: "110px", cell: (it) => <State of={it} /> },
    {
      id: "when",
      header: t`When`,
      width: "minmax(190px, 2fr)",
      cell: (it) => (
        <span className="schedules-both">
          <span>{it.cron ? <Words cron={it.cron} /> : t`once`}</span>
          <span translate="no" className="faint small">
            {it.cron && <code>{it.cron}</code>} {it.timezone}
          </span>
        </span>
      ),
    },
    {
      id: "next",
      header: t`Next run`,
      width: "minmax(216px, 1.2fr)",
      named: true,
      cell: (it) => (it.nextRunAt ? <Both at={it.nextRunAt} zone={it.timezone ?? "UTC"} /> : "–"),
    },
    {
      id: "in",
      header: t`In`,
      width: "90px",
      number: true,
      phone: false,
      cell: (it) => <Ago at={it.nextRunAt} />,
    },
    {
      id: "last",
      header: t`Lately`,
      width: "minmax(180px, 1fr)",
      cell: (it) => <Lately of={it} />,
    },
  ];
  return (
    <PageFrame
      title={t`Schedules`}
      fill
      actions={
        <>
          {list.data && (
            <span className="soft">
              <Plural value={list.total} one="# schedule" other="# schedules" />
            </span>
          )}
          {may("schedules: manage") && (
            <Link className="button" data-kind="primary" href="/schedules/new">
              <Trans>New schedule</Trans>
            </Link>
          )}
        </>
      }
    >
      <div className="filters" role="search" aria-label={t`Filters`}>
        <select
          className="select"
          aria-label={t`State`}
          value={state}
          onChange={(event) => set({ state: event.target.value })}
        >
          <option value="">{t`active and paused`}</option>
          <option value="active">{t`active`}</option>
          <option value="paused">{t`paused`}</option>
        </select>
      </div>
      <FilterBar page="schedules" names={NAMES} set={set} />
      <Listed
        list={list}
        empty={<Nothing isFiltered={state !== ""} />}
        label={t`Schedules`}
        keyOf={(it) => it.id}
        href={(it) => `/schedules/${it.id}`}
        columns={columns}
      />
    </PageFrame>
  );
}

const ENDS = [
  "execution.completed",
  "execution.failed",
  "execution.cancelled",
  "task.completed",
  "task.failed",
];

/** Reads again what became of runs, which the events of a schedule do not say. */
export function useEnds() {
  useLive(["schedule.*"]);
  const isOf = ([path, , what]: readonly unknown[]) =>
    path === "/api/schedules/{id}/runs" && what === "failures";
  useAgain(ENDS, isOf, 5_000);
}

const STATES = {
  active: <Status state="active" />,
  paused: <Status state="paused" />,
  over: (
    <Mark tone="mute" icon="check">
      <Trans>over</Trans>
    </Mark>
  ),
};
export const State = ({ of }: { of: Schedule }) => STATES[stateOf(of)];

/** Whether the latest occurrences have succeeded. */
export function Lately({ of }: { of: Schedule }) {
  const may = useMay()("executions: read");
  return may ? <Failures id={of.id} queued={of.queued} /> : null;
}

function Failures({ id, queued }: { id: string; queued: number }) {
  const { data } = useFailures(id);
  if (data === undefined) return <span className="faint">…</span>;
  if (data >= TOO_MANY) {
    return (
      <span
        data-tip={t`None of its latest occurrences has succeeded: they failed, were skipped or missed, or their work did not end well.`}
      >
        <Mark tone="bad" icon="warn">
          <Trans>no success in {TOO_MANY} runs</Trans>
        </Mark>
      </span>
    );
  }
  if (queued > 0) {
    return (
      <Mark tone="warn" icon="clock">
        <Plural value={queued} one="# run waits" other="# runs wait" />
      </Mark>
    );
  }
  if (data > 0)
    return (
      <span className="soft">
        <Plural value={data} one="the last one without success" other="the last # without success" />
      </span>
    );
  return null;
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  const may = useMay();
  if (isFiltered)
    return (
      <Empty title={t`No schedule is in this state`}>
        <Trans>Choose another one above.</Trans>
      </Empty>
    );
  return (
    <Empty
      title={t`No schedule was created yet`}
      command={
        "callboard schedules create digest --cron '0 8 * * MON-FRI' --timezone Europe/Berlin --prompt 'Write the digest.'"
      }
      needs="schedules: manage"
      action={
        <div className="row wrap">
          {may("schedules: manage") && (
            <Link className="button" href="/schedules/new">
              <Trans>New schedule</Trans>
            </Link>
          )}
          <Link className="button" data-kind="quiet" href="/docs/how-to/schedule">
            <Trans>How schedules work</Trans>
          </Link>
        </div>
      }
    >
      <Trans>
        A schedule starts a task, a plan or a template at the times of a timetable, in a time zone of your
        choice.
      </Trans>
    </Empty>
  );
}
