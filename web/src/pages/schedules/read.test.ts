import { expect, it } from "vitest";
import { failuresOf, type Run, stateOf, succeeded } from "./read";

const run = (outcome: string) => ({ outcome }) as Run;

it("counts the occurrences that did not succeed, from the newest to the last success", () => {
  expect(failuresOf([false, false, false, true])).toBe(3);
  expect(failuresOf([undefined, false, true, false])).toBe(1);
  expect(failuresOf([true, false, false])).toBe(0);
  expect(failuresOf([])).toBe(0);
});

it("knows whether an occurrence succeeded by its outcome and by what became of its work", () => {
  expect(succeeded(run("started"), "completed")).toBe(true);
  expect(succeeded(run("started"), "failed")).toBe(false);
  expect(succeeded(run("started"), "running")).toBeUndefined();
  // The work is no longer stored.
  expect(succeeded(run("started"), undefined)).toBeUndefined();
  expect(succeeded(run("queued"), undefined)).toBeUndefined();
  for (const outcome of ["skipped", "missed", "failed"])
    expect(succeeded(run(outcome), undefined)).toBe(false);
});

it("has a schedule over once its only time has passed", () => {
  expect(stateOf({ enabled: true } as never)).toBe("over");
  expect(stateOf({ enabled: false, nextRunAt: "2026-01-01T00:00:00Z" } as never)).toBe("paused");
});
