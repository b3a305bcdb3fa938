/** Spans of time as the address has them, in the time zone of the reader. */
export const DAY = 86_400_000;
const MINUTE = 60_000;
const SPANS: Record<string, [ms: number, rounded: number]> = {
  "1h": [DAY / 24, MINUTE],
  "4h": [DAY / 6, MINUTE],
  "24h": [DAY, 10 * MINUTE],
  "7d": [7 * DAY, 60 * MINUTE],
};

/** A day: 2026-11-28. */
export const DATE = /^\d{4}-\d{2}-\d{2}$/;

export type Span = { after?: string; before?: string };

/**
 * The instants of `24h` (rounded, so that a sum and the list behind it ask the same), of a day, or since an instant.
 */
export function spanOf(value: string | null | undefined, now = Date.now()): Span {
  if (!value) return {};
  const span = SPANS[value];
  if (span) return { after: iso(Math.floor((now - span[0]) / span[1]) * span[1]) };
  if (DATE.test(value)) {
    const [after, before] = [0, 1].map((days) => midnight(value, days)) as [number, number];
    return Number.isNaN(after) ? {} : { after: iso(after), before: iso(before) };
  }
  const at = Date.parse(value);
  return Number.isNaN(at) ? {} : { after: iso(at) };
}

/** The beginning of the day that is so many days after this one. Days of a change of clocks are longer or shorter. */
export function midnight(date: string, days = 0): number {
  const [year = 0, month = 1, day = 1] = date.split("-").map(Number);
  return new Date(year, month - 1, day + days).getTime();
}

/** The day of an instant: 2026-11-28. */
export function dateOf(at: number): string {
  const day = new Date(at);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

/** The last days up to today, the oldest first. */
export function lastDays(number: number, now = Date.now()): string[] {
  const today = dateOf(now);
  return Array.from({ length: number }, (_, index) => dateOf(midnight(today, index - number + 1)));
}

/** The name of the time zone of the reader, of the IANA database. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

const iso = (at: number) => new Date(at).toISOString();
