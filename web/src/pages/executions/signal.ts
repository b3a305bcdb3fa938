/** The form of a signal's payload. A payload that is no object is the one field of the form. */
import type { Input } from "../../ui/form/form";
import { type FormField, formOf } from "../../ui/form/schema";

const ONLY = "payload";

export type PayloadForm = {
  fields: FormField[];
  /** True if the payload is an object, whose members are the fields. */
  isObject: boolean;
};

export function payloadForm(schema: unknown): PayloadForm {
  const members = formOf(schema);
  if (members && members.length > 0) return { fields: members, isObject: true };
  const whole = { type: "object", properties: { [ONLY]: schema ?? {} } };
  const fields = formOf(whole) ?? [];
  // The schema may refer to its own definitions, which stand in its root.
  const defs = (schema as { $defs?: unknown } | undefined)?.$defs;
  return { fields: defs ? (formOf({ ...whole, $defs: defs }) ?? fields) : fields, isObject: false };
}

export const payloadOf = ({ isObject }: PayloadForm, entered: Input): unknown =>
  isObject ? entered : entered[ONLY];

/** Faults of `payload` or of its members, by the names that the form has. */
export const faultsIn = <F extends { field: string }>({ isObject }: PayloadForm, faults: F[]): F[] =>
  isObject ? faults : faults.map((fault) => ({ ...fault, field: `${ONLY}.${ONLY}` }));
