/** Executions that failed within a day, by the template or plan that they are of. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { getPage, type ItemOf } from "../../api/client";
import { usePage } from "../../api/hooks";
import { useLive } from "../../live/live";

export type Failing = {
  id: string;
  isTemplate: boolean;
  failed: number;
  total: number;
  latest: ItemOf<"/api/plans/executions">;
};

const DAY = 86_400_000;
const HOUR = 3_600_000;
const SHOWN = 5;

export function useFailing() {
  useLive(["execution.failed", "execution.completed"]);
  // To the hour, so that the question stays the same while the page is shown.
  const [createdAfter] = useState(() => new Date(Math.floor((Date.now() - DAY) / HOUR) * HOUR).toISOString());
  const failed = usePage("/api/plans/executions", {
    query: { status: ["failed"], createdAfter, limit: 100 },
  });
  const groups = Map.groupBy(failed.data?.items ?? [], (each) => each.templateId ?? each.planId);
  const worst = [...groups].sort(([, one], [, other]) => other.length - one.length).slice(0, SHOWN);
  const totals = useQuery({
    queryKey: ["home", "failing", createdAfter, worst.map(([id, all]) => [id, all.length])],
    enabled: worst.length > 0,
    queryFn: () =>
      Promise.all(
        worst.map(async ([id, all]): Promise<Failing[]> => {
          const latest = all[0];
          if (!latest) return [];
          const isTemplate = latest.templateId !== undefined;
          const of = isTemplate ? { templateId: id } : { planId: id };
          const { total } = await getPage("/api/plans/executions", {
            query: { ...of, createdAfter, limit: 1 },
          });
          return [{ id, isTemplate, failed: all.length, total, latest }];
        }),
      ).then((found) => found.flat()),
  });
  return {
    failed,
    rows: worst.length === 0 && failed.data ? [] : totals.data,
    error: failed.error ?? totals.error,
  };
}
