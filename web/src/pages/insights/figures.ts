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
