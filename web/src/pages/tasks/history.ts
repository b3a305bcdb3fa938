/** The history of a task: its record, and the events since the page was opened. */
import { t } from "@lingui/core/macro";
import type { DataOf } from "../../api/client";
import type { LiveEvent } from "../../live/socket";
import { lookOf } from "../../ui/status";

type Task = DataOf<"/api/tasks/{id}">;
export type Entry = { at: string; state: string; words: string; note?: string };

const SEEN: Record<string, [state: string, words: string]> = {
  "task.started": ["running", t`started`],
  "task.retrying": ["pending", t`tries again`],
  "task.awaiting_approval": ["awaiting_approval", t`waits for a reviewer`],
};

export function historyOf(task: Task, seen: LiveEvent[]): Entry[] {
  const entries: Entry[] = [{ at: task.createdAt, state: "pending", words: t`created` }];
  if (task.startedAt)
    entries.push({ at: task.startedAt, state: "running", words: t`started`, note: t`attempt ${1}` });
  for (const { event, at, data } of seen) {
    const [state, words] = SEEN[event] ?? [];
    const attempt = typeof data.attempt === "number" ? data.attempt : undefined;
    if (!state || !words || (event === "task.started" && attempt === 1)) continue;
    const error = data.error as { code?: string; message?: string } | undefined;
    const why = error?.code ? `${error.code}: ${error.message ?? ""}` : undefined;
    entries.push({ at, state, words, note: why ?? (attempt ? t`attempt ${attempt}` : undefined) });
  }
  const end = task.completedAt ?? task.cancelledAt;
  if (end) {
    const attempts = task.attempt > 1 ? t`attempt ${task.attempt}` : undefined;
    entries.push({
      at: end,
      state: task.status,
      words: lookOf(task.status).word,
      note: task.error?.code ?? attempts,
    });
  }
  return entries.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}
