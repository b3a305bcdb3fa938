/** A JSON Schema as form controls. What no control fits is entered as JSON, so every schema can be entered. */
import { t } from "@lingui/core/macro";
import { isWritten, parse } from "../../lib/json";

export type Kind = "text" | "choice" | "number" | "integer" | "boolean" | "lines" | "group" | "json";

export type FormField = {
  /** Where it is in the input: `["range", "from"]`. */
  path: string[];
  name: string;
  kind: Kind;
  required: boolean;
  /** True if null is a value of it. */
  nullable?: boolean;
  hint?: string;
  /** What is taken if nothing is entered. */
  initial?: unknown;
  options?: unknown[];
  min?: number;
  max?: number;
  maxLength?: number;
  fields?: FormField[];
};

type Schema = Record<string, unknown>;
const DEEPEST = 4;

/** The controls of an object's schema; `undefined` if only JSON fits the whole. */
export function formOf(schema: unknown): FormField[] | undefined {
  const root = asSchema(schema);
  return root && fieldsOf(root, root, [], 0);
}

function fieldsOf(schema: Schema, root: Schema, path: string[], depth: number): FormField[] | undefined {
  const object = followed(schema, root);
  const properties = asSchema(object?.properties);
  if (!object || !properties || combines(object)) return undefined;
  const required = Array.isArray(object.required) ? object.required : [];
  return Object.entries(properties).map(([name, property]) =>
    fieldOf(name, property, root, [...path, name], required.includes(name), depth),
  );
}

function fieldOf(
  name: string,
  property: unknown,
  root: Schema,
  path: string[],
  required: boolean,
  depth: number,
): FormField {
  const outer = followed(asSchema(property) ?? {}, root);
  const field: FormField = { path, name, kind: "json", required };
  if (!outer) return field;
  const inner = orNull(outer, root);
  const schema = inner ?? outer;
  if (inner || (Array.isArray(schema.type) && schema.type.includes("null"))) field.nullable = true;
  if (typeof schema.description === "string") field.hint = schema.description;
  if ("default" in schema) field.initial = schema.default;
  if (combines(schema)) return field;
  if (Array.isArray(schema.enum)) return { ...field, kind: "choice", options: schema.enum };
  if ("const" in schema) return { ...field, kind: "choice", options: [schema.const] };
  switch (typeOf(schema)) {
    case "string":
      return { ...field, kind: "text", maxLength: number(schema.maxLength) };
    case "boolean":
      return { ...field, kind: "boolean" };
    case "number":
    case "integer":
      return {
        ...field,
        kind: typeOf(schema) as Kind,
        min: number(schema.minimum),
        max: number(schema.maximum),
      };
    case "array": {
      const items = followed(asSchema(schema.items) ?? {}, root);
      return items && typeOf(items) === "string" && !items.enum ? { ...field, kind: "lines" } : field;
    }
    case "object": {
      const fields = depth < DEEPEST ? fieldsOf(schema, root, path, depth + 1) : undefined;
      return fields?.length ? { ...field, kind: "group", fields } : field;
    }
  }
  return field;
}

/** The one alternative to null, as pydantic and zod write what may be absent. */
function orNull(schema: Schema, root: Schema): Schema | undefined {
  const either = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(either)) return undefined;
  const others = either.filter((each) => asSchema(each)?.type !== "null");
  const only = others.length === 1 && either.length === 2 && followed(asSchema(others[0]) ?? {}, root);
  if (!only) return undefined;
  const { anyOf: _, oneOf: __, ...rest } = schema;
  return { ...only, ...rest };
}

function typeOf(schema: Schema): string | undefined {
  const { type } = schema;
  if (typeof type === "string") return type;
  if (!Array.isArray(type)) return undefined;
  const others = type.filter((each) => each !== "null");
  return others.length === 1 ? others[0] : undefined;
}

function combines(schema: Schema): boolean {
  return ["allOf", "anyOf", "oneOf", "not", "if", "patternProperties"].some((name) => name in schema);
}

/** The schema that a local reference leads to; references in a circle lead to none. */
function followed(schema: Schema, root: Schema): Schema | undefined {
  let at: Schema | undefined = schema;
  for (let hops = 0; at && typeof at.$ref === "string"; hops++) {
    const ref: string = at.$ref;
    if (hops > 8 || !ref.startsWith("#")) return undefined;
    const names = ref.split("/").slice(1);
    let place: unknown = root;
    for (const name of names) {
      place = asSchema(place)?.[decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")];
    }
    at = asSchema(place);
  }
  return at;
}

function asSchema(value: unknown): Schema | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value) && !isWritten(value);
  return isObject ? (value as Schema) : undefined;
}
const number = (value: unknown) => (typeof value === "number" ? value : undefined);

/** The input with one member set; `undefined` removes it, and groups that became empty. */
export function withMember(input: Schema, path: string[], value: unknown): Schema {
  const [name, ...rest] = path;
  if (name === undefined) return input;
  const inner = rest.length > 0 ? withMember(asSchema(input[name]) ?? {}, rest, value) : value;
  const isGone = inner === undefined || (rest.length > 0 && Object.keys(inner as object).length === 0);
  if (isGone) {
    const { [name]: _, ...others } = input;
    return others;
  }
  return { ...input, [name]: inner };
}

export function memberOf(input: unknown, path: string[]): unknown {
  return path.reduce<unknown>((at, name) => asSchema(at)?.[name], input);
}

/** A number as JSON writes it. */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** What a person entered, as the value of the field; empty is nothing. Throws what is wrong with it. */
export function entered(field: FormField, text: string): unknown {
  switch (field.kind) {
    case "number":
    case "integer": {
      if (text.trim() === "") return undefined;
      const value = Number(text);
      if (!Number.isFinite(value)) throw new Error(t`This is no number.`);
      if (field.kind === "integer" && !Number.isInteger(value))
        throw new Error(t`This must be a whole number.`);
      return NUMBER.test(text.trim()) ? parse(text) : value;
    }
    case "lines": {
      const lines = text.split("\n").filter((line) => line.trim() !== "");
      return lines.length === 0 ? undefined : lines;
    }
    case "json":
      if (text.trim() === "") return undefined;
      try {
        return parse(text);
      } catch (error) {
        throw new Error(t`This is not JSON: ${(error as Error).message}`);
      }
    default:
      return text === "" ? undefined : text;
  }
}

/** A value as a person edits it. */
export function shown(field: FormField, value: unknown): string {
  if (value === undefined || (value === null && field.kind !== "json" && field.kind !== "choice")) return "";
  if (field.kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (field.kind === "json") return JSON.stringify(value, null, 2);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The required fields that have no value. */
export function missing(fields: FormField[], input: unknown): FormField[] {
  return fields.flatMap((field) => {
    const value = memberOf(input, field.path);
    if (field.kind === "group" && field.fields) {
      return value === undefined && !field.required ? [] : missing(field.fields, input);
    }
    return field.required && field.initial === undefined && value === undefined ? [field] : [];
  });
}

/** The fault of a field: of its own, or of what is inside of it. */
export function faultOf(
  path: string[],
  faults: { field: string; message: string }[],
  root = "input",
): string | undefined {
  const name = [root, ...path].join(".");
  const found = faults.find(
    ({ field }) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`),
  );
  return found?.message;
}
