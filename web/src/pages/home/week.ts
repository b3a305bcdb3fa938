/** Tasks that ended today and on the six days before, with their cost, by the day of the reader. */
import { type UseQueryResult, useQueries } from "@tanstack/react-query";
import { ApiError, get, getPage } from "../../api/client";
import { lastDays, spanOf } from "../../lib/span";
import { useAgain } from "../../live/again";

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

async function cost(date: string, signal: AbortSignal): Promise<Pick<Day, "cost" | "priceUnknown">> {
  const { after: from, before: to } = spanOf(date);
  try {
    const { total } = await get("/api/usage", { query: { groupBy: "model", from, to } }, signal);
    return { cost: total.totalCost, priceUnknown: total.priceUnknown };
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return {};
    throw error;
  }
}

async function dayOf(date: string, batch: Batch, signal: AbortSignal): Promise<Day> {
  const { after: endedAfter, before: endedBefore } = spanOf(date);
  const total = async (status: "completed" | "failed" | "rejected") => {
    const query = { status: [status], endedAfter, endedBefore, limit: 1, ...batch };
    return (await getPage("/api/tasks", { query }, signal)).total;
  };
  const [completed, failed, rejected, spent] = await Promise.all([
    total("completed"),
    total("failed"),
    total("rejected"),
    cost(date, signal),
  ]);
  return { date, completed, failed, rejected, ...spent };
}

/**
 * The oldest day first. Today is counted again when tasks end, at most every five seconds and never twice at a time;
 * at midnight every day is.
 */
export function useWeek(batch: Batch) {
  const dates = lastDays(7);
  const today = dates.at(-1);
  const isToday = ([page, what, date]: readonly unknown[]) =>
    page === "home" && what === "day" && date === today;
  useAgain(["task.completed", "task.failed", "task.rejected"], isToday, AGAIN);
  return useQueries({
    queries: dates.map((date) => ({
      queryKey: ["home", "day", date, { today, ...batch }],
      queryFn: ({ signal }: { signal: AbortSignal }) => dayOf(date, batch, signal),
    })),
    combine: together,
  });
}

const together = (days: UseQueryResult<Day>[]) => ({
  data: days.every(({ data }) => data) ? days.map(({ data }) => data as Day) : undefined,
  error: days.find(({ error }) => error)?.error ?? null,
  refetch: () => Promise.all(days.map(({ refetch }) => refetch())),
});
