/** Sums of several spans put on top of each other, by group. */
import type { Schemas } from "../../api/client";
import { dateOf, midnight } from "../../lib/span";

export type Sum = Schemas["UsageSum"];
/** One span of the chart: its first day, and the instants that bound it. */
export type Bucket = { name: string; from: string; to: string; isOpen: boolean };
export type Layer = { key: string | undefined; isRest?: boolean; values: number[]; total: number };

/** The spans of so many days up to now: days, or weeks where there are more than a month of days. */
export function bucketsOf(days: string[], now: number): Bucket[] {
  const size = days.length > 31 ? 7 : 1;
  const buckets: Bucket[] = [];
  // The last one ends with today, so the first may be shorter.
  for (let end = days.length; end > 0; end -= size) {
    const first = days[Math.max(0, end - size)] as string;
    const after = midnight(days[end - 1] as string, 1);
    buckets.unshift({
      name: dateOf(midnight(first)),
      from: new Date(midnight(first)).toISOString(),
      to: new Date(after).toISOString(),
      isOpen: after > now,
    });
  }
  return buckets;
}

export const LAYERS = 5;

/** The groups with the highest sums, and the rest as one; the largest first. Each has a value for each span. */
export function layersOf(spans: (Sum[] | undefined)[], figure: (sum: Sum) => number): Layer[] {
  const layers = new Map<string | undefined, Layer>();
  spans.forEach((sums, index) => {
    for (const sum of sums ?? []) {
      const layer = layers.get(sum.key) ?? { key: sum.key, values: spans.map(() => 0), total: 0 };
      layer.values[index] = (layer.values[index] ?? 0) + figure(sum);
      layer.total += figure(sum);
      layers.set(sum.key, layer);
    }
  });
  const sorted = [...layers.values()].sort((a, b) => b.total - a.total);
  const rest = sorted.slice(LAYERS);
  if (rest.length === 0) return sorted;
  return [
    ...sorted.slice(0, LAYERS),
    {
      key: undefined,
      isRest: true,
      values: spans.map((_, index) => rest.reduce((sum, { values }) => sum + (values[index] ?? 0), 0)),
      total: rest.reduce((sum, { total }) => sum + total, 0),
    },
  ];
}

/** The heights of the layers with those beneath them: the last one is the whole. */
export function heights(layers: Layer[]): number[][] {
  const below = layers[0]?.values.map(() => 0) ?? [];
  return layers.map(({ values }) =>
    values.map((value, index) => {
      below[index] = (below[index] ?? 0) + value;
      return below[index] as number;
    }),
  );
}
