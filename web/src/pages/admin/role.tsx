/** The roles, in words. */
import { t } from "@lingui/core/macro";
import type { Schemas } from "../../api/client";
import { Field } from "../../ui/basics";

export type Role = Schemas["CreateUser"]["role"];
export const ROLES = [
  "admin",
  "operator",
  "reviewer",
  "viewer",
  "worker",
  "backup",
] as const satisfies Role[];
export const MAY: Record<Role, string> = {
  admin: t`may do everything`,
  operator: t`submits, cancels, deploys, reviews`,
  reviewer: t`reads and decides held outputs, nothing else`,
  viewer: "reads",
  worker: t`runs tasks`,
  backup: t`makes backups`,
};

/** The roles that a member of a project may have. */
export const OF_MEMBERS = ROLES.slice(0, 4);

type FieldProps = { role: Role; set: (role: Role) => void; fault?: string; roles?: readonly Role[] };

export function RoleField({ role, set, fault, roles = ROLES }: FieldProps) {
  return (
    <Field label={t`Role`} hint={MAY[role]} fault={fault}>
      {(props) => (
        <select
          {...props}
          className="select"
          value={role}
          onChange={(event) => set(event.target.value as Role)}
        >
          {roles.map((role) => (
            <option key={role}>{role}</option>
          ))}
        </select>
      )}
    </Field>
  );
}
