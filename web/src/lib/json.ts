/** JSON whose numbers keep the digits that they were written with, where the browser can tell them apart. */
type Native = typeof JSON & {
  rawJSON?: (text: string) => object;
  isRawJSON?: (value: unknown) => boolean;
};
const native = JSON as Native;

/** Reads JSON. A number that a double cannot hold, such as `0.10` or 20 digits, is written again as it was. */
export function parse(text: string): unknown {
  const raw = native.rawJSON;
  if (!raw) return JSON.parse(text);
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? raw(context.source)
      : value;
  return JSON.parse(text, keep as (name: string, value: unknown) => unknown);
}

/** True if the value is a number that `parse` kept as it was written. */
export const isWritten = (value: unknown) => native.isRawJSON?.(value) ?? false;

/** The value of a JSON text, or nothing if it is none. */
export function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: parse(text) };
  } catch {
    return undefined;
  }
}

/** True if two values are equal, whatever the order of their members. */
export const isSame = (a: unknown, b: unknown) => sorted(a) === sorted(b);

const sorted = (value: unknown) =>
  JSON.stringify(value, (_, each) =>
    typeof each === "object" && each !== null && !Array.isArray(each) && !isWritten(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );

/** A value as text: on one line, or on several as the text that it replaces. */
export const writtenAs = (like: string, value: unknown) =>
  like.trim().includes("\n") ? JSON.stringify(value, null, 2) : JSON.stringify(value);

/** JSON with line breaks and indents, if the text is an object or an array in JSON that is not too long for it. */
export function formatted(text: string): string | undefined {
  const start = text.trimStart().charAt(0);
  if ((start !== "{" && start !== "[") || text.length > 400_000) return undefined;
  const read = parsed(text);
  return read && JSON.stringify(read.value, null, 2);
}
