import { expect, test } from "vitest";
import { formatted, isSame, parsed, writtenAs } from "./json";

test("only objects and arrays are formatted", () => {
  expect(formatted('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(formatted("12")).toBeUndefined();
  expect(formatted("{oops")).toBeUndefined();
});

test("an edit is written on as many lines as what it replaces", () => {
  expect(writtenAs('{"a":1}\n', { a: 2 })).toBe('{"a":2}');
  expect(writtenAs('{\n"a":1}', { a: 2 })).toBe('{\n  "a": 2\n}');
});

test("values are compared whatever the order of their members", () => {
  expect(
    isSame(parsed('{ "b": {"d": 1, "c": 2}, "a": [1, 2] }')?.value, { a: [1, 2], b: { c: 2, d: 1 } }),
  ).toBe(true);
  expect(isSame(parsed('{"a": 1.5}')?.value, { a: 2 })).toBe(false);
  expect(parsed("{")).toBeUndefined();
});
