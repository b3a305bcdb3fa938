import { expect, test } from "vitest";
import { columnsOf, median, shadeOf, slowest, type Times, timesOf } from "./durations";

test("the median of none is none, of an even number the middle of two", () => {
  expect([[], [4], [9, 1], [9, 1, 2]].map(median)).toEqual([undefined, 4, 5, 2]);
});

test("a step that was taken over took no time here", () => {
  const steps = {
    first: { status: "completed", durationMs: 5, reusedFrom: "dt_task_1" },
    second: { status: "failed", durationMs: 7 },
    third: { status: "skipped" },
  };
  expect(timesOf({ steps })).toEqual({
    first: { state: "completed", ms: undefined },
    second: { state: "failed", ms: 7 },
    third: { state: "skipped", ms: undefined },
  });
});

test("columns are the steps of the template, then those of older runs, by what completed", () => {
  const runs: Times[] = [
    { one: { state: "completed", ms: 10 }, gone: { state: "completed", ms: 80 } },
    { one: { state: "failed", ms: 1_000 }, two: { state: "completed", ms: 30 } },
  ];
  const columns = columnsOf(["one", "two"], runs);
  expect(columns).toEqual([
    { id: "one", median: 10 },
    { id: "two", median: 30 },
    { id: "gone", median: 80 },
  ]);
  expect(slowest(columns, 2).map(({ id }) => id)).toEqual(["two", "gone"]);
});

test("a shade says how many times the median, and noise has none", () => {
  const of = (ms: number) => shadeOf(ms, 1_000);
  expect([400, 600, 1_000, 1_999, 2_000, 3_000, 9_000].map(of)).toEqual([-1, 0, 0, 0, 1, 2, 3]);
  expect([shadeOf(90, 2), shadeOf(undefined, 2), shadeOf(5, undefined)]).toEqual([0, undefined, undefined]);
});
