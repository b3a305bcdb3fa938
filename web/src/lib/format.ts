/** Numbers, money, times and durations in the reader's locale; one place, so that all pages agree. */
import { t } from "@lingui/core/macro";
import { locale } from "./texts";

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const two = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const one = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const absolute = new Intl.DateTimeFormat(locale, {
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

/** US dollars with these digits. */
export const dollars = (value: number, digits: Intl.NumberFormatOptions) =>
  value.toLocaleString(locale, {
    style: "currency",
    currency: "USD",
    currencyDisplay: "narrowSymbol",
    ...digits,
  });

/** US dollars. Cents suffice from one dollar on; below, four digits that say something. */
export function money(value: number | undefined): string {
  if (value === undefined) return "–";
  const size = Math.abs(value);
  const digits = value === 0 ? 0 : size >= 1 ? 2 : 4;
  const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value !== 0 && size < 0.0001 ? `< ${dollars(0.0001, fixed)}` : dollars(value, fixed);
}

/** Money on an axis: with enough digits to distinguish the values. */
export const axisMoney = (value: number) =>
  dollars(value, { minimumFractionDigits: 0, maximumSignificantDigits: 2 });

/** 0..1 as two digits, as thresholds are written. */
export const ratio = (value: number | undefined) => (value === undefined ? "–" : two.format(value));
export const percent = (value: number | undefined, digits = 0) =>
  value === undefined
    ? "–"
    : `${(value * 100).toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits })} %`;

const UNITS = {
  ms: (value: string) => t`${value} ms`,
  s: (value: string) => t`${value} s`,
  min: (value: string) => t`${value} min`,
  h: (value: string) => t`${value} h`,
  d: (value: string) => t`${value} d`,
};
type Unit = keyof typeof UNITS;

/** A duration in milliseconds: two units at most. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms < 1000) return UNITS.ms(count(ms));
  const seconds = ms / 1000;
  if (seconds < 60) return UNITS.s(seconds < 10 ? one.format(seconds) : count(Math.floor(seconds)));
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large: number, first: Unit, small: number, second: Unit): string {
  const whole = UNITS[first](count(large));
  return small === 0 ? whole : `${whole} ${UNITS[second](count(small))}`;
}

/** One unit: for a column. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return UNITS.s(count(seconds));
  if (seconds < 3600) return UNITS.min(count(Math.floor(seconds / 60)));
  if (seconds < 48 * 3600) return UNITS.h(count(Math.floor(seconds / 3600)));
  return UNITS.d(count(Math.floor(seconds / 86400)));
}

export function relative(at: number, now: number): string {
  const distance = now - at;
  if (Math.abs(distance) < 1000) return t`now`;
  const span = age(Math.abs(distance));
  return distance >= 0 ? t`${span} ago` : t`in ${span}`;
}

export const instant = (at: string | number | Date) => absolute.format(new Date(at));

/** The end of an identifier, which differs where the beginning does not. */
export const tail = (id: string) => (id.length > 12 ? `…${id.slice(-8)}` : id);
