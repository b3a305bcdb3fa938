/** Numbers, money, times and durations as people read them; one place, so that all pages agree. */
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const absolute = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
  timeZoneName: "short",
});

export const count = (value: number) => whole.format(value);
export const short = (value: number) =>
  Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);

/** US dollars. Cents suffice from one dollar on; below, four digits that say something. */
export function money(value: number | undefined): string {
  if (value === undefined) return "–";
  if (value === 0) return "$0";
  const size = Math.abs(value);
  if (size < 0.0001) return "< $0.0001";
  const digits = size >= 1 ? 2 : 4;
  return `${value < 0 ? "−" : ""}$${size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** Money on an axis: with enough digits to distinguish the values. */
export const axisMoney = (value: number) => `$${value.toLocaleString("en", { maximumSignificantDigits: 2 })}`;

/** 0..1 as two digits, as thresholds are written. */
export const ratio = (value: number | undefined) => (value === undefined ? "–" : value.toFixed(2));
export const percent = (value: number | undefined, digits = 0) =>
  value === undefined ? "–" : `${(value * 100).toFixed(digits)} %`;

/** A duration in milliseconds: two units at most. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large: number, one: string, small: number, other: string): string {
  return small === 0 ? `${large} ${one}` : `${large} ${one} ${small} ${other}`;
}

/** One unit: for a column. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function relative(at: number, now: number): string {
  const distance = now - at;
  if (Math.abs(distance) < 1000) return "now";
  return distance >= 0 ? `${age(distance)} ago` : `in ${age(-distance)}`;
}

export const instant = (at: string | number | Date) => absolute.format(new Date(at));

/** The end of an identifier, which differs where the beginning does not. */
export const tail = (id: string) => (id.length > 12 ? `…${id.slice(-8)}` : id);

export const plural = (number: number, one: string, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;
