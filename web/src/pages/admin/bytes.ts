/** A number of bytes in the unit that fits. */
import { locale } from "../../lib/texts";

export function bytes(value: number | undefined): string | undefined {
  if (value === undefined) return undefined;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  const digits = unit > 0 && size < 10 ? 1 : 0;
  return `${size.toLocaleString(locale, { maximumFractionDigits: digits, minimumFractionDigits: digits })} ${units[unit]}`;
}
