import { describe, expect, it } from "vitest";
import { changes, jsonOf, textOf } from "./definition";
import { pathOf, placed, syntax } from "./faults";
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

const TEXT = `# a comment
name: Bad
steps:
  - id: one
    prompt: |
      two
      lines
    dependsOn: [zwei]
  - id: two
    retry:
      maxAttempts: 50
`;

describe("faults at their lines", () => {
  const at = (field: string) => placed(TEXT, [{ field, message: "m", code: "c" }])[0]?.line;

  it("reads the path of a field", () => {
    expect(pathOf("steps[1].retry.maxAttempts")).toEqual(["steps", 1, "retry", "maxAttempts"]);
    expect(pathOf('metadata["a.b"].c')).toEqual(["metadata", "a.b", "c"]);
  });

  it("finds keys, items, and members of items", () => {
    expect(at("name")).toBe(2);
    expect(at("steps[0].prompt")).toBe(5);
    expect(at("steps[0].dependsOn[0]")).toBe(8);
    expect(at("steps[1].retry.maxAttempts")).toBe(11);
  });

  it("gives a field that is not there the line of what it should be in", () => {
    expect(at("steps[1].prompt")).toBe(9);
    expect(at("version")).toBe(2);
  });

  it("takes the line that the server says where the text is no YAML", () => {
    const fault = {
      field: "",
      message: 'not YAML: "name" is given twice at line 2 column 1',
      code: "INVALID_YAML",
    };
    expect(placed("name: a\nname: b", [fault])[0]?.line).toBe(2);
    expect(syntax("a: 1\nb: [1\n")[0]?.line).toBeGreaterThan(1);
    expect(syntax(TEXT)).toEqual([]);
  });
});

describe("a definition as text", () => {
  const template = {
    id: "a-v1",
    author: "x",
    createdAt: "now",
    name: "A",
    version: "1.0.0",
    steps: [{ id: "one", prompt: "a\nb: {{input.x}}", dependsOn: [], requiresApproval: false }],
    inputSchema: { type: "object" },
  };

  it("is what publishes it again", () => {
    expect(jsonOf(textOf(template))).toEqual({
      name: "A",
      version: "1.0.0",
      inputSchema: { type: "object" },
      steps: [{ id: "one", prompt: "a\nb: {{input.x}}" }],
    });
    expect(textOf(template)).toContain("prompt: |-\n");
  });

  it("says what differs, by step and member", () => {
    const later = {
      ...template,
      version: "1.1.0",
      description: "new",
      steps: [
        { id: "two", prompt: "x" },
        { id: "one", prompt: "changed", model: "m" },
      ],
    };
    expect(changes(template, later)).toEqual([
      { what: "version", kind: "changed", members: [] },
      { what: "description", kind: "added", members: [] },
      { what: "step one", kind: "changed", members: ["prompt", "model"] },
      { what: "step two", kind: "added", members: [] },
    ]);
    expect(changes(template, { ...template, createdAt: "later" })).toEqual([]);
  });
});
