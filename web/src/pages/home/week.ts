/** Tasks of today and of the six days before, with their cost, by the UTC day on which they were submitted. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { ApiError, get, getPage } from "../../api/client";
import { useLive } from "../../live/live";

export type Day = {
  start: string;
  completed: number;
  failed: number;
  /** USD; left out if there are too many tasks to add up. */
  cost?: number;
  priceUnknown?: boolean;
};

const DAY = 86_400_000;
const AGAIN = 5_000;
const KEY = ["home", "week"];

async function total(status: "completed" | "failed", from: number, to: number): Promise<number> {
  const createdAfter = new Date(from).toISOString();
  const createdBefore = new Date(to).toISOString();
  return (await getPage("/api/tasks", { query: { status: [status], createdAfter, createdBefore, limit: 1 } }))
    .total;
}

type Cost = { cost: number; priceUnknown?: boolean };

/** The cost of each day since an instant, by its date; nothing where the server does not add up so many. */
async function costs(from: number): Promise<Map<string, Cost> | undefined> {
  try {
    const query = { groupBy: "day" as const, from: new Date(from).toISOString() };
    const { groups } = await get("/api/usage", { query });
    return new Map(
      groups.map(({ key = "", totalCost: cost, priceUnknown }) => [key, { cost, priceUnknown }]),
    );
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return undefined;
    throw error;
  }
}

async function since(first: number): Promise<Day[]> {
  const today = midnight();
  const starts = Array.from({ length: (today - first) / DAY + 1 }, (_, index) => first + index * DAY);
  const [spent, ...counted] = await Promise.all([
    costs(first),
    ...starts.map(async (at) => ({
      start: new Date(at).toISOString(),
      completed: await total("completed", at, at + DAY),
      failed: await total("failed", at, at + DAY),
    })),
  ]);
  return counted.map((each) => ({
    ...each,
    ...(spent && (spent.get(each.start.slice(0, 10)) ?? { cost: 0 })),
  }));
}

const midnight = () => Math.floor(Date.now() / DAY) * DAY;

/** The oldest day first. Today is counted again when tasks end, at most every five seconds. */
export function useWeek() {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const again = () => {
    timer.current ??= setTimeout(async () => {
      timer.current = undefined;
      const known = client.getQueryData<Day[]>(KEY);
      const today = midnight();
      const last = known?.at(-1);
      if (!known || !last || Date.parse(last.start) !== today)
        return client.invalidateQueries({ queryKey: KEY });
      const [now = last] = await since(today).catch(() => []);
      client.setQueryData(KEY, known.with(-1, now));
    }, AGAIN);
  };
  useLive(["task.completed", "task.failed"], undefined, again, again);
  return useQuery({
    queryKey: KEY,
    queryFn: () => since(midnight() - 6 * DAY),
  });
}
