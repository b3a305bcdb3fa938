/** What the insights are computed from: only what the API told. */
import type { Schemas } from "../../api/client";

type Tally = Schemas["Tally"];
type Execution = Schemas["Execution"];

/** How many outputs a reviewer decided on. */
export const reviewed = ({ approved, edited, rejected }: Tally) => approved + edited + rejected;

/** The share of the decided outputs that passed as they were; nothing where none was decided. */
export function accepted(tally: Tally): number | undefined {
  const all = reviewed(tally);
  return all === 0 ? undefined : tally.approved / all;
}

export type Sum = {
  name: string;
  executions: number;
  input: number;
  output: number;
  cost: number;
  unknown: boolean;
};

/** Tokens and cost of executions, added by what `nameOf` says. */
export function sums(executions: Execution[], nameOf: (execution: Execution) => string): Sum[] {
  const found = new Map<string, Sum>();
  for (const execution of executions) {
    const name = nameOf(execution);
    const sum = found.get(name) ?? { name, executions: 0, input: 0, output: 0, cost: 0, unknown: false };
    found.set(name, {
      name,
      executions: sum.executions + 1,
      input: sum.input + execution.usage.input,
      output: sum.output + execution.usage.output,
      cost: sum.cost + execution.usage.totalCost,
      unknown: sum.unknown || execution.usage.priceUnknown === true,
    });
  }
  return [...found.values()];
}

/** The UTC day of an instant. */
export const day = (instant: string) => instant.slice(0, 10);

/** Every day from the first to the last, those without anything too. */
export function days(first: string, last: string): string[] {
  const all: string[] = [];
  const end = Date.parse(`${last}T00:00:00Z`);
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= end && all.length < 400; at += 86_400_000) {
    all.push(new Date(at).toISOString().slice(0, 10));
  }
  return all;
}

/** The threshold nearest to a value. */
export function nearest(thresholds: Schemas["Threshold"][], value: number): number {
  let best = 0;
  thresholds.forEach(({ threshold }, index) => {
    const known = thresholds[best];
    if (known && Math.abs(threshold - value) < Math.abs(known.threshold - value)) best = index;
  });
  return best;
}
