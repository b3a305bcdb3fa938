/**
 * Acting on every task that a filter matches: a bulk job of the server. The number is asked for first, and the
 * job refuses to begin if another number matches by then.
 */
import { ApiError, api, type ItemOf, type ParamsOf, type Schemas, unwrap } from "../../api/client";

export type TaskRow = ItemOf<"/api/tasks">;
export type TaskQuery = NonNullable<ParamsOf<"/api/tasks">["query"]>;
export type Act = "cancel" | "retry";
export type Filter = Schemas["BulkFilter"];
export type Job = Schemas["Bulk"];
type Status = NonNullable<Filter["status"]>[number];

/** The statuses of tasks that an action changes. */
const FITS: Record<Act, readonly Status[]> = {
  cancel: ["pending", "running"],
  retry: ["failed", "rejected", "cancelled"],
};

/** What is cancelled of these statuses, or tried again if every one of them has ended. */
export function actOf(statuses: readonly string[]): Act {
  return statuses.length > 0 && statuses.every((it) => FITS.retry.includes(it as Status))
    ? "retry"
    : "cancel";
}

export type Count = { status: Status; number: number };
export type Matching = { act: Act; filter: Filter; counts: Count[]; total: number };
type Ask = (body: Schemas["StartBulk"]) => Promise<Job>;
const ASK: Ask = (body) => unwrap(api.POST("/api/bulk", { body }));

/** Counts those that match and that the action changes, by status. */
export async function matching(act: Act, query: TaskQuery, ask: Ask = ASK): Promise<Matching> {
  const status = FITS[act].filter((it) => !query.status?.length || query.status.includes(it));
  const { queue, model, tags, batch, createdAfter, createdBefore, endedAfter, endedBefore } = query;
  const times = { createdAfter, createdBefore, endedAfter, endedBefore };
  const filter: Filter = { status: [...status], queue, model, tags, batch, ...times };
  const counts = await Promise.all(
    status.map(async (it) => {
      const { total } = await ask({ action: act, filter: { ...filter, status: [it] }, dryRun: true });
      return { status: it, number: total };
    }),
  );
  return { act, filter, counts, total: counts.reduce((sum, { number }) => sum + number, 0) };
}

/** Begins the job, or refuses with 409 if another number matches by now. */
export function begin({ act, filter, total }: Matching, ask: Ask = ASK): Promise<Job> {
  return ask({ action: act, filter, expect: total });
}

export type Outcome = {
  done: number;
  changed: number;
  skipped: number;
  failed: { id: string; why: string }[];
};
const AT_ONCE = 4;

type Cancel = (id: string) => Promise<unknown>;
const CANCEL: Cancel = (id) => unwrap(api.DELETE("/api/tasks/{id}", { params: { path: { id } } }));

/** Cancels these rows and no others, and reports the progress. `stopped` ends it between two tasks. */
export async function cancelRows(
  ids: string[],
  report: (outcome: Outcome) => void,
  stopped: () => boolean,
  cancel: Cancel = CANCEL,
): Promise<Outcome> {
  let outcome: Outcome = { done: 0, changed: 0, skipped: 0, failed: [] };
  let next = 0;
  const work = async () => {
    while (next < ids.length && !stopped()) {
      const id = ids[next++] as string;
      const result = await one(id, cancel);
      outcome = {
        done: outcome.done + 1,
        changed: outcome.changed + (result === "changed" ? 1 : 0),
        skipped: outcome.skipped + (result === "skipped" ? 1 : 0),
        failed: typeof result === "string" ? outcome.failed : [...outcome.failed, result],
      };
      report(outcome);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcome;
}

async function one(id: string, cancel: Cancel): Promise<"changed" | "skipped" | { id: string; why: string }> {
  for (let tries = 0; ; tries++) {
    try {
      await cancel(id);
      return "changed";
    } catch (error) {
      // It ended by itself before its turn came.
      if (error instanceof ApiError && error.status === 409) return "skipped";
      const isBusy = error instanceof ApiError && (error.status === 429 || error.status === 503);
      if (!isBusy || tries === 5) return { id, why: error instanceof Error ? error.message : String(error) };
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tries));
    }
  }
}
