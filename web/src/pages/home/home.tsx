/** What needs attention: waiting reviews by age, failing templates, silent workers, dead webhooks, the week. */
import { keepPreviousData } from "@tanstack/react-query";
import { Link } from "wouter";
import type { Approval, ItemOf } from "../../api/client";
import { usePage } from "../../api/hooks";
import { useNow } from "../../lib/clock";
import { count, money, plural, ratio, short } from "../../lib/format";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Command, Empty, Failed, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Mark, Status } from "../../ui/status";
import { Ago } from "../../ui/time";
import { useFailing } from "./failing";
import { type Day, useWeek } from "./week";
import "./home.css";

const HOUR = 3_600_000;
/** The ages of so many are shown. */
const AGED = 100;
/** A worker that says nothing for so long gets no work. */
const SILENT = 15_000;

export default function Home() {
  const may = useMay();
  return (
    <PageFrame title="Overview">
      <div className="home">
        <div className="stack home-main">
          {may("hitl: read") && <Reviews />}
          {may("executions: read") && <FailingTemplates />}
        </div>
        <div className="stack">
          {may("tasks: read") && <Week />}
          {may("workers: read") && <Workers />}
          {may("deliveries: read") && <Webhooks />}
        </div>
      </div>
    </PageFrame>
  );
}

function Reviews() {
  useLive(["hitl.*"]);
  const counted = usePage("/api/hitl/pending", { query: { limit: 1, includeExpired: true } });
  // The oldest come last.
  const offset = Math.max(0, (counted.data?.total ?? 0) - AGED);
  const waiting = usePage(
    "/api/hitl/pending",
    { query: { limit: AGED, offset, includeExpired: true } },
    { enabled: counted.data !== undefined, placeholderData: keepPreviousData },
  );
  return (
    <Panel title="Waiting for a reviewer" actions={<Link href="/review">Review all</Link>}>
      <Loaded query={counted.error ? counted : waiting} lines={6}>
        {({ items, total }) =>
          total === 0 ? (
            <Empty
              title="No output waits"
              command={`callboard tasks submit "Answer this customer: where is my parcel?" --require-approval`}
              needs="tasks: create"
              action={<RunExample of="review" />}
            >
              An output that a gate holds appears here.
            </Empty>
          ) : (
            <>
              <Ages items={items} total={total} />
              <ul className="home-list">
                {items
                  .toReversed()
                  .slice(0, 8)
                  .map((item) => (
                    <Waiting key={item.taskId} item={item} />
                  ))}
              </ul>
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Waiting({ item }: { item: Approval }) {
  return (
    <li>
      <Link href={`/review/${item.taskId}`} className="cut grow" translate="no" dir="auto">
        {visible(item.summary || item.taskId)}
      </Link>
      <span className="faint cut home-where">{item.stepId ?? item.queue}</span>
      {(item.status === "escalated" || item.status === "expired") && <Status state={item.status} />}
      <span className="num home-figure" data-tip="Confidence">
        {ratio(item.confidence)}
      </span>
      <span className="num home-figure soft">
        <Ago at={item.createdAt} plain />
      </span>
    </li>
  );
}

/** How old what waits is; each part is as wide as its share. */
function Ages({ items, total }: { items: Approval[]; total: number }) {
  const now = useNow();
  const of = (from: number, to: number) =>
    items.filter(
      (item) =>
        item.status !== "expired" &&
        now - Date.parse(item.createdAt) >= from &&
        now - Date.parse(item.createdAt) < to,
    ).length;
  const parts = [
    { name: "overdue", tone: "bad", number: items.filter((item) => item.status === "expired").length },
    { name: "over 4 h", tone: "warn", number: of(4 * HOUR, Number.POSITIVE_INFINITY) },
    { name: "1 to 4 h", tone: "run", number: of(HOUR, 4 * HOUR) },
    { name: "under 1 h", tone: "mute", number: of(0, HOUR) },
  ].filter((part) => part.number > 0);
  return (
    <div className="home-ages">
      <p>
        <strong>{count(total)}</strong>{" "}
        <span className="soft">
          {total === 1 ? "output waits" : "outputs wait"}
          {total > items.length && `; of the ${items.length} oldest:`}
        </span>
      </p>
      <div className="home-bar" aria-hidden="true">
        {parts.map((part) => (
          <i key={part.name} data-tone={part.tone} style={{ flexGrow: part.number }} />
        ))}
      </div>
      <ul className="row wrap small">
        {parts.map((part) => (
          <li key={part.name} className="home-key" data-tone={part.tone}>
            {part.number} {part.name}
          </li>
        ))}
      </ul>
    </div>
  );
}

function FailingTemplates() {
  const { rows, error, failed } = useFailing();
  return (
    <Panel
      title="Executions that failed within 24 hours"
      actions={<Link href="/executions?status=failed">All of them</Link>}
    >
      {error ? (
        <Failed error={error} retry={() => void failed.refetch()} />
      ) : !rows ? (
        <Loading lines={2} />
      ) : rows.length === 0 ? (
        <p className="home-none">
          <Mark tone="good" icon="check">
            None failed.
          </Mark>
        </p>
      ) : (
        <ul className="home-list">
          {rows.map((row) => (
            <li key={row.id}>
              <span className="home-failing">
                <Link
                  href={`/executions?status=failed&${row.isTemplate ? "templateId" : "planId"}=${encodeURIComponent(row.id)}`}
                  className="cut"
                >
                  {row.isTemplate ? row.id : `plan …${row.id.slice(-8)}`}
                </Link>
                <Link href={`/executions/${row.latest.id}`} className="cut faint small">
                  {row.latest.error?.stepId && `${row.latest.error.stepId}: `}
                  {visible(row.latest.error?.message ?? "")}
                </Link>
              </span>
              <Mark tone="bad" icon="cross">
                {row.failed} of {row.total} failed
              </Mark>
              <span className="num home-figure soft">
                <Ago at={row.latest.completedAt ?? row.latest.startedAt} plain />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Workers() {
  useLive(["worker.*"]);
  // A sign of life is no event, so the workers are read again while they are looked at.
  const workers = usePage("/api/workers", { query: { limit: 100 } }, { refetchInterval: SILENT });
  const isSilent = (worker: ItemOf<"/api/workers">) =>
    worker.status !== "lost" && workers.dataUpdatedAt - Date.parse(worker.lastHeartbeatAt) > SILENT;
  return (
    <Panel title="Workers" actions={<Link href="/workers">All</Link>}>
      <Loaded query={workers} lines={2}>
        {({ items }) => {
          const there = items.filter((worker) => worker.status !== "lost");
          const lost = items.filter((worker) => worker.status === "lost");
          const running = there.reduce((sum, worker) => sum + worker.running, 0);
          const slots = there.reduce((sum, worker) => sum + worker.concurrency, 0);
          if (there.length === 0) {
            return (
              <div className="home-pad stack">
                <Mark tone="bad" icon="warn">
                  No worker is connected: no task runs.
                </Mark>
                <Command>{`callboard worker --server ${window.location.origin} --key-file worker.key --provider openai`}</Command>
              </div>
            );
          }
          return (
            <div className="home-pad stack">
              <p>
                <strong>{plural(there.length, "worker")}</strong>{" "}
                <span className="soft">
                  {there.length === 1 ? "runs" : "run"} {count(running)} of {count(slots)} at once
                </span>
              </p>
              {there.filter(isSilent).map((worker) => (
                <p key={worker.id}>
                  <Mark tone="warn" icon="warn">
                    {visible(worker.name)} is silent
                  </Mark>{" "}
                  <span className="faint">
                    since <Ago at={worker.lastHeartbeatAt} plain />
                  </span>
                </p>
              ))}
              {lost.length > 0 && (
                <p>
                  <Mark tone="bad" icon="cross">
                    {plural(lost.length, "worker")} lost
                  </Mark>{" "}
                  <span className="faint">within the hour</span>
                </p>
              )}
            </div>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function Webhooks() {
  useLive(["webhook.*"]);
  const dead = usePage("/api/webhooks/deliveries", { query: { status: ["dead"], limit: 3 } });
  return (
    <Panel title="Webhooks" actions={<Link href="/admin/deliveries?status=dead">Deliveries</Link>}>
      <Loaded query={dead} lines={1}>
        {({ items, total }) =>
          total === 0 ? (
            <p className="home-pad">
              <Mark tone="good" icon="check">
                No delivery was given up.
              </Mark>
            </p>
          ) : (
            <div className="home-pad stack">
              <Mark tone="bad" icon="cross">
                {plural(total, "delivery", "deliveries")} given up
              </Mark>
              {items.map((delivery) => (
                <p key={delivery.id} className="small">
                  <span translate="no" className="mono">
                    {visible(delivery.url ?? delivery.to ?? "")}
                  </span>{" "}
                  <span className="faint">
                    {visible(delivery.lastError ?? "")} <Ago at={delivery.createdAt} />
                  </span>
                </p>
              ))}
            </div>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Week() {
  const week = useWeek();
  return (
    <Panel title="Tasks today, against the week" actions={<Link href="/insights">Insights</Link>}>
      <Loaded query={week} lines={4}>
        {(days) => <Days days={days} />}
      </Loaded>
    </Panel>
  );
}

function Days({ days }: { days: Day[] }) {
  const today = days.at(-1) ?? { completed: 0, failed: 0, cost: 0 };
  const before = days.slice(0, -1);
  const isPriced = days.every(({ cost }) => cost !== undefined);
  const isPart = days.some(({ priceUnknown }) => priceUnknown);
  const mean = (of: (day: Day) => number) =>
    before.reduce((sum, day) => sum + of(day), 0) / Math.max(1, before.length);
  const highest = Math.max(1, ...days.map((day) => day.completed + day.failed));
  const name = new Intl.DateTimeFormat("en", { weekday: "short", timeZone: "UTC" });
  return (
    <div className="home-pad stack">
      <dl className="home-figures">
        <div>
          <dt>Completed</dt>
          <dd>
            {short(today.completed)}{" "}
            <span className="faint small">
              {short(Math.round(mean((day) => day.completed)))} a day before
            </span>
          </dd>
        </div>
        <div>
          <dt>Failed</dt>
          <dd data-bad={today.failed > mean((day) => day.failed) && today.failed > 0}>
            {short(today.failed)}{" "}
            <span className="faint small">{short(Math.round(mean((day) => day.failed)))} a day before</span>
          </dd>
        </div>
        <div>
          <dt>Cost</dt>
          {isPriced ? (
            <dd data-tip={isPart ? "A model without a price counts as $0." : undefined}>
              {money(today.cost)}
              {isPart && " + ?"}{" "}
              <span className="faint small">{money(mean((day) => day.cost ?? 0))} a day before</span>
            </dd>
          ) : (
            <dd data-tip="The server adds up at most 100,000 tasks.">–</dd>
          )}
        </div>
      </dl>
      <ol className="home-days">
        {days.map((day) => (
          <li
            key={day.start}
            data-tip={`${day.start.slice(0, 10)} (UTC)\n${count(day.completed)} completed\n${count(day.failed)} failed${day.cost === undefined ? "" : `\n${money(day.cost)}`}`}
          >
            <span className="hide">
              {day.start.slice(0, 10)}: {day.completed} completed, {day.failed} failed
              {day.cost !== undefined && `, ${money(day.cost)}`}
            </span>
            <span className="home-column" aria-hidden="true">
              <i data-tone="bad" style={{ height: `${(day.failed / highest) * 100}%` }} />
              <i data-tone="run" style={{ height: `${(day.completed / highest) * 100}%` }} />
            </span>
            <span aria-hidden="true">{name.format(new Date(day.start))}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
