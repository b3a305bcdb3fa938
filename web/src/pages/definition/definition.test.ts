import { describe, expect, it } from "vitest";
import { changes, jsonOf, textOf } from "./definition";
import { pathOf, placed, syntax } from "./faults";

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

it("leaves out what the server knows of a version: it is no part of the definition", () => {
  const given = {
    name: "A",
    version: "1.0.0",
    steps: [],
    latest: true,
    latestSet: true,
    retiredAt: "2026-11-28T00:00:00Z",
  };
  expect(textOf(given)).toBe("name: A\nversion: 1.0.0\nsteps: []\n");
  expect(changes({ ...given, latest: false }, given)).toEqual([]);
});
