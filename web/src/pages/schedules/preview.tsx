/** When an expression runs: the next times, the days of a year, and what happens when the clocks change. */
import { useMemo } from "react";
import { useNow } from "../../lib/clock";
import { count, plural, relative } from "../../lib/format";
import { zone as readersZone } from "../../lib/span";
import { Failed, Panel } from "../../ui/basics";
import { Mark } from "../../ui/status";
import { type Day, instants, isInterval, nextOf, yearOf } from "./cron";
import { Both, clockOf } from "./times";
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
    return <Failed error={new Error(found.fault)} what="There is no preview" />;
  }
  const next = found.next.filter((at) => at > now).slice(0, NEXT);
  const said = nextRunAt ? Date.parse(nextRunAt) : undefined;
  if (said !== undefined && said > now && !found.next.includes(said)) {
    return (
      <p className="notice" data-tone="warn">
        <span>
          This browser computes other times than the server, whose time zones may be newer: there is no
          preview. The next run is at {clockOf(zone, said)}.
        </span>
      </p>
    );
  }
  return (
    <>
      <Panel title="Next runs" actions={<span className="soft small">{zone}</span>}>
        {next.length === 0 ? (
          <p className="pad soft">It never runs: no date of the next five years matches.</p>
        ) : (
          <ol className="schedules-next pad" aria-label="Next runs">
            {next.map((at) => (
              <li key={at}>
                <Both at={at} zone={zone} />
                <span className="soft small">{relative(at, now)}</span>
              </li>
            ))}
          </ol>
        )}
      </Panel>
      <Panel title="A year" actions={<span className="soft small">{sumOf(found.days)}</span>}>
        <div className="pad">
          <Year days={found.days} zone={zone} />
        </div>
      </Panel>
      <Panel title="When the clocks change">
        {found.changes.length === 0 ? (
          <p className="pad soft">
            The clocks of {zone} do not change in the next year.
            {zone === "UTC" &&
              readersZone() !== "UTC" &&
              " Those of your own zone may: then the same run is at another hour for you."}
          </p>
        ) : (
          <ul className="schedules-changes">
            {found.changes.map((change) => (
              <li key={change.at} className="pad">
                <strong>{change.day}</strong>{" "}
                <Mark tone="warn" icon="clock">
                  {Math.abs(change.by) % 3_600_000 === 0
                    ? plural(Math.abs(change.by) / 3_600_000, "hour")
                    : `${Math.abs(change.by) / 60_000} minutes`}{" "}
                  {change.by > 0 ? "forward" : "back"}
                </Mark>
                <div>
                  {change.runs === 0 ? "It does not run on this day" : plural(change.runs, "run")}
                  {change.around.length > 0 && (
                    <>
                      , around the change at <span className="mono">{change.around.join(", ")}</span>
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
            ? "An interval goes on evenly: nothing runs in the hour that is left out, and the hour that comes twice has its runs twice."
            : "Fixed times run once on each day: one that is left out moves to the end of the gap, and one that comes twice runs at the first."}{" "}
          <a href="/docs/reference/schedules#daylight-saving">The rule</a>
        </p>
      </Panel>
    </>
  );
}

function computed(cron: string, zone: string, from: number) {
  if (!isZone(zone))
    return { fault: `${zone} is no time zone that this browser knows, such as Europe/Berlin` };
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

const dayFormat = new Intl.DateTimeFormat("en-GB", {
  timeZone: "UTC",
  weekday: "short",
  day: "numeric",
  month: "long",
  year: "numeric",
});
const dayOf = (wall: number) => dayFormat.format(wall);

const monthFormat = new Intl.DateTimeFormat("en-US", { timeZone: "UTC", month: "short", year: "2-digit" });

function sumOf(days: Day[]): string {
  const with_ = days.filter(({ runs }) => runs > 0);
  const runs = days.reduce((sum, day) => sum + day.runs, 0);
  return `${plural(runs, "run")} on ${count(with_.length)} of 365 days`;
}

/** A line for each month and a box for each day: filled where it runs, framed where the clocks change. */
function Year({ days, zone }: { days: Day[]; zone: string }) {
  const months = new Map<string, Day[]>();
  for (const day of days) {
    const key = monthFormat.format(day.wall);
    months.set(key, [...(months.get(key) ?? []), day]);
  }
  return (
    <div className="schedules-year" role="img" aria-label={`Days of a year in ${zone}: ${sumOf(days)}`}>
      {[...months].map(([name, of]) => (
        <div key={name} className="schedules-month">
          <span className="soft small">{name}</span>
          {of.map(({ wall, runs, change }, index) => (
            <i
              key={wall}
              style={index === 0 ? { gridColumnStart: new Date(wall).getUTCDate() + 1 } : undefined}
              data-runs={runs > 0}
              data-change={change !== undefined}
              data-tip={`${dayOf(wall)}: ${runs === 0 ? "no run" : plural(runs, "run")}${change === undefined ? "" : ", the clocks change"}`}
            />
          ))}
        </div>
      ))}
      <p className="schedules-legend small soft">
        <span>
          <i data-runs="true" /> runs
        </span>
        <span>
          <i data-runs="false" /> does not run
        </span>
        <span>
          <i data-runs="true" data-change="true" /> the clocks change
        </span>
      </p>
    </div>
  );
}
