import { expect, test } from "vitest";
import { arrange } from "./stable";

const keyOf = (row: string) => row;

test("rows that are not held are as they are", () => {
  expect(arrange(["a", "b"], ["n", "a"], keyOf, false)).toEqual({ order: ["n", "a"], waiting: 0 });
});

test("under the pointer no row moves: new ones wait, and those that left stay", () => {
  expect(arrange(["a", "b", "c"], ["n", "m", "a", "c"], keyOf, true)).toEqual({
    order: ["a", "b", "c"],
    waiting: 2,
  });
});

test("the next page is added below what is held", () => {
  expect(arrange(["a", "b"], ["a", "b", "c", "d"], keyOf, true)).toEqual({
    order: ["a", "b", "c", "d"],
    waiting: 0,
  });
});
