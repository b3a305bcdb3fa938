/** Ended tasks of today and of the six days before, by the UTC day on which they were submitted. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { getPage } from "../../api/client";
import { useLive } from "../../live/live";

export type Day = { start: string; completed: number; failed: number };

const DAY = 86_400_000;
const AGAIN = 5_000;
const KEY = ["home", "week"];

async function total(status: "completed" | "failed", from: number, to: number): Promise<number> {
  const createdAfter = new Date(from).toISOString();
  const createdBefore = new Date(to).toISOString();
  return (await getPage("/api/tasks", { query: { status: [status], createdAfter, createdBefore, limit: 1 } }))
    .total;
}

async function day(start: number): Promise<Day> {
  const [completed, failed] = await Promise.all([
    total("completed", start, start + DAY),
    total("failed", start, start + DAY),
  ]);
  return { start: new Date(start).toISOString(), completed, failed };
}

/** The oldest day first. Today is counted again when tasks end, at most every five seconds. */
export function useWeek() {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useLive(["task.completed", "task.failed"], undefined, () => {
    timer.current ??= setTimeout(async () => {
      timer.current = undefined;
      const known = client.getQueryData<Day[]>(KEY);
      const today = Math.floor(Date.now() / DAY) * DAY;
      const last = known?.at(-1);
      if (!known || !last || Date.parse(last.start) !== today)
        return client.invalidateQueries({ queryKey: KEY });
      const now = await day(today).catch(() => last);
      client.setQueryData(KEY, known.with(-1, now));
    }, AGAIN);
  });
  return useQuery({
    queryKey: KEY,
    queryFn: () => {
      const today = Math.floor(Date.now() / DAY) * DAY;
      return Promise.all(Array.from({ length: 7 }, (_, back) => day(today - (6 - back) * DAY)));
    },
  });
}
