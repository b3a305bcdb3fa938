/** The figures of the insights, all computed from the API's answers. */
import type { Schemas } from "../../api/client";

type Tally = Schemas["Tally"];

/** How many outputs a reviewer decided on. */
export const reviewed = ({ approved, edited, rejected }: Tally) => approved + edited + rejected;

/** How many outputs met a gate; those that are held and undecided are among the unreviewed. */
export const metGate = (tally: Tally) => reviewed(tally) + tally.unreviewed;

/** The share of the decided outputs that passed as they were; nothing where none was decided. */
export function accepted(tally: Tally): number | undefined {
  const all = reviewed(tally);
  return all === 0 ? undefined : tally.approved / all;
}

/** Sums as a table for a spreadsheet. A cell that a spreadsheet would compute stays text. */
export function csvOf(sums: Schemas["UsageSum"][], groupBy: string): string {
  const cell = (value: string) => {
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = sums.map(({ key = "", tasks, input, output, totalCost, priceUnknown = false }) =>
    [cell(key), tasks, input, output, totalCost, priceUnknown].join(","),
  );
  return [[groupBy, "tasks", "input", "output", "costUsd", "priceUnknown"].join(","), ...rows, ""].join("\n");
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
