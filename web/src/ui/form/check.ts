/**
 * A JSON text against a schema, as somebody writes it. The server has the last word: a schema that this browser
 * cannot check is left to it.
 */

import { type OutputUnit, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { t } from "@lingui/core/macro";

/** A fault, at a path such as `output.rows[0].name`. */
export type Fault = {
  field: string;
  message: string /** Only the server knows for certain. */;
  mild?: boolean;
};

/** Makes what finds the faults of texts; it is made once for a schema. */
export function checker(schema: unknown, root: string): (text: string) => Fault[] {
  const faultsOf = valueChecker(schema, root);
  return (text) => {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (error) {
      return [{ field: root, message: t`This is not JSON: ${(error as Error).message}` }];
    }
    return faultsOf(value);
  };
}

/** The same for values that are read already. */
export function valueChecker(schema: unknown, root: string): (value: unknown) => Fault[] {
  const validator = validatorOf(schema);
  return (value) => {
    if (!validator) return [];
    try {
      return faultsOf(validator.validate(value).errors, root);
    } catch {
      // A pattern that this browser does not read.
      return [];
    }
  };
}

function validatorOf(schema: unknown): Validator | undefined {
  if (typeof schema !== "object" || schema === null) return undefined;
  try {
    return new Validator(schema as Schema, draftOf(schema as Schema), false);
  } catch {
    return undefined;
  }
}

function draftOf({ $schema, items }: Schema): SchemaDraft {
  const named = /draft-0(4|6|7)|(2019-09)/.exec(typeof $schema === "string" ? $schema : "");
  if (named) return named[2] ? "2019-09" : named[1] === "4" ? "4" : "7";
  return Array.isArray(items) ? "2019-09" : "2020-12";
}

/** Keywords that only say that something inside of them is wrong. */
const OUTER = new Set([
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "items",
  "prefixItems",
  "additionalItems",
  "unevaluatedItems",
  "$ref",
  "$recursiveRef",
  "allOf",
  "if",
  "then",
  "else",
  "dependentSchemas",
]);
/** What of several alternatives is wrong with each says nothing to anybody. */
const ALTERNATIVES = /\/(anyOf|oneOf|contains|not)\/|\/not$/;

function faultsOf(units: OutputUnit[], root: string): Fault[] {
  const found = units
    .filter(({ keyword, keywordLocation }) => {
      const above = keywordLocation.slice(0, keywordLocation.lastIndexOf(`/${keyword}`) + 1);
      return !OUTER.has(keyword) && !ALTERNATIVES.test(above);
    })
    .map((unit): Fault => {
      const path = pathOf(unit.instanceLocation);
      const lacks = unit.keyword === "required" && /required property "(.*)"\.$/.exec(unit.error)?.[1];
      if (lacks) return { field: fieldOf(root, [...path, lacks]), message: t`This is required.` };
      const mild = unit.keyword === "format" ? { mild: true } : {};
      return { field: fieldOf(root, path), message: said(unit), ...mild };
    });
  return found.filter((each, index) => found.findIndex(({ field }) => field === each.field) === index);
}

function said({ keyword, error }: OutputUnit): string {
  switch (keyword) {
    case "false":
      return t`The schema has no such member.`;
    case "anyOf":
    case "oneOf":
      return t`This fits none of the forms that the schema permits.`;
    case "type":
      return t`This must be ${/Expected "(.*)"\.$/.exec(error)?.[1]?.replaceAll('", "', ` ${t`or`} `) ?? ""}.`;
    case "enum":
      return t`This must be one of ${/any of (.*)\.$/.exec(error)?.[1] ?? ""}.`;
    case "pattern":
      return t`This does not have the pattern that the schema asks for.`;
    default:
      return error.replace("Instance ", "This ");
  }
}

const pathOf = (pointer: string) =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => decodeURI(part).replaceAll("~1", "/").replaceAll("~0", "~"));

/** A place in a value, as the server names it. */
const fieldOf = (root: string, path: string[]) =>
  path.reduce((at, name) => (/^\d+$/.test(name) ? `${at}[${name}]` : `${at}.${name}`), root);

/** The faults that the server's refusal of an edit names, which are in its message alone. */
export function refusedFields(message: string, root: string): Fault[] {
  const [, listed] = /must match the outputSchema: (.*)$/s.exec(message) ?? [];
  return (listed ?? "").split("; ").flatMap((each) => {
    const [, field, said] = new RegExp(`^(${root}[.[]\\S*) (.*)$`, "s").exec(each) ?? [];
    return field && said ? [{ field, message: t`The server: ${said}.` }] : [];
  });
}
