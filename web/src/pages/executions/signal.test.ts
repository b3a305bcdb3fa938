import { expect, it } from "vitest";
import { faultsIn, payloadForm, payloadOf } from "./signal";

it("has a field for each member of a payload that is an object", () => {
  const form = payloadForm({
    type: "object",
    required: ["amount"],
    properties: { amount: { type: "number" }, note: { type: "string" } },
  });
  expect(form.fields.map(({ name, kind, required }) => [name, kind, required])).toEqual([
    ["amount", "number", true],
    ["note", "text", false],
  ]);
  expect(payloadOf(form, { amount: 3 })).toEqual({ amount: 3 });
});

it("has one field for any other payload, and for one without a schema", () => {
  const yes = payloadForm({ type: "boolean" });
  expect(yes.fields.map(({ kind }) => kind)).toEqual(["boolean"]);
  expect(payloadOf(yes, { payload: false })).toBe(false);
  const any = payloadForm(undefined);
  expect(any.fields.map(({ kind }) => kind)).toEqual(["json"]);
  expect(payloadOf(any, {})).toBeUndefined();
  expect(faultsIn(yes, [{ field: "payload" }])).toEqual([{ field: "payload.payload" }]);
  // An object whose members are not known is JSON too.
  expect(payloadForm({ type: "object" }).fields.map(({ kind }) => kind)).toEqual(["json"]);
});
