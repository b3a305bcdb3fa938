/** Executions that failed within a day, by the template or plan that they are of, counted by the server. */
import { useQuery } from "@tanstack/react-query";
import { getPage, type ItemOf } from "../../api/client";
import { usePage } from "../../api/hooks";
import { spanOf } from "../../lib/span";
import { useLive } from "../../live/live";

type Execution = ItemOf<"/api/plans/executions">;

/** How many ended within the span, and how. `broken` and `rejected` are all that failed. */
export type Counts = { broken: number; rejected: number; ended: number };
export type Failing = Counts & { id: string; isTemplate: boolean; latest: Execution };

const SHOWN = 5;
const PATH = "/api/plans/executions";
/** The span, as the address of the list has it. */
export const WITHIN = "24h";

async function counted(
  of: { templateId?: string; planId?: string; batch?: "none" },
  endedAfter: string,
  signal: AbortSignal,
): Promise<Counts> {
  const total = async (query: object) =>
    (await getPage(PATH, { query: { ...of, endedAfter, limit: 1, ...query } }, signal)).total;
  const [broken, rejected, ended] = await Promise.all([
    total({ status: ["failed"], exceptError: ["REJECTED"] }),
    total({ status: ["failed"], error: ["REJECTED"] }),
    total({}),
  ]);
  return { broken, rejected, ended };
}

export function useFailing(batch: { batch?: "none" }) {
  useLive(["execution.failed", "execution.completed"]);
  const endedAfter = spanOf(WITHIN).after as string;
  const failed = usePage(PATH, {
    query: { status: ["failed"], endedAfter, orderBy: "completedAt", limit: 100, ...batch },
  });
  const items = failed.data?.items ?? [];
  const groups = Map.groupBy(items, (each) => each.templateId ?? each.planId);
  const worst = [...groups].sort(([, one], [, other]) => other.length - one.length).slice(0, SHOWN);
  const read = useQuery({
    queryKey: [
      "home",
      "failing",
      batch,
      endedAfter,
      failed.data?.total,
      items[0]?.id,
      worst.map(([id]) => id),
    ],
    enabled: failed.data !== undefined,
    queryFn: async ({ signal }) => {
      const rows = worst.map(async ([id, [latest]]): Promise<Failing> => {
        const of = latest as Execution;
        const isTemplate = of.templateId !== undefined;
        const counts = await counted(
          { ...(isTemplate ? { templateId: id } : { planId: id }), ...batch },
          endedAfter,
          signal,
        );
        return { id, isTemplate, latest: of, ...counts };
      });
      const [all, ...found] = await Promise.all([counted(batch, endedAfter, signal), ...rows]);
      return { all, rows: found };
    },
    placeholderData: (before) => before,
  });
  return { failed, found: read.data, error: failed.error ?? read.error };
}
