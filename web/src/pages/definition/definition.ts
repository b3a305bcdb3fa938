/** A definition as text, and what two versions of it differ in. */
import { t } from "@lingui/core/macro";
import { parse, stringify } from "yaml";

/** The members that an author writes, in the order in which the built-in templates have them. */
const MEMBERS = [
  "name",
  "description",
  "version",
  "industry",
  "tags",
  "visibility",
  "inputSchema",
  "outputSchema",
  "defaults",
  "hitl",
  "metadata",
];
/** What the server adds to a template or a plan. */
const ADDED = new Set([
  "id",
  "author",
  "createdAt",
  "estimatedCost",
  "estimatedDurationMs",
  "hitlSteps",
  "latest",
  "latestSet",
  "retiredAt",
  "stepsCount",
  "templateId",
  "templateVersion",
]);

type Definition = Record<string, unknown>;

/** The text that would publish this definition again. */
export function textOf(definition: object): string {
  const given = definition as Definition;
  const first = MEMBERS.filter((name) => given[name] !== undefined);
  const rest = Object.keys(given).filter(
    (name) => !first.includes(name) && name !== "steps" && !ADDED.has(name) && given[name] !== undefined,
  );
  const written: Definition = {};
  for (const name of [...first, ...rest]) written[name] = given[name];
  written.steps = (Array.isArray(given.steps) ? given.steps : []).map(stepText);
  return stringify(written, { lineWidth: 0, blockQuote: "literal" });
}

/** A step without what means the same as nothing. */
function stepText(step: Definition): Definition {
  const kept = Object.entries(step).filter(
    ([name, value]) =>
      value !== undefined &&
      !(name === "dependsOn" && Array.isArray(value) && value.length === 0) &&
      !(name === "requiresApproval" && value === false),
  );
  return Object.fromEntries(kept);
}

/** YAML as the JSON of a request. */
export const jsonOf = (text: string): unknown => parse(text);

export type Change = { what: string; kind: "added" | "removed" | "changed"; members: string[] };

/** The differences by step and by member, in any order of the steps. */
export function changes(before: object, after: object): Change[] {
  const old = before as Definition;
  const now = after as Definition;
  const members = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter(
    (name) => name !== "steps" && !ADDED.has(name) && !same(old[name], now[name]),
  );
  const found: Change[] = members.map((name) => ({
    what: name,
    kind: kindOf(old[name], now[name]),
    members: [],
  }));
  const oldSteps = stepsOf(old);
  const newSteps = stepsOf(now);
  for (const id of new Set([...oldSteps.keys(), ...newSteps.keys()])) {
    const [a, b] = [oldSteps.get(id), newSteps.get(id)];
    if (same(a, b)) continue;
    const names = new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})]);
    const differing = a && b ? [...names].filter((name) => !same(a[name], b[name])) : [];
    found.push({ what: t`step ${id}`, kind: kindOf(a, b), members: differing });
  }
  return found;
}

function stepsOf(definition: Definition): Map<string, Definition> {
  const steps = (definition.steps ?? []) as Definition[];
  return new Map(steps.map((step) => [String(step.id), stepText(step)]));
}

const kindOf = (before: unknown, after: unknown) =>
  before === undefined ? "added" : after === undefined ? "removed" : "changed";

function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length || Array.isArray(a) !== Array.isArray(b)) return false;
  return names.every((name) => same((a as Definition)[name], (b as Definition)[name]));
}
