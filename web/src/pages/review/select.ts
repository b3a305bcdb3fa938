/** Which items are shown, which belong together, and which were looked at. */
import type { Approval } from "../../api/client";

/** The step of a template that an item is of; or what it has in place of it. */
export function groupOf(item: Approval): string {
  if (item.templateId && item.stepId) return `${item.templateId} / ${item.stepId}`;
  return item.stepId ? `plan / ${item.stepId}` : `task / ${item.queue}`;
}

export function matches(item: Approval, text: string, group: string | undefined): boolean {
  if (group !== undefined && groupOf(item) !== group) return false;
  if (!text) return true;
  const wanted = text.toLowerCase();
  const fields = [
    item.summary,
    item.output,
    item.prompt,
    item.stepId,
    item.templateId,
    item.taskId,
    item.model,
    ...item.tags,
  ];
  return fields.some((field) => field?.toLowerCase().includes(wanted));
}

/** The items that were opened since the page was loaded: a bulk approval asks for some. */
const seen = new Set<string>();
export const remember = (taskId: string) => void seen.add(taskId);
export const opened = (taskId: string) => seen.has(taskId);

/** Those whose output was in view to its end. */
const read = new Set<string>();
export const rememberEnd = (taskId: string) => void read.add(taskId);
export const seenToEnd = (taskId: string) => read.has(taskId);
