import { expect, test } from "vitest";
import { checker, refusedFields } from "./check";

const SCHEMA = {
  type: "object",
  properties: {
    amount: { type: "number", minimum: 0 },
    kind: { enum: ["a", "b"] },
    who: { type: "object", properties: { name: { type: "string", minLength: 1 } }, required: ["name"] },
    rows: { type: "array", items: { type: "object", properties: { n: { type: "integer" } } } },
    price: { anyOf: [{ type: "number" }, { type: "null" }] },
    at: { type: "string", format: "date" },
  },
  required: ["amount", "who"],
  additionalProperties: false,
};
const faults = (value: unknown, schema: unknown = SCHEMA) =>
  checker(schema, "output")(JSON.stringify(value)).map(({ field, message }) => `${field}: ${message}`);

test("each fault is at its field, once, in words", () => {
  expect(faults({ amount: 1, who: { name: "A" }, price: null, at: "2026-11-28" })).toEqual([]);
  expect(
    faults({ amount: -1, kind: "c", who: { name: "" }, rows: [{ n: 1 }, { n: "x" }], price: "y", z: 1 }),
  ).toEqual([
    "output.amount: -1 is less than 0.",
    'output.kind: This must be one of ["a","b"].',
    "output.who.name: String is too short (0 < 1).",
    "output.rows[1].n: This must be integer.",
    "output.price: This fits none of the forms that the schema permits.",
    "output.z: The schema has no such member.",
  ]);
  expect(faults({ who: {} })).toEqual([
    "output.amount: This is required.",
    "output.who.name: This is required.",
  ]);
});

test("what is no JSON is a fault of the whole, and a format is the server's to judge", () => {
  expect(checker(SCHEMA, "output")("{")[0]).toMatchObject({ field: "output" });
  expect(checker(SCHEMA, "output")('{"amount":1,"who":{"name":"A"},"at":"x"}')).toMatchObject([
    { field: "output.at", mild: true },
  ]);
});

test("a schema that this browser cannot check is left to the server", () => {
  expect(faults({ a: "x" }, { properties: { a: { pattern: "(?i)x" } } })).toEqual([]);
  expect(faults(1, true)).toEqual([]);
});

test("the fields that the server names in its refusal", () => {
  const message =
    'modifiedOutput must match the outputSchema: output.amount is less than the minimum of 0; output.rows[0].n is not of type "integer"';
  expect(refusedFields(message, "output")).toEqual([
    { field: "output.amount", message: "The server: is less than the minimum of 0." },
    { field: "output.rows[0].n", message: 'The server: is not of type "integer".' },
  ]);
  expect(refusedFields("four eyes", "output")).toEqual([]);
});
