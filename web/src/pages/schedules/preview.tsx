/** When an expression runs: the next times, the days of a year, and what happens when the clocks change. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMemo } from "react";
import { Link } from "wouter";
import { useNow } from "../../lib/clock";
import { count, duration, relative } from "../../lib/format";
import { zone as readersZone } from "../../lib/span";
import { locale } from "../../lib/texts";
import { Failed, Panel } from "../../ui/basics";
import { Mark } from "../../ui/status";
import { type Day, instants, isInterval, nextOf, yearOf } from "./cron";
import { Both, clockOf, schedulesLocale } from "./times";
import { changesOf, isZone, wallOf } from "./zone";

const NEXT = 8;
const DAY = 86_400_000;
const AROUND = 2 * 3_600_000 + 1;
const MOST = 8;

type Props = {
  cron: string;
  zone: string;
  /** What the server says; where the browser computes another time, its zones are older and nothing is shown. */
  nextRunAt?: string;
};

export default function Preview({ cron, zone, nextRunAt }: Props) {
  // The hour keeps it from being computed again each second.
  const hour = Math.floor(useNow() / 3_600_000) * 3_600_000;
  const found = useMemo(() => computed(cron, zone, hour), [cron, zone, hour]);
  const now = useNow();
  if ("fault" in found) {
    return <Failed error={new Error(found.fault)} what={t`There is no preview`} />;
  }
  const next = found.next.filter((at) => at > now).slice(0, NEXT);
  const said = nextRunAt ? Date.parse(nextRunAt) : undefined;
  if (said !== undefined && said > now && !found.next.includes(said)) {
    return (
      <p className="notice" data-tone="warn">
        <span>
          <Trans>
            This browser computes other times than the server, whose time zones may be newer: there is no
            preview. The next run is at {clockOf(zone, said)}.
          </Trans>
        </span>
      </p>
    );
  }
  return (
    <>
      <Panel title={t`Next runs`} actions={<span className="soft small">{zone}</span>}>
        {next.length === 0 ? (
          <p className="pad soft">
            <Trans>It never runs: no date of the next five years matches.</Trans>
          </p>
        ) : (
          <ol className="schedules-next pad" aria-label={t`Next runs`}>
            {next.map((at) => (
              <li key={at}>
                <Both at={at} zone={zone} />
                <span className="soft small">{relative(at, now)}</span>
              </li>
            ))}
          </ol>
        )}
      </Panel>
      <Panel title={t`A year`} actions={<span className="soft small">{sumOf(found.days)}</span>}>
        <div className="pad">
          <Year days={found.days} zone={zone} />
        </div>
      </Panel>
      <Panel title={t`When the clocks change`}>
        {found.changes.length === 0 ? (
          <p className="pad soft">
            <Trans>The clocks of {zone} do not change in the next year.</Trans>
            {zone === "UTC" &&
              readersZone() !== "UTC" &&
              t` Those of your own zone may: then the same run is at another hour for you.`}
          </p>
        ) : (
          <ul className="schedules-changes">
            {found.changes.map((change) => (
              <li key={change.at} className="pad">
                <strong>{change.day}</strong>{" "}
                <Mark tone="warn" icon="clock">
                  {change.by > 0
                    ? t`${duration(change.by)} forward`
                    : t`${duration(Math.abs(change.by))} back`}
                </Mark>
                <div>
                  {change.runs === 0
                    ? t`It does not run on this day`
                    : plural(change.runs, { one: "# run", other: "# runs" })}
                  {change.around.length > 0 && (
                    <>
                      ,{" "}
                      <Trans>
                        around the change at <span className="mono">{change.around.join(", ")}</span>
                      </Trans>
                      {change.isCut && ", …"}
                    </>
                  )}
                  .
                </div>
              </li>
            ))}
          </ul>
        )}
        <p className="pad small soft">
          {isInterval(cron)
            ? t`An interval goes on evenly: nothing runs in the hour that is left out, and the hour that comes twice has its runs twice.`
            : t`Fixed times run once on each day: one that is left out moves to the end of the gap, and one that comes twice runs at the first.`}{" "}
          <Link href="/docs/reference/schedules#daylight-saving">
            <Trans>The rule</Trans>
          </Link>
        </p>
      </Panel>
    </>
  );
}

function computed(cron: string, zone: string, from: number) {
  if (!isZone(zone))
    return { fault: t`${zone} is no time zone that this browser knows, such as Europe/Berlin` };
  try {
    const next = nextOf(cron, zone, from, NEXT + 120);
    const days = yearOf(cron, zone, from);
    const changes = changesOf(zone, from, from + 365 * DAY).map(({ at, by }) => {
      const around = [...instants(cron, zone, at - AROUND, at + AROUND)];
      const wall = Math.floor(wallOf(zone, at) / DAY) * DAY;
      return {
        at,
        by,
        day: dayOf(wall),
        runs: days.find((each) => each.wall === wall)?.runs ?? 0,
        around: around.slice(0, MOST).map((each) => clockOf(zone, each).slice(-5)),
        isCut: around.length > MOST,
      };
    });
    return { next, days, changes };
  } catch (error) {
    return { fault: (error as Error).message };
  }
}

const dayFormat = new Intl.DateTimeFormat(schedulesLocale, {
  timeZone: "UTC",
  weekday: "short",
  day: "numeric",
  month: "long",
  year: "numeric",
});
const dayOf = (wall: number) => dayFormat.format(wall);

const monthFormat = new Intl.DateTimeFormat(locale, { timeZone: "UTC", month: "short", year: "2-digit" });

function sumOf(days: Day[]): string {
  const with_ = days.filter(({ runs }) => runs > 0);
  const runs = days.reduce((sum, day) => sum + day.runs, 0);
  const on = count(with_.length);
  return plural(runs, { one: `# run on ${on} of 365 days`, other: `# runs on ${on} of 365 days` });
}

/** A line for each month and a box for each day: filled where it runs, framed where the clocks change. */
function Year({ days, zone }: { days: Day[]; zone: string }) {
  const months = new Map<string, Day[]>();
  for (const day of days) {
    const key = monthFormat.format(day.wall);
    months.set(key, [...(months.get(key) ?? []), day]);
  }
  return (
    <div className="schedules-year" role="img" aria-label={t`Days of a year in ${zone}: ${sumOf(days)}`}>
      {[...months].map(([name, of]) => (
        <div key={name} className="schedules-month">
          <span className="soft small">{name}</span>
          {of.map(({ wall, runs, change }, index) => (
            <i
              key={wall}
              style={index === 0 ? { gridColumnStart: new Date(wall).getUTCDate() + 1 } : undefined}
              data-runs={runs > 0}
              data-change={change !== undefined}
              data-tip={`${dayOf(wall)}: ${runs === 0 ? t`no run` : plural(runs, { one: "# run", other: "# runs" })}${change === undefined ? "" : `, ${t`the clocks change`}`}`}
            />
          ))}
        </div>
      ))}
      <p className="schedules-legend small soft">
        <span>
          <i data-runs="true" /> <Trans>runs</Trans>
        </span>
        <span>
          <i data-runs="false" /> <Trans>does not run</Trans>
        </span>
        <span>
          <i data-runs="true" data-change="true" /> <Trans>the clocks change</Trans>
        </span>
      </p>
    </div>
  );
}
