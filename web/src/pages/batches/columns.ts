/** The columns of the rows of a batch: what its template declares, or what its outputs have. */
import type { BatchRow } from "./read";

/** The most columns of an output; what is more is in the row's execution, and in the export. */
const MOST = 12;

/** The members that the schema of an output declares, in its order; of none, those that the outputs have. */
export function fieldsOf(schema: unknown, rows: readonly BatchRow[]): string[] {
  const declared = isObject(schema) && isObject(schema.properties) ? Object.keys(schema.properties) : [];
  if (declared.length > 0) return declared.slice(0, MOST);
  const found = new Set<string>();
  for (const { output } of rows)
    if (isObject(output)) for (const name of Object.keys(output)) found.add(name);
  return [...found].slice(0, MOST);
}

/** The steps of the rows that have a confidence, in the order of the plan. */
export function confidentSteps(rows: readonly BatchRow[]): string[] {
  const found = new Set<string>();
  for (const { steps } of rows) {
    for (const [id, step] of Object.entries(steps ?? {})) if (step.confidence !== undefined) found.add(id);
  }
  return [...found];
}

/** A value in one line: a text as it is, anything else as JSON. */
export function lineOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
