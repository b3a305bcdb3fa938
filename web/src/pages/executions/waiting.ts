/** What waits, the oldest first: executions of which nothing runs, and tasks that are of none. */
import type { ItemOf } from "../../api/client";
import { usePage } from "../../api/hooks";
import { runsModel } from "../../lib/serves";
import { useLive } from "../../live/live";

type Execution = ItemOf<"/api/plans/executions">;
type Task = ItemOf<"/api/tasks">;
type Worker = ItemOf<"/api/workers">;

export type Waiting = {
  id: string;
  href: string;
  of: Execution | Task;
  waitingFor: string;
  /** Since when, or since the creation where that is not known. */
  since: string;
};

/** So many of the oldest are looked at. */
export const OLDEST = 100;

export function useWaiting() {
  useLive(["execution.*", "task.*"]);
  const executions = usePage("/api/plans/executions", {
    query: { status: ["pending", "running"], order: "asc", limit: OLDEST },
  });
  const tasks = usePage("/api/tasks", { query: { status: ["pending"], order: "asc", limit: OLDEST } });
  return {
    error: executions.error ?? tasks.error,
    refetch: () => void (executions.error ? executions : tasks).refetch(),
    isPart: (executions.data?.total ?? 0) > OLDEST || (tasks.data?.total ?? 0) > OLDEST,
    tasks: tasks.data?.items,
    rows: executions.data && tasks.data && waiting(executions.data.items, tasks.data.items),
  };
}

/** By the age of the wait. A task of an execution is shown by that. */
export function waiting(executions: Execution[], tasks: Task[]): Waiting[] {
  const runs = executions.flatMap((of): Waiting[] => {
    const since = of.waitingSince ?? of.startedAt;
    return of.waitingFor && since
      ? [{ id: of.id, href: `/executions/${of.id}`, of, waitingFor: of.waitingFor, since }]
      : [];
  });
  const alone = tasks.flatMap((of): Waiting[] =>
    of.waitingFor && !of.planExecutionId
      ? [
          {
            id: of.id,
            href: `/tasks/${of.id}`,
            of,
            waitingFor: of.waitingFor,
            since: of.waitingSince ?? of.createdAt,
          },
        ]
      : [],
  );
  return [...runs, ...alone].sort((one, other) => Date.parse(one.since) - Date.parse(other.since));
}

export type Unserved = { queue: string; model: string; tasks: number; since: string };

/** The pairs of queue and model that tasks wait for and that no connected worker serves. */
export function unserved(tasks: Task[], workers: Worker[]): Unserved[] {
  const pairs = new Map<string, Unserved>();
  for (const { queue, model, waitingFor, waitingSince, createdAt } of tasks) {
    if (waitingFor !== "worker") continue;
    if (workers.some((worker) => worker.status === "active" && serves(worker, queue, model))) continue;
    const key = JSON.stringify([queue, model]);
    const known = pairs.get(key) ?? { queue, model, tasks: 0, since: waitingSince ?? createdAt };
    pairs.set(key, { ...known, tasks: known.tasks + 1 });
  }
  return [...pairs.values()];
}

function serves({ queues, models }: Worker, queue: string, model: string): boolean {
  return queues.some((name) => name === queue || name === "*") && runsModel(models, model);
}
