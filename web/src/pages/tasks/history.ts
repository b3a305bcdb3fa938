/** The history of a task: its record, and the events since the page was opened. */
import type { DataOf } from "../../api/client";
import type { LiveEvent } from "../../live/socket";

type Task = DataOf<"/api/tasks/{id}">;
export type Entry = { at: string; state: string; words: string; note?: string };

const SEEN: Record<string, [state: string, words: string]> = {
  "task.started": ["running", "started"],
  "task.retrying": ["pending", "tries again"],
  "task.awaiting_approval": ["awaiting_approval", "waits for a reviewer"],
};

export function historyOf(task: Task, seen: LiveEvent[]): Entry[] {
  const entries: Entry[] = [{ at: task.createdAt, state: "pending", words: "created" }];
  if (task.startedAt)
    entries.push({ at: task.startedAt, state: "running", words: "started", note: "attempt 1" });
  for (const { event, at, data } of seen) {
    const [state, words] = SEEN[event] ?? [];
    const attempt = typeof data.attempt === "number" ? data.attempt : undefined;
    if (!state || !words || (event === "task.started" && attempt === 1)) continue;
    const error = data.error as { code?: string; message?: string } | undefined;
    const why = error?.code ? `${error.code}: ${error.message ?? ""}` : undefined;
    entries.push({ at, state, words, note: why ?? (attempt ? `attempt ${attempt}` : undefined) });
  }
  const end = task.completedAt ?? task.cancelledAt;
  if (end) {
    const attempts = task.attempt > 1 ? `attempt ${task.attempt}` : undefined;
    entries.push({ at: end, state: task.status, words: task.status, note: task.error?.code ?? attempts });
  }
  return entries.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}
