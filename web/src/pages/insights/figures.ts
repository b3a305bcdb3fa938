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

type Cell = string | number | boolean;

/** A table for a spreadsheet. A text that a spreadsheet would compute stays text. */
export function tableOf(head: string[], rows: Cell[][]): string {
  const cell = (value: Cell) => {
    if (typeof value !== "string") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** Sums as such a table. */
export function csvOf(sums: Schemas["UsageSum"][], groupBy: string): string {
  return tableOf(
    [groupBy, "tasks", "input", "output", "costUsd", "priceUnknown"],
    sums.map(({ key = "", tasks, input, output, totalCost, priceUnknown = false }) => [
      key,
      tasks,
      input,
      output,
      totalCost,
      priceUnknown,
    ]),
  );
}

/** Gives a table to the browser as a file. */
export function download(csv: string, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  link.download = `callboard-cost-${name}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
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
