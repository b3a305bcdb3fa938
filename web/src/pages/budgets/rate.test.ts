import { expect, it } from "vitest";
import { type Budget, groupOf, leftOf, meanRate, runsOut, sharesOf } from "./rate";

const now = Date.parse("2026-11-10T00:00:00Z");
const budget = (of: Partial<Budget>): Budget => ({
  id: "bdg_1",
  match: {},
  limit: 100,
  period: "month",
  timezone: "UTC",
  alertAt: [0.5],
  onExceed: "wait",
  createdAt: "2026-01-01T00:00:00Z",
  periodStart: "2026-11-01T00:00:00Z",
  periodEnd: "2026-12-01T00:00:00Z",
  spent: 45,
  reserved: 5,
  ...of,
});

it("runs out once what is left is spent at the rate", () => {
  expect(leftOf(budget({}))).toBe(50);
  expect(meanRate(budget({}), now)).toBe(5);
  expect(runsOut(budget({}), 5, now)).toEqual({ at: Date.parse("2026-11-20T00:00:00Z") });
});

it("does not run out in a period that ends before", () => {
  expect(runsOut(budget({}), 1, now)).toBe("not before its end");
  const total = budget({ period: "total", periodStart: undefined, periodEnd: undefined });
  expect(runsOut(total, 1, now)).toEqual({ at: Date.parse("2026-12-30T00:00:00Z") });
  expect(runsOut(total, 0, now)).toBe("never");
});

it("is spent where the reservations leave nothing, and with a limit of 0", () => {
  expect(runsOut(budget({ spent: 95 }), 1, now)).toBe("spent");
  expect(runsOut(budget({ limit: 0, spent: 0, reserved: 0 }), 0, now)).toBe("spent");
  expect(sharesOf(budget({ spent: 130 }))).toEqual({ spent: 1, reserved: 0 });
  expect(sharesOf(budget({ limit: 0 }))).toEqual({ spent: 1, reserved: 0 });
});

it("knows the mean of a budget that is younger than its period", () => {
  expect(meanRate(budget({ createdAt: "2026-11-09T00:00:00Z" }), now)).toBe(45);
});

it("has a group of the usage if it asks for one thing", () => {
  expect(groupOf(budget({}))).toBe("all");
  expect(groupOf(budget({ match: { tags: ["team:search"] } }))).toEqual({ by: "tag", key: "team:search" });
  expect(groupOf(budget({ match: { model: "m", account: "usr_1" } }))).toBeUndefined();
});
