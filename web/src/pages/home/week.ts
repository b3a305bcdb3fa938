/** Tasks that ended today and on the six days before, with their cost, by the day of the reader. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { ApiError, get, getPage } from "../../api/client";
import { dateOf, lastDays, spanOf } from "../../lib/span";
import { useLive } from "../../live/live";

export type Day = {
  /** 2026-11-28, of the reader. */
  date: string;
  completed: number;
  failed: number;
  rejected: number;
  /** USD; left out if there are too many tasks to add up. */
  cost?: number;
  priceUnknown?: boolean;
};

const AGAIN = 5_000;

/** Rows of batches are left out, or not. */
type Batch = { batch?: "none" };

async function cost(date: string): Promise<Pick<Day, "cost" | "priceUnknown">> {
  const { after: from, before: to } = spanOf(date);
  try {
    const { total } = await get("/api/usage", { query: { groupBy: "model", from, to } });
    return { cost: total.totalCost, priceUnknown: total.priceUnknown };
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return {};
    throw error;
  }
}

async function dayOf(date: string, batch: Batch): Promise<Day> {
  const { after: endedAfter, before: endedBefore } = spanOf(date);
  const total = async (status: "completed" | "failed" | "rejected") =>
    (
      await getPage("/api/tasks", {
        query: { status: [status], endedAfter, endedBefore, limit: 1, ...batch },
      })
    ).total;
  const [completed, failed, rejected, spent] = await Promise.all([
    total("completed"),
    total("failed"),
    total("rejected"),
    cost(date),
  ]);
  return { date, completed, failed, rejected, ...spent };
}

/** The oldest day first. Today is counted again when tasks end, at most every five seconds. */
export function useWeek(batch: Batch) {
  const key = ["home", "week", batch];
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const again = () => {
    timer.current ??= setTimeout(async () => {
      timer.current = undefined;
      const known = client.getQueryData<Day[]>(key);
      const last = known?.at(-1);
      if (!known || !last || last.date !== dateOf(Date.now()))
        return client.invalidateQueries({ queryKey: key });
      const now = await dayOf(last.date, batch).catch(() => last);
      client.setQueryData(key, known.with(-1, now));
    }, AGAIN);
  };
  useLive(["task.completed", "task.failed", "task.rejected"], undefined, again, again);
  return useQuery({
    queryKey: key,
    queryFn: () => Promise.all(lastDays(7).map((date) => dayOf(date, batch))),
  });
}
