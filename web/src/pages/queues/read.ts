/** Every queue, page by page. */
import { getPage, type ItemOf } from "../../api/client";

export type Queue = ItemOf<"/api/queues">;

export async function readQueues(signal?: AbortSignal): Promise<Queue[]> {
  const items: Queue[] = [];
  for (let hasMore = true; hasMore; ) {
    const page = await getPage("/api/queues", { query: { limit: 100, offset: items.length } }, signal);
    items.push(...page.items);
    hasMore = page.hasMore && page.items.length > 0;
  }
  return items;
}
