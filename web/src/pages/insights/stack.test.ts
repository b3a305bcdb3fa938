import { expect, it } from "vitest";
import { lastDays } from "../../lib/span";
import { bucketsOf, heights, LAYERS, layersOf } from "./stack";

const sum = (key: string | undefined, totalCost: number) => ({
  key,
  totalCost,
  tasks: 1,
  input: 1,
  output: 2,
});

it("stacks the largest groups and adds up the rest", () => {
  const first = Array.from({ length: 8 }, (_, index) => sum(`t${index}`, 10 - index));
  const layers = layersOf([first, [sum("t7", 100), sum(undefined, 1)]], (each) => each.totalCost);
  expect(layers.map(({ key }) => key)).toEqual(["t7", "t0", "t1", "t2", "t3", undefined]);
  expect(layers).toHaveLength(LAYERS + 1);
  expect(layers[0]?.values).toEqual([3, 100]);
  // t4, t5, t6 of the first span; those without a key of the second.
  expect(layers.at(-1)).toMatchObject({ isRest: true, values: [6 + 5 + 4, 1], total: 16 });
  const whole = [first.reduce((all, { totalCost }) => all + totalCost, 0), 101];
  expect(heights(layers).at(-1)).toEqual(whole);
});

it("has a span for each day of a month, and for each week of more", () => {
  const now = Date.parse("2026-11-28T12:00:00Z");
  const days = bucketsOf(lastDays(30, now), now);
  expect(days).toHaveLength(30);
  expect(days.filter(({ isOpen }) => isOpen)).toHaveLength(1);
  const weeks = bucketsOf(lastDays(90, now), now);
  expect(weeks).toHaveLength(13);
  for (const [index, { to }] of weeks.slice(0, -1).entries()) expect(to).toBe(weeks[index + 1]?.from);
});
