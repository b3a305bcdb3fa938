/**
 * Acting on every task that a filter matches. The number is known before anything is done, and what is done is
 * done to exactly those: they are listed first, and tasks that are created later are not among them.
 *
 * This is the one place that knows how: a bulk endpoint of the server would take its place.
 */
import { ApiError, api, getPage, type ItemOf, type ParamsOf, unwrap } from "../../api/client";

export type TaskRow = ItemOf<"/api/tasks">;
export type TaskQuery = NonNullable<ParamsOf<"/api/tasks">["query"]>;
export type Matching = { ids: string[]; pending: number; running: number; steps: number };
export type Outcome = {
  done: number;
  cancelled: number;
  ended: number;
  failed: { id: string; why: string }[];
};

const OPEN = ["pending", "running"] as const;
const PAGE = 100;
const AT_ONCE = 4;

export type Read = (query: TaskQuery) => Promise<{ items: TaskRow[]; hasMore: boolean }>;
const READ: Read = (query) => getPage("/api/tasks", { query });

/** Those that match and can be cancelled. A status that has ended leaves none. */
export async function matching(filter: TaskQuery, read: Read = READ): Promise<Matching> {
  const status = OPEN.filter((it) => !filter.status?.length || filter.status.includes(it));
  if (status.length === 0) return count([]);
  const found = new Map<string, TaskRow>();
  // The oldest first: what is created meanwhile comes last. What ends meanwhile shifts a page, so it is read
  // again until a pass finds nothing new.
  for (let before = -1; found.size > before; ) {
    before = found.size;
    for (let offset = 0; ; offset += PAGE) {
      const query: TaskQuery = { ...filter, status, orderBy: "createdAt", order: "asc", limit: PAGE, offset };
      const { items, hasMore } = await read(query);
      for (const item of items) found.set(item.id, item);
      if (!hasMore) break;
    }
    if (found.size <= PAGE) break;
  }
  return count([...found.values()]);
}

export function count(tasks: TaskRow[]): Matching {
  const open = tasks.filter(({ status }) => status === "pending" || status === "running");
  return {
    ids: open.map(({ id }) => id),
    pending: open.filter(({ status }) => status === "pending").length,
    running: open.filter(({ status }) => status === "running").length,
    steps: open.filter(({ planExecutionId }) => planExecutionId !== undefined).length,
  };
}

type Cancel = (id: string) => Promise<unknown>;
const CANCEL: Cancel = (id) => unwrap(api.DELETE("/api/tasks/{id}", { params: { path: { id } } }));

/** Cancels these and no others, and tells how far it is. `stopped` ends it between two tasks. */
export async function cancelAll(
  ids: string[],
  told: (outcome: Outcome) => void,
  stopped: () => boolean,
  cancel: Cancel = CANCEL,
): Promise<Outcome> {
  let outcome: Outcome = { done: 0, cancelled: 0, ended: 0, failed: [] };
  let next = 0;
  const work = async () => {
    while (next < ids.length && !stopped()) {
      const id = ids[next++] as string;
      const result = await one(id, cancel);
      outcome = {
        done: outcome.done + 1,
        cancelled: outcome.cancelled + (result === "cancelled" ? 1 : 0),
        ended: outcome.ended + (result === "ended" ? 1 : 0),
        failed: typeof result === "string" ? outcome.failed : [...outcome.failed, result],
      };
      told(outcome);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcome;
}

async function one(id: string, cancel: Cancel): Promise<"cancelled" | "ended" | { id: string; why: string }> {
  for (let tries = 0; ; tries++) {
    try {
      await cancel(id);
      return "cancelled";
    } catch (error) {
      // It ended by itself before its turn came.
      if (error instanceof ApiError && error.status === 409) return "ended";
      const isBusy = error instanceof ApiError && (error.status === 429 || error.status === 503);
      if (!isBusy || tries === 5) return { id, why: error instanceof Error ? error.message : String(error) };
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tries));
    }
  }
}
