import { expect, test } from "vitest";
import { age, duration, money, relative } from "./format";

test("money has the digits that say something", () => {
  expect([undefined, 0, 0.00001, 0.0123, 1, 1234.5].map(money)).toEqual([
    "–",
    "$0",
    "< $0.0001",
    "$0.0123",
    "$1.00",
    "$1,234.50",
  ]);
});

test("a duration has two units at most", () => {
  expect([0, 999, 1500, 12_300, 61_000, 3_600_000, 3_725_000, 200_000_000].map((ms) => duration(ms))).toEqual(
    ["0 ms", "999 ms", "1.5 s", "12 s", "1 min 1 s", "1 h", "1 h 2 min", "2 d 7 h"],
  );
});

test("a time is relative to now, before and after", () => {
  expect([age(59_000), relative(0, 200), relative(0, 90_000), relative(7_200_000, 0)]).toEqual([
    "59 s",
    "now",
    "1 min ago",
    "in 2 h",
  ]);
});
