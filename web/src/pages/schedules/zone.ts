/** The offset of a time zone from UTC at an instant, and the instants at which it changes. */
const HOUR = 3_600_000;
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(zone, format);
  }
  return format;
}

/** True if the browser knows the zone. */
export function isZone(zone: string): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** The wall-clock time of an instant, written as the instant at which UTC has it. Whole seconds. */
export function wallOf(zone: string, at: number): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(at)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Milliseconds that the wall clock is ahead of UTC. */
export const offsetAt = (zone: string, at: number) => wallOf(zone, at) - Math.floor(at / 1000) * 1000;

/** An instant at which the clocks change, and by how much: positive where they go forward. */
export type Change = { at: number; by: number };

/** The changes after `from` and up to `until`, to the second. A zone that changes twice within a day is not known. */
export function changesOf(zone: string, from: number, until: number): Change[] {
  const changes: Change[] = [];
  let before = offsetAt(zone, from);
  for (let day = from; day < until; day += 24 * HOUR) {
    const end = Math.min(until, day + 24 * HOUR);
    const after = offsetAt(zone, end);
    if (after !== before) changes.push({ at: changeIn(zone, day, end, before), by: after - before });
    before = after;
  }
  return changes;
}

/** The first second at which the offset is no longer that of `low`. */
function changeIn(zone: string, low: number, high: number, offset: number): number {
  let [from, to] = [Math.floor(low / 1000), Math.floor(high / 1000)];
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2);
    if (offsetAt(zone, middle * 1000) === offset) from = middle;
    else to = middle;
  }
  return to * 1000;
}

/** The instant of a wall-clock time: the first of two, and the end of the gap for one that does not exist. */
export function instantOf(zone: string, wall: number): number {
  const [before, after] = [offsetAt(zone, wall - 26 * HOUR), offsetAt(zone, wall + 26 * HOUR)];
  const found = [before, after].map((offset) => wall - offset).filter((at) => wallOf(zone, at) === wall);
  if (found.length > 0) return Math.min(...found);
  return changeIn(zone, wall - after - 1000, wall - before, before);
}
