/**
 * The instants of a cron expression, by the rule of the server (docs/reference/schedules.md, "Daylight saving").
 *
 *     fixed times   wall-clock times become instants: the end of the gap, or the first of two
 *     an interval   (a `*` in the minute or the hour) goes on evenly through each change of the clocks
 *
 * croner, whose patterns the server reads, finds the wall-clock times; it is given UTC, so its own rule of zones is
 * never used. A chunk of its own.
 */
import { t } from "@lingui/core/macro";
import { Cron } from "croner";
import { toString as describe } from "cronstrue";
import { language } from "../../lib/texts";
import { changesOf, instantOf, wallOf } from "./zone";

if (language === "de") await import("cronstrue/locales/de.min.js");

const NAMED: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@hourly": "0 * * * *",
};

const fieldsOf = (cron: string) => (NAMED[cron.trim().toLowerCase()] ?? cron.trim()).split(/\s+/);

/** Throws where the expression cannot be read. */
function patternOf(cron: string): Cron {
  return new Cron(fieldsOf(cron).join(" "), { mode: "5-part", timezone: "UTC", paused: true });
}

export function isInterval(cron: string): boolean {
  const [minute = "", hour = ""] = fieldsOf(cron);
  return /[*?]/.test(minute) || /[*?]/.test(hour);
}

/** The instants after `after` and before `until`, in order. Throws where the expression cannot be read. */
export function* instants(cron: string, zone: string, after: number, until: number): Generator<number> {
  const pattern = patternOf(cron);
  const next = (wall: number) => pattern.nextRun(new Date(wall))?.getTime();
  if (!isInterval(cron)) {
    let last = after;
    let wall = next(wallOf(zone, after));
    while (wall !== undefined) {
      const at = instantOf(zone, wall);
      if (at >= until) return;
      // Several times of a gap are one instant.
      if (at > last) yield at;
      last = Math.max(last, at);
      wall = next(wall);
    }
    return;
  }
  let from = Math.floor(after / 1000) * 1000;
  const ends = [...changesOf(zone, from, until).map(({ at }) => at), until];
  for (const end of ends) {
    const offset = wallOf(zone, from) - from;
    // The pattern is asked for what comes later than a second; a stretch begins with its first.
    let wall = next(from + offset - (from === Math.floor(after / 1000) * 1000 ? 0 : 1000));
    while (wall !== undefined && wall - offset < end) {
      yield wall - offset;
      wall = next(wall);
    }
    from = end;
  }
}

/** The first instants after `after`, at most so many; of five years. */
export function nextOf(cron: string, zone: string, after: number, most: number): number[] {
  const found: number[] = [];
  const until = after + 5 * 366 * 86_400_000;
  for (const at of instants(cron, zone, after, until)) {
    found.push(at);
    if (found.length === most) break;
  }
  return found;
}

/** A day of the zone, as the instant at which UTC has its midnight, with its number of occurrences. */
export type Day = { wall: number; runs: number; change?: number };

const DAY = 86_400_000;

/** The days of a year from the day of `from` on. A day without a change of the clocks is counted by its times alone. */
export function yearOf(cron: string, zone: string, from: number): Day[] {
  const pattern = patternOf(cron);
  const first = Math.floor(wallOf(zone, from) / DAY) * DAY;
  const changed = new Map(
    changesOf(zone, from - DAY, from + 367 * DAY).map(({ at, by }) => [
      Math.floor(wallOf(zone, at) / DAY) * DAY,
      by,
    ]),
  );
  let perDay: number | undefined;
  return Array.from({ length: 365 }, (_, index): Day => {
    const wall = first + index * DAY;
    const change = changed.get(wall);
    if (change !== undefined) return { wall, change, runs: countOf(cron, zone, wall) };
    const next = pattern.nextRun(new Date(wall - 1000))?.getTime();
    if (next === undefined || next >= wall + DAY) return { wall, runs: 0 };
    // The minutes and hours of an expression are the same on each of its days.
    perDay ??= wallsOf(pattern, wall);
    return { wall, runs: perDay };
  });
}

function wallsOf(pattern: Cron, wall: number): number {
  let found = 0;
  let next = pattern.nextRun(new Date(wall - 1000))?.getTime();
  for (; next !== undefined && next < wall + DAY; found++) next = pattern.nextRun(new Date(next))?.getTime();
  return found;
}

function countOf(cron: string, zone: string, wall: number): number {
  return [...instants(cron, zone, instantOf(zone, wall) - 1000, instantOf(zone, wall + DAY))].length;
}

/** The expression in words; throws where it cannot be read. */
export function inWords(cron: string): string {
  const fields = fieldsOf(cron);
  patternOf(cron);
  const [, , day = "*", , weekday = "*"] = fields;
  const both = weekday.startsWith("+");
  const plain = [...fields.slice(0, 4), weekday.replace(/^\+/, "")].join(" ");
  const text = describe(plain, { use24HourTimeFormat: true, locale: language });
  if (day === "*" || /^\+?[*?]$/.test(weekday)) return text;
  return both ? t`${text}: days that are both` : t`${text}: days that are either`;
}
