import { InvalidArgument, OutputMismatch } from "./errors.js";

/** A JSON Schema. The output under it is plain JSON. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/**
 * A schema of a library, such as zod 4.2: Standard Schema (https://standardschema.dev) checks a value, Standard JSON
 * Schema tells the model what to write.
 */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
    readonly types?: { readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

type Result<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What an output may be checked against. */
export type OutputSchema = StandardSchema | JsonSchema;

/** The type of an output under a schema. */
export type OutputOf<S> = S extends StandardSchema<infer Output> ? Output : unknown;

/** Adds a JSON Schema to a schema whose library has none of its own. */
export function withJsonSchema<Output>(schema: StandardSchema<Output>, json: JsonSchema): StandardSchema<Output> {
  return { "~standard": { ...schema["~standard"], jsonSchema: { input: () => json } } };
}

/** The JSON Schema that a model writes an output for: the input of the schema, before its transformations. */
export function jsonSchemaOf(schema: OutputSchema): Record<string, unknown> {
  if (schema === undefined || schema === null) {
    throw new InvalidArgument(
      "a schema is missing: give one of zod, another Standard Schema, or a JSON Schema ({} is any JSON)",
    );
  }
  if (!isStandard(schema)) return { ...schema };
  const { vendor, jsonSchema } = schema["~standard"];
  if (!jsonSchema) {
    throw new InvalidArgument(
      `the schema of ${vendor} tells no JSON Schema: use zod 4.2 or newer, or withJsonSchema()`,
    );
  }
  try {
    return jsonSchema.input({ target: "draft-2020-12" });
  } catch (error) {
    throw new InvalidArgument(`the schema of ${vendor} is none of JSON: ${(error as Error).message}`);
  }
}

/** The output as a value of the schema. */
export async function parsed<S extends OutputSchema>(schema: S, output: string): Promise<OutputOf<S>> {
  let value: unknown;
  try {
    value = JSON.parse(output);
  } catch (error) {
    throw new OutputMismatch(`the output is no JSON: ${(error as Error).message}`, output);
  }
  if (!isStandard(schema)) return value as OutputOf<S>;
  const result = await schema["~standard"].validate(value);
  if (result.issues)
    throw new OutputMismatch(`the output does not match: ${result.issues.map(told).join("; ")}`, output);
  return result.value as OutputOf<S>;
}

function told(issue: Issue): string {
  const path = issue.path?.map((it) => String(typeof it === "object" ? it.key : it)).join(".");
  return path ? `${path}: ${issue.message}` : issue.message;
}

function isStandard(schema: OutputSchema): schema is StandardSchema {
  return "~standard" in schema;
}
