/**
 * How the queues stand. This function alone knows where that is told: by `GET /api/queues`, or, on a server
 * without it, by the metrics and the lists of workers and tasks, which know neither settings nor pauses.
 */
import { ApiError, get, getPage } from "../../api/client";
import { names, readMetrics, value } from "../insights/metrics";

export type Queue = {
  name: string;
  /** Tasks that are ready and wait for a worker. */
  depth: number;
  /** When the oldest of them was created. */
  oldestAt?: string;
  running?: number;
  /** Connected workers that serve it. */
  workers?: number;
  paused?: boolean;
  concurrent?: number;
  requestsPerMinute?: number;
};
export type Queues = { items: Queue[]; canChange: boolean };

const MOST_ASKED = 30;

export async function readQueues(signal?: AbortSignal): Promise<Queues> {
  try {
    const items: Queue[] = [];
    for (let hasMore = true; hasMore; ) {
      const query = { limit: 100, offset: items.length };
      const page = await getPage("/api/queues" as "/api/workers", { query } as never, signal);
      items.push(...(page.items as unknown as Queue[]));
      hasMore = page.hasMore && page.items.length > 0;
    }
    return { items, canChange: true };
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
  return { items: await fromMetrics(signal), canChange: false };
}

async function fromMetrics(signal?: AbortSignal): Promise<Queue[]> {
  const [samples, workers] = await Promise.all([
    readMetrics(signal),
    get("/api/workers", { query: { limit: 100 } } as never, signal),
  ]);
  const now = Date.now();
  const served = workers.filter((worker) => worker.status !== "lost").flatMap((worker) => worker.queues);
  const known = [...new Set([...names(samples, "svc_queue_depth", "queue"), ...served])].sort();
  const running = known.slice(0, MOST_ASKED).map(async (queue) => {
    const query = { status: "running", queue, limit: 1 };
    return (await getPage("/api/tasks", { query } as never, signal)).total;
  });
  const counts = await Promise.all(running);
  return known.map((name, index) => {
    const depth = value(samples, "svc_queue_depth", { queue: name }) ?? 0;
    const oldest = value(samples, "svc_queue_oldest_seconds", { queue: name }) ?? 0;
    return {
      name,
      depth,
      oldestAt: depth > 0 ? new Date(now - oldest * 1000).toISOString() : undefined,
      running: counts[index],
      workers: served.filter((queue) => queue === name).length,
    };
  });
}
