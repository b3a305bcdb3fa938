/** How long the steps of runs took, each beside the median of its step. */
import type { Schemas } from "../../api/client";

type Execution = Schemas["Execution"];
export type StepTime = { state: string; ms?: number };
export type Times = Record<string, StepTime>;

/** The times of an execution's steps. One that was taken over from another execution took none here. */
export function timesOf({ steps }: Pick<Execution, "steps">): Times {
  return Object.fromEntries(
    Object.entries(steps ?? {}).map(([id, { status, durationMs, reusedFrom }]) => [
      id,
      { state: status, ms: reusedFrom ? undefined : durationMs },
    ]),
  );
}

export function median(values: number[]): number | undefined {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  const [low, high] = [sorted[Math.floor(middle)], sorted[Math.ceil(middle)]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

export type Column = { id: string; median: number | undefined };

/** A column for each step: those of the template in their order, then what only older runs had. */
export function columnsOf(known: string[], runs: Times[]): Column[] {
  const ids = new Set([...known, ...runs.flatMap((run) => Object.keys(run))]);
  return [...ids].map((id) => ({
    id,
    median: median(
      runs.flatMap((run) => (run[id]?.state === "completed" && run[id].ms !== undefined ? [run[id].ms] : [])),
    ),
  }));
}

/** The `most` columns that took longest, in the order that they had. */
export function slowest(columns: Column[], most: number): Column[] {
  const kept = new Set(
    columns.toSorted((one, other) => (other.median ?? 0) - (one.median ?? 0)).slice(0, most),
  );
  return columns.filter((column) => kept.has(column));
}

/** From so many times the median on, a duration is of the next shade. */
export const SHADES = [2, 3, 5];
/** Less is noise of queue and network, whatever the median. */
const NOISE_MS = 100;

/** -1 for less than half of the median, 0 for about as much, 1 to 3 for ever more. */
export function shadeOf(ms: number | undefined, middle: number | undefined): number | undefined {
  if (ms === undefined || middle === undefined) return undefined;
  if (Math.abs(ms - middle) < NOISE_MS) return 0;
  if (ms < middle / 2) return -1;
  return SHADES.filter((times) => ms >= times * middle).length;
}
