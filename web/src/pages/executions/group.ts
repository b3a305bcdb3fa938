/** The runs of one template or plan, as the groups of the executions show them. */
import type { Schemas } from "../../api/client";
import type { Execution } from "./steps";

export type Group = { of: "templateId" | "planId"; id: string; name: string };

/**
 * The templates and plans of the latest runs, the last that ran first, then the other templates. A deployment makes
 * a plan, so most plans are of one run of a template: only those that ran by themselves count.
 */
export function grouped(
  templates: Pick<Schemas["Template"], "id" | "name">[],
  latest: Pick<Execution, "templateId" | "planId">[],
  nameOf: (run: { templateId?: string; planId?: string }) => string,
): Group[] {
  const groups = new Map<string, Group>();
  for (const { templateId, planId } of latest) {
    const of = templateId ? "templateId" : "planId";
    const id = templateId ?? planId;
    if (!groups.has(id)) groups.set(id, { of, id, name: nameOf({ templateId, planId }) });
  }
  for (const { id, name } of templates) {
    if (!groups.has(id)) groups.set(id, { of: "templateId", id, name });
  }
  return [...groups.values()];
}

/** A run of a template has a plan of its own beside it. */
export const groupOf = ({ templateId, planId }: Pick<Execution, "templateId" | "planId">) =>
  templateId ?? planId;

export type Now = { running: number; held: number; waiting: number };

/** What runs of a group that have not ended do: each counts once. */
export function nowOf(open: Pick<Execution, "status" | "waitingFor">[]): Now {
  const held = open.filter(({ waitingFor }) => waitingFor === "approval").length;
  const running = open.filter(({ status, waitingFor }) => status === "running" && !waitingFor).length;
  return { running, held, waiting: open.length - held - running };
}
