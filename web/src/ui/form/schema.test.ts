import { describe, expect, it } from "vitest";
import { entered, faultOf, formOf, memberOf, missing, shown, withMember } from "./schema";

const SCHEMA = {
  type: "object",
  required: ["contract", "range", "parties"],
  $defs: { money: { type: "number", minimum: 0 }, loop: { $ref: "#/$defs/loop" } },
  properties: {
    contract: { type: "string", description: "The text." },
    depth: { type: "string", enum: ["quick", "standard"], default: "standard" },
    price: { $ref: "#/$defs/money" },
    count: { type: ["integer", "null"], maximum: 9 },
    parties: { type: "array", items: { type: "string" } },
    rows: { type: "array", items: { type: "object" } },
    range: { type: "object", required: ["from"], properties: { from: { type: "string" } } },
    odd: { anyOf: [{ type: "string" }, { type: "number" }] },
    round: { $ref: "#/$defs/loop" },
    ready: { type: "boolean" },
  },
};

describe("a schema as a form", () => {
  const fields = formOf(SCHEMA) ?? [];
  const field = (name: string) => fields.find((each) => each.name === name) ?? expect.fail(name);

  it("gives each property the control that fits it, and JSON where none does", () => {
    expect(Object.fromEntries(fields.map(({ name, kind }) => [name, kind]))).toEqual({
      contract: "text",
      depth: "choice",
      price: "number",
      count: "integer",
      parties: "lines",
      rows: "json",
      range: "group",
      odd: "json",
      round: "json",
      ready: "boolean",
    });
    expect(field("price").min).toBe(0);
    expect(field("range").fields?.[0]?.path).toEqual(["range", "from"]);
  });

  it("leaves a schema without properties to JSON", () => {
    expect(formOf({ type: "object", additionalProperties: true })).toBeUndefined();
    expect(formOf(true)).toBeUndefined();
    expect(formOf({ oneOf: [], properties: { a: {} } })).toBeUndefined();
  });

  it("takes what was entered, and gives it back", () => {
    expect(entered(field("price"), "2.5")).toBe(2.5);
    expect(() => entered(field("count"), "2.5")).toThrow("whole number");
    expect(() => entered(field("price"), "x")).toThrow("no number");
    expect(entered(field("parties"), "A\n\n B \n")).toEqual(["A", " B "]);
    expect(() => entered(field("rows"), "[1,")).toThrow("not JSON");
    expect(entered(field("contract"), "")).toBeUndefined();
    for (const [name, value] of [
      ["parties", ["A", "B"]],
      ["rows", [{ a: 1 }]],
      ["price", 3],
    ] as const) {
      expect(entered(field(name), shown(field(name), value))).toEqual(value);
    }
  });

  it("knows what is missing, and a default is not", () => {
    expect(missing(fields, {}).map(({ path }) => path.join("."))).toEqual([
      "contract",
      "parties",
      "range.from",
    ]);
    expect(missing(fields, { contract: "x", parties: ["A"], range: { from: "1" } })).toEqual([]);
  });

  it("sets and removes members inside of groups", () => {
    const one = withMember({ a: 1 }, ["range", "from"], "x");
    expect(one).toEqual({ a: 1, range: { from: "x" } });
    expect(memberOf(one, ["range", "from"])).toBe("x");
    expect(withMember(one, ["range", "from"], undefined)).toEqual({ a: 1 });
  });

  it("gives a fault of the server to the field that it is in", () => {
    const faults = [{ field: "input.rows[0].name", message: "is missing" }];
    expect(faultOf(["rows"], faults)).toBe("is missing");
    expect(faultOf(["row"], faults)).toBeUndefined();
  });
});

it("reads what may be absent, as pydantic writes it, as the control of what it else is", () => {
  const schema = {
    properties: {
      price: { anyOf: [{ type: "number", minimum: 1 }, { type: "null" }], default: null, title: "Price" },
    },
  };
  const [price] = formOf(schema) ?? [];
  expect(price).toMatchObject({ kind: "number", min: 1, nullable: true, initial: null });
});
