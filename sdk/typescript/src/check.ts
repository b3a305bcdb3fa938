import { InvalidArgument } from "./errors.js";
import { requests } from "./requests.js";

/** The keywords of JSON Schema that the requests of the server use. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  maxProperties?: number;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minimum?: number;
  maximum?: number;
}

/** The JSON of a request, checked against its schema before it is sent. */
export function checked(name: string, values: unknown): Record<string, unknown> {
  const body = JSON.parse(encoded(values));
  const faults = [...found({ $ref: name }, body, "")];
  if (faults.length > 0) throw new InvalidArgument(`${name}: ${faults.join("; ")}`);
  return body;
}

/** A value as JSON. What JSON cannot hold is an error, except members that are undefined, which are left out. */
export function encoded(value: unknown): string {
  const exact = (key: string, it: unknown) => {
    const lost = typeof it === "function" || typeof it === "symbol" || (typeof it === "number" && !Number.isFinite(it));
    if (lost) throw new InvalidArgument(`${key || "the request"} cannot be written as JSON: ${String(it)}`);
    return it;
  };
  try {
    return JSON.stringify(value, exact);
  } catch (error) {
    if (error instanceof InvalidArgument) throw error;
    throw new InvalidArgument(`the request cannot be written as JSON: ${(error as Error).message}`);
  }
}

function* found(schema: Schema, value: unknown, at: string): Generator<string> {
  if (schema.$ref !== undefined) return yield* found(requests[schema.$ref] ?? {}, value, at);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) {
    const faults = choices.map((it) => [...found(it, value, at)]);
    if (faults.some((it) => it.length === 0)) return;
    // The choice of the value's type tells the fault; it is never null.
    return yield* faults[choices.findIndex((it) => fits(it, value))] ?? faults[0] ?? [];
  }
  const fault = (text: string) => `${at || "the request"}: ${text}`;
  if (!fits(schema, value)) return yield fault(`must be ${[schema.type].flat().join(" or ")}, not ${typeOf(value)}`);
  if (schema.enum && !schema.enum.includes(value)) {
    return yield fault(`must be one of ${schema.enum.filter((it) => it !== null).join(", ")}`);
  }
  if (typeof value === "number") yield* range(value, "", schema.minimum, schema.maximum).map(fault);
  if (typeof value === "string") {
    // The server counts characters, not units of UTF-16, which there are at least as many of.
    const count = value.length > (schema.maxLength ?? Number.POSITIVE_INFINITY) ? [...value].length : value.length;
    yield* range(count, " characters", schema.minLength, schema.maxLength).map(fault);
    if (schema.pattern !== undefined && !new RegExp(schema.pattern, "u").test(value)) {
      yield fault(`must match ${schema.pattern}`);
    }
  }
  if (Array.isArray(value)) {
    yield* range(value.length, " items", schema.minItems, schema.maxItems).map(fault);
    for (const [index, it] of value.entries()) yield* found(schema.items ?? {}, it, `${at}[${index}]`);
  } else if (typeof value === "object" && value !== null) {
    const prefix = at && `${at}.`;
    const members = Object.entries(value);
    yield* range(members.length, " members", undefined, schema.maxProperties).map(fault);
    for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) yield `${prefix}${name}: is missing`;
    for (const [name, it] of members) {
      const rest = schema.additionalProperties ?? true;
      const own = schema.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
      if (own) yield* found(own, it, prefix + name);
      else if (rest === false) yield `${prefix}${name}: is unknown`;
      else if (rest !== true) yield* found(rest, it, prefix + name);
    }
  }
}

function range(
  value: number,
  unit: string,
  least = Number.NEGATIVE_INFINITY,
  most = Number.POSITIVE_INFINITY,
): string[] {
  if (value < least) return [`must be at least ${least}${unit}`];
  return value > most ? [`must be at most ${most}${unit}`] : [];
}

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

/** True if the value has the type, or one of the types, of the schema. */
function fits(schema: Schema, value: unknown): boolean {
  const types = schema.$ref ? requests[schema.$ref]?.type : schema.type;
  if (types === undefined) return true;
  const type = typeOf(value);
  return [types].flat().some((it) => it === type || (it === "integer" && Number.isInteger(value)));
}
