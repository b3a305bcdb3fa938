/** What needs attention: waiting reviews by age, failing templates, silent workers, dead webhooks, the week. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { type Approval, getPage, type ItemOf } from "../../api/client";
import { usePage } from "../../api/hooks";
import { count, money, ratio, short } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { usePreference } from "../../lib/preferences";
import { midnight, spanOf } from "../../lib/span";
import { locale } from "../../lib/texts";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Command, Empty, Loaded, PageFrame, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Mark, Status } from "../../ui/status";
import { Ago } from "../../ui/time";
import { Alerts } from "../executions/alerts";
import { BROKEN } from "../executions/cause";
import { unserved, useWaiting } from "../executions/waiting";
import { AGES, agedQuery } from "../review/ages";
import { type Counts, type Failing, useFailing, WITHIN } from "./failing";
import { type Day, useWeek } from "./week";
import "./home.css";

/** So many of the oldest are shown. */
const OLDEST = 8;
/** A worker that says nothing for so long gets no work. */
const SILENT = 15_000;

export default function Home() {
  const may = useMay();
  return (
    <PageFrame title={t`Overview`} actions={<WithBatches />}>
      {may("tasks: read") && may("workers: read") && may("executions: read") && <Stuck />}
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

type OfBatch = { batch?: "none" };

/** The rows of batches are left out of the counts of runs, unless they are asked for. */
function useOfBatch(): OfBatch {
  const [withBatches] = usePreference("home.batches", false);
  return withBatches ? {} : { batch: "none" };
}

function WithBatches() {
  const [withBatches, setWithBatches] = usePreference("home.batches", false);
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={withBatches}
        onChange={(event) => setWithBatches(event.target.checked || undefined)}
      />
      <Trans>Count rows of batches</Trans>
    </label>
  );
}

/** A line where nobody can run what waits; nothing otherwise. */
function Stuck() {
  const { tasks } = useWaiting();
  const workers = usePage("/api/workers", { query: { limit: 100 } });
  return workers.data && tasks ? <Alerts pairs={unserved(tasks, workers.data.items)} /> : null;
}

function Reviews() {
  useLive(["hitl.*"]);
  const counted = usePage("/api/hitl/pending", { query: { limit: 1, includeExpired: true } });
  // The oldest come last.
  const offset = Math.max(0, (counted.data?.total ?? 0) - OLDEST);
  const waiting = usePage(
    "/api/hitl/pending",
    { query: { limit: OLDEST, offset, includeExpired: true } },
    { enabled: counted.data !== undefined, placeholderData: keepPreviousData },
  );
  return (
    <Panel
      title={t`Waiting for a reviewer`}
      actions={
        <Link href="/review">
          <Trans>Review all</Trans>
        </Link>
      }
    >
      <Loaded query={counted.error ? counted : waiting} lines={6}>
        {({ items, total }) =>
          total === 0 ? (
            <Empty
              title={t`No output waits`}
              command={`callboard tasks submit "Answer this customer: where is my parcel?" --require-approval`}
              needs="tasks: create"
              action={<RunExample of="review" />}
            >
              <Trans>An output that a gate holds appears here.</Trans>
            </Empty>
          ) : (
            <>
              <Ages total={total} readAt={counted.dataUpdatedAt} />
              <ul className="home-list">
                {items.toReversed().map((item) => (
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
        {visible(item.title || item.summary || item.taskId)}
      </Link>
      <span className="faint cut home-where">{item.stepId ?? item.queue}</span>
      {(item.status === "escalated" || item.status === "expired") && <Status state={item.status} />}
      <span className="num home-figure" data-tip={t`Confidence`}>
        {ratio(item.confidence)}
      </span>
      <span className="num home-figure soft">
        <Ago at={item.createdAt} plain />
      </span>
    </li>
  );
}

/** How old what waits is, as the server counts it; each part is as wide as its share, and is a list. */
function Ages({ total, readAt }: { total: number; readAt: number }) {
  const counts = useQuery({
    queryKey: ["home", "ages", total, readAt],
    queryFn: () =>
      Promise.all(
        AGES.map(async (part) => {
          const query = { ...agedQuery(part.age), limit: 1 };
          return { ...part, number: (await getPage("/api/hitl/pending", { query })).total };
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const parts = (counts.data ?? []).filter((part) => part.number > 0);
  return (
    <div className="home-ages">
      <p>
        <Link href="/review">
          <Plural
            value={total}
            one={
              <span>
                <strong>#</strong> <span className="soft">output waits</span>
              </span>
            }
            other={
              <span>
                <strong>#</strong> <span className="soft">outputs wait</span>
              </span>
            }
          />
        </Link>
      </p>
      <div className="home-bar" aria-hidden="true">
        {parts.map((part) => (
          <i key={part.age} data-tone={part.tone} style={{ flexGrow: part.number }} />
        ))}
      </div>
      <ul className="row wrap small">
        {parts.map((part) => (
          <li key={part.age} className="home-key" data-tone={part.tone}>
            <Link href={`/review?age=${part.age}`}>
              {count(part.number)} {part.name}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function FailingTemplates() {
  const batch = useOfBatch();
  const { found, error, failed } = useFailing(batch);
  const nameOf = useNameOf();
  return (
    <Panel
      title={t`Executions that failed within 24 hours`}
      actions={
        <Link href={failedHref(batch)}>
          <Trans>All of them</Trans>
        </Link>
      }
    >
      <Loaded query={{ data: found, error, refetch: failed.refetch }} lines={2}>
        {(found) =>
          found.rows.length === 0 ? (
            <p className="home-none">
              <Mark tone="good" icon="check">
                <Trans>
                  No execution failed.
                  <FailedTasks batch={batch} />
                </Trans>
              </Mark>
            </p>
          ) : (
            <>
              <p className="home-pad">
                <Sums {...found.all} of={{ ...batch }} />
              </p>
              <ul className="home-list">
                {found.rows.map((row) => (
                  <li key={row.id}>
                    <span className="home-failing">
                      <Link href={failedHref({ ...ofRow(row), ...batch })} className="cut">
                        {visible(nameOf(row.latest))}
                      </Link>
                      <Link href={`/executions/${row.latest.id}`} className="cut faint small">
                        {row.latest.error?.stepId && `${row.latest.error.stepId}: `}
                        {visible(row.latest.error?.message ?? "")}
                      </Link>
                    </span>
                    <Sums {...row} of={{ ...ofRow(row), ...batch }} />
                    <span className="num home-figure soft">
                      <Ago at={row.latest.completedAt ?? row.latest.startedAt} plain />
                    </span>
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

const ofRow = ({ id, isTemplate }: Failing): Record<string, string> =>
  isTemplate ? { templateId: id } : { planId: id };

/** Tasks may have failed where no execution did: the week beside this counts them. */
function FailedTasks({ batch }: { batch: OfBatch }) {
  const may = useMay()("tasks: read");
  useLive(["task.failed"]);
  const { after: since } = spanOf(WITHIN);
  const { data } = usePage(
    "/api/tasks",
    { query: { status: ["failed"], ...(since && { endedAfter: since }), limit: 1, ...batch } } as never,
    { enabled: may },
  );
  if (!data?.total) return null;
  const href = `/tasks?${new URLSearchParams({ status: "failed", ended: WITHIN, ...batch })}`;
  return (
    <>
      {" "}
      <Plural
        value={data.total}
        one={
          <span>
            <Link href={href}># task failed</Link>, which is of none, or of one that went on.
          </span>
        }
        other={
          <span>
            <Link href={href}># tasks failed</Link>, which are of none, or of some that went on.
          </span>
        }
      />
    </>
  );
}

/** The list of the executions that failed within the span, of these members. */
const failedHref = (of: Record<string, string> = {}) =>
  `/executions?${new URLSearchParams({ status: "failed", ended: WITHIN, ...of })}`;

/** What broke apart from what a review rejected, of all that ended; each sum is a list. */
function Sums({ broken, rejected, ended, of }: Counts & { of: Record<string, string> }) {
  return (
    <span className="home-sums">
      {broken > 0 && (
        <Link href={failedHref({ ...of, error: BROKEN })}>
          <Mark tone="bad" icon="cross">
            <Trans>{count(broken)} broken</Trans>
          </Mark>
        </Link>
      )}
      {rejected > 0 && (
        <Link href={failedHref({ ...of, error: "REJECTED" })}>
          <Mark tone="warn" icon="hand">
            <Trans>{count(rejected)} rejected in review</Trans>
          </Mark>
        </Link>
      )}
      <Link href={`/executions?${new URLSearchParams({ ended: WITHIN, ...of })}`} className="soft small">
        <Trans>of {count(ended)} that ended</Trans>
      </Link>
    </span>
  );
}

function Workers() {
  useLive(["worker.*"]);
  // A sign of life is no event, so the workers are read again while they are looked at.
  const workers = usePage("/api/workers", { query: { limit: 100 } }, { refetchInterval: SILENT });
  const isSilent = (worker: ItemOf<"/api/workers">) =>
    worker.status !== "lost" && workers.dataUpdatedAt - Date.parse(worker.lastHeartbeatAt) > SILENT;
  return (
    <Panel
      title={t`Workers`}
      actions={
        <Link href="/workers">
          <Trans>All</Trans>
        </Link>
      }
    >
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
                  <Trans>No worker is connected: no task runs.</Trans>
                </Mark>
                <Command>{`callboard worker --server ${window.location.origin} --key-file worker.key --provider openai`}</Command>
              </div>
            );
          }
          return (
            <div className="home-pad stack">
              <p>
                <Link href="/workers?state=connected">
                  <strong>
                    <Plural value={there.length} one="# worker" other="# workers" />
                  </strong>
                </Link>{" "}
                <span className="soft">
                  <Plural
                    value={slots}
                    one={`connected; ${count(running)} of # slot in use`}
                    other={`connected; ${count(running)} of # slots in use`}
                  />
                </span>
              </p>
              {there.filter(isSilent).map((worker) => (
                <p key={worker.id}>
                  <Mark tone="warn" icon="warn">
                    <Trans>{visible(worker.name)} is silent</Trans>
                  </Mark>{" "}
                  <span className="faint">
                    <Trans>
                      since <Ago at={worker.lastHeartbeatAt} plain />
                    </Trans>
                  </span>
                </p>
              ))}
              {lost.length > 0 && (
                <p>
                  <Link href="/workers?state=lost">
                    <Mark tone="bad" icon="cross">
                      <Plural value={lost.length} one="# worker lost" other="# workers lost" />
                    </Mark>
                  </Link>{" "}
                  <span className="faint">
                    <Trans>within the hour</Trans>
                  </span>
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
    <Panel
      title={t`Webhooks`}
      actions={
        <Link href="/admin/deliveries?status=dead">
          <Trans>Deliveries</Trans>
        </Link>
      }
    >
      <Loaded query={dead} lines={1}>
        {({ items, total }) =>
          total === 0 ? (
            <p className="home-pad">
              <Mark tone="good" icon="check">
                <Trans>No delivery was given up.</Trans>
              </Mark>
            </p>
          ) : (
            <div className="home-pad stack">
              <Link href="/admin/deliveries?status=dead">
                <Mark tone="bad" icon="cross">
                  <Plural value={total} one="# delivery given up" other="# deliveries given up" />
                </Mark>
              </Link>
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
  const batch = useOfBatch();
  const week = useWeek(batch);
  return (
    <Panel
      title={t`Tasks that ended today, against the week`}
      actions={
        <Link href="/insights">
          <Trans>Insights</Trans>
        </Link>
      }
    >
      <Loaded query={week} lines={4}>
        {(days) => <Days days={days} batch={batch} />}
      </Loaded>
    </Panel>
  );
}

const sums = ({ completed, failed, rejected, cost }: Day) => [
  t`${count(completed)} completed`,
  t`${count(failed)} failed`,
  t`${count(rejected)} rejected`,
  ...(cost === undefined ? [] : [money(cost)]),
];

const endedHref = (ended: string, status: string, batch: OfBatch) =>
  `/tasks?${new URLSearchParams({ status, ended, ...batch })}`;

function Days({ days, batch }: { days: Day[]; batch: OfBatch }) {
  const today = days.at(-1) as Day;
  const before = days.slice(0, -1);
  const isPriced = days.every(({ cost }) => cost !== undefined);
  const isPart = days.some(({ priceUnknown }) => priceUnknown);
  const mean = (of: (day: Day) => number) =>
    before.reduce((sum, day) => sum + of(day), 0) / Math.max(1, before.length);
  const all = ({ completed, failed, rejected }: Day) => completed + failed + rejected;
  const highest = Math.max(1, ...days.map(all));
  const name = new Intl.DateTimeFormat(locale, { weekday: "short" });
  const states = [
    ["completed", t`Completed`],
    ["failed", t`Failed`],
    ["rejected", t`Rejected`],
  ] as const;
  return (
    <div className="home-pad stack">
      <dl className="home-figures">
        {states.map(([state, word]) => (
          <div key={state}>
            <dt>{word}</dt>
            <dd data-bad={state === "failed" && today.failed > mean((day) => day.failed)}>
              <Link href={endedHref(today.date, state, batch)} data-sum={state}>
                {short(today[state])}
              </Link>{" "}
              <span className="faint small">
                <Trans>average {short(Math.round(mean((day) => day[state])))}</Trans>
              </span>
            </dd>
          </div>
        ))}
        <div>
          <dt>
            <Trans>Cost</Trans>
          </dt>
          {isPriced ? (
            <dd data-tip={isPart ? t`A model without a price counts as $0.` : undefined}>
              <Link href="/insights?tab=cost" data-sum="cost">
                {money(today.cost)}
              </Link>
              {isPart && " + ?"}{" "}
              <span className="faint small">
                <Trans>average {money(mean((day) => day.cost ?? 0))}</Trans>
              </span>
            </dd>
          ) : (
            <dd data-tip={t`The server adds up at most 100,000 tasks.`}>–</dd>
          )}
        </div>
      </dl>
      <ol className="home-days">
        {days.map((day) => (
          <li key={day.date} data-tip={[day.date, ...sums(day)].join("\n")}>
            <Link href={endedHref(day.date, "completed,failed,rejected", batch)}>
              <span className="hide">
                {day.date}: {sums(day).join(", ")}
              </span>
              <span className="home-column" aria-hidden="true">
                <i data-tone="bad" style={{ height: `${(day.failed / highest) * 100}%` }} />
                <i data-tone="warn" style={{ height: `${(day.rejected / highest) * 100}%` }} />
                <i data-tone="run" style={{ height: `${(day.completed / highest) * 100}%` }} />
              </span>
              <span aria-hidden="true">{name.format(midnight(day.date))}</span>
            </Link>
          </li>
        ))}
      </ol>
    </div>
  );
}
