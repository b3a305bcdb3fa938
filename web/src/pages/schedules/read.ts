/** Schedules as these pages read them, and words for what their settings mean. */
import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { ApiError, api, get, getPage, type Schemas, unwrap } from "../../api/client";

export type Schedule = Schemas["Schedule"];
export type Run = Schemas["ScheduleRun"];
export type Target = Schemas["ScheduleTarget"];

export const OVERLAPS: Record<string, string> = {
  skip: t`is skipped`,
  queue: t`waits for its end`,
  cancel_running: t`cancels it and starts`,
  allow: t`starts beside it`,
};
export const CATCH_UPS: Record<string, string> = {
  last: t`the newest one runs`,
  none: t`none runs`,
  all: t`all run, at most 100`,
};

/** What a schedule is at the moment: a single time that has passed leaves nothing to wait for. */
export function stateOf({ enabled, nextRunAt }: Schedule): "active" | "paused" | "over" {
  if (!enabled) return "paused";
  return nextRunAt ? "active" : "over";
}

/** The name of the work that a run started, of its page and of its list. */
export function workOf({ executionId, taskId }: Run) {
  if (executionId)
    return { id: executionId, href: `/executions/${executionId}`, list: "executions" as const };
  return taskId ? { id: taskId, href: `/tasks/${taskId}`, list: "tasks" as const } : undefined;
}

/** Occurrences in a row that did not succeed, from the newest on, at which a schedule is marked. */
export const TOO_MANY = 3;
const GOOD = ["completed", "approved"];
const GOING = ["pending", "running", "scheduled"];

/** True, false, or unknown while it goes on or once it is no longer stored. */
export function succeeded(run: Run, status: string | undefined): boolean | undefined {
  if (run.outcome === "queued") return undefined;
  if (run.outcome !== "started") return false;
  if (status === undefined || GOING.includes(status)) return undefined;
  return GOOD.includes(status);
}

/** The failures in a row, the newest first: what goes on is passed over, a success ends it. */
export function failuresOf(results: (boolean | undefined)[]): number {
  const known = results.filter((each) => each !== undefined);
  const success = known.indexOf(true);
  return success < 0 ? known.length : success;
}

async function statusOf(run: Run, signal: AbortSignal): Promise<string | undefined> {
  const work = workOf(run);
  if (!work) return undefined;
  const params = { query: { search: work.id, limit: 1 } };
  const read =
    work.list === "executions"
      ? await getPage("/api/plans/executions", params, signal)
      : await getPage("/api/tasks", params, signal);
  return read.items.find(({ id }) => id === work.id)?.status;
}

const RUNS = "/api/schedules/{id}/runs" as const;
const LOOKED_AT = 6;

/** How many of the latest occurrences did not succeed, up to `TOO_MANY`. It asks no further than to a success. */
export function useFailures(id: string) {
  return useQuery<number, ApiError>({
    // The path stands first, so that the events of the schedule read it again.
    queryKey: [RUNS, { path: { id } }, "failures"],
    queryFn: async ({ signal }) => {
      const runs = await get(RUNS, { path: { id }, query: { limit: LOOKED_AT } }, signal);
      const results: (boolean | undefined)[] = [];
      for (const run of runs) {
        const status = run.outcome === "started" ? await statusOf(run, signal) : undefined;
        const result = succeeded(run, status);
        results.push(result);
        if (result || failuresOf(results) >= TOO_MANY) break;
      }
      return failuresOf(results);
    },
  });
}

export const triggered = (id: string) =>
  unwrap(api.POST("/api/schedules/{id}/trigger", { params: { path: { id } } })) as Promise<Run>;
export const changed = (id: string, body: Schemas["ChangeSchedule"]) =>
  unwrap(api.PATCH("/api/schedules/{id}", { params: { path: { id } }, body }));

/** The faults of a refusal by their field; a fault of a member of `target` is one of the target. */
export function faultsOf(error: Error | undefined) {
  return error instanceof ApiError ? error.faults : [];
}
