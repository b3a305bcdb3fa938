import { expect, test } from "vitest";
import { nextOf } from "./roving";

test("arrows lead through lines, Home and End to their ends, and none beyond them", () => {
  const from = (at: number) =>
    ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "a"].map((key) =>
      nextOf(key, at, 12, 5),
    );
  expect(from(6)).toEqual([5, 7, 1, 11, 0, 11, undefined]);
  expect(from(0)).toEqual([undefined, 1, undefined, 5, 0, 11, undefined]);
  expect(from(11)).toEqual([10, undefined, 6, undefined, 0, 11, undefined]);
});
