import { t } from "@lingui/core/macro";
/** The description of the HTTP interface, as a list of operations. */

export type Schema = {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  default?: unknown;
};
export type Parameter = {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
};
type Content = Record<string, { schema?: Schema }>;
type Answer = { $ref?: string; description?: string; content?: Content };
type Raw = {
  tags?: string[];
  summary?: string;
  description?: string;
  operationId?: string;
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content?: Content };
  responses?: Record<string, Answer>;
  security?: unknown[];
  "x-callboard-action"?: string;
};
export type Document = {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Raw>>;
  components?: { schemas?: Record<string, Schema>; responses?: Record<string, Answer> };
};

export type Operation = {
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description?: string;
  action?: string;
  isPublic: boolean;
  parameters: Parameter[];
  body: { type: string; schema?: Schema; required: boolean }[];
  answers: { status: string; description: string; type?: string; schema?: Schema }[];
};

const METHODS = ["get", "post", "put", "patch", "delete"];

export function operations(document: Document): Operation[] {
  const found: Operation[] = [];
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const raw = item[method];
      if (raw) found.push(operation(document, path, method, raw));
    }
  }
  return found;
}

function operation(document: Document, path: string, method: string, raw: Raw): Operation {
  const shared = (document.paths[path] as { parameters?: Parameter[] } | undefined)?.parameters;
  const body = Object.entries(raw.requestBody?.content ?? {}).map(([type, { schema }]) => ({
    type,
    schema,
    required: raw.requestBody?.required === true,
  }));
  const answers = Object.entries(raw.responses ?? {}).map(([status, given]) => {
    const answer = given.$ref
      ? (document.components?.responses?.[given.$ref.split("/").at(-1) ?? ""] ?? given)
      : given;
    const [type, content] = Object.entries(answer.content ?? {})[0] ?? [];
    return { status, description: answer.description ?? "", type, schema: dataOf(content?.schema) };
  });
  return {
    id: raw.operationId ?? `${method} ${path}`,
    method: method.toUpperCase(),
    path,
    tag: raw.tags?.[0] ?? "other",
    summary: raw.summary ?? "",
    description: raw.description,
    action: raw["x-callboard-action"],
    isPublic: raw.security === undefined || raw.security.length === 0,
    parameters: [...(Array.isArray(shared) ? shared : []), ...(raw.parameters ?? [])],
    body,
    answers: answers.sort((a, b) => Number(a.status) - Number(b.status)),
  };
}

/** What an envelope holds, which is what a caller reads. */
function dataOf(schema: Schema | undefined): Schema | undefined {
  return schema?.properties?.success && schema.properties.data ? schema.properties.data : schema;
}

/** The operations that contain each word. */
export function matching(all: Operation[], text: string): Operation[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((each) => {
    const parameters = each.parameters.map(({ name }) => name).join(" ");
    const said = `${each.method} ${each.path} ${each.summary} ${each.id} ${each.action ?? ""} ${parameters}`;
    const whole = said.toLowerCase();
    return words.every((word) => whole.includes(word));
  });
}

/** The schema that a reference leads to, and its name. */
export function resolved(document: Document, schema: Schema): { name?: string; schema: Schema } {
  let at = schema;
  let name: string | undefined;
  for (let hops = 0; at.$ref && hops < 8; hops++) {
    name = at.$ref.split("/").at(-1);
    at = document.components?.schemas?.[name ?? ""] ?? {};
  }
  return { name, schema: at };
}

/** The members of an object, those of its parts too. */
export function members(document: Document, given: Schema): [string, Schema, boolean][] {
  const { schema } = resolved(document, given);
  const own = Object.entries(schema.properties ?? {}).map(([name, member]): [string, Schema, boolean] => [
    name,
    member,
    schema.required?.includes(name) ?? false,
  ]);
  return [...(schema.allOf ?? []).flatMap((part) => members(document, part)), ...own];
}

/** The type in a few words: `string`, `list of Step`, `one of legal, finance`. */
export function typeText(document: Document, given: Schema): string {
  const { name, schema } = resolved(document, given);
  const choices = schema.oneOf ?? schema.anyOf;
  if (schema.enum)
    return schema.enum
      .filter((each) => each !== null)
      .map(String)
      .join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (choices) {
    const kinds = choices.filter(({ type }) => type !== "null").map((each) => typeText(document, each));
    return kinds.join(` ${t`or`} `);
  }
  const types = [schema.type ?? []].flat().filter((each) => each !== "null");
  if (types.includes("array"))
    return t`list of ${schema.items ? typeText(document, schema.items) : t`anything`}`;
  if (name) return name;
  if (typeof schema.additionalProperties === "object") {
    return t`object of ${typeText(document, schema.additionalProperties)}`;
  }
  const format = schema.format && !/^(int|double|float)/.test(schema.format) ? ` (${schema.format})` : "";
  return `${types.join(` ${t`or`} `) || t`anything`}${format}`;
}

/** The bounds of a value in words. */
export function bounds({
  minimum,
  maximum,
  minLength,
  maxLength,
  minItems,
  maxItems,
  pattern,
}: Schema): string {
  const range = (least: number | undefined, most: number | undefined, unit: string) => {
    if (least !== undefined && most !== undefined) return t`${least} to ${most}${unit}`;
    if (most !== undefined) return t`at most ${most}${unit}`;
    return least !== undefined && least > 0 ? t`at least ${least}${unit}` : "";
  };
  return [
    range(minimum, maximum, ""),
    range(minLength, maxLength, t` characters`),
    range(minItems, maxItems, t` items`),
    pattern ? t`matches ${pattern}` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/** The schema of which a value shows the members: through lists, and what may be null. */
export function inner(document: Document, given: Schema): Schema {
  const { schema } = resolved(document, given);
  if (schema.items) return inner(document, schema.items);
  const choices = (schema.oneOf ?? schema.anyOf)?.filter(({ type }) => type !== "null");
  return choices?.length === 1 && choices[0] ? inner(document, choices[0]) : schema;
}
