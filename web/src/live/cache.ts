/**
 * What an event changes in the cache. An event holds the public summary of its item, as a list shows it.
 *
 *     detail   the members of the summary are put into it at once; then it is read again, for its texts
 *     lists    a row that is there gets the members at once; the lists are read again, at most once a second,
 *              and those of which many pages were read more seldom: at most three pages a second
 *
 * A subscription begins after the first read of a page, so `begun` reads both again.
 */
import type { Query, QueryClient } from "@tanstack/react-query";
import type { LiveEvent } from "./socket";

type Kind = { id: string; detail: string[]; lists: string[] };

/** By kind of resource: the member that identifies a row, the details and the lists that show it. */
const KINDS: Record<string, Kind> = {
  task: {
    id: "id",
    detail: ["/api/tasks/{id}"],
    lists: ["/api/tasks", "/api/queues", "/api/workers", "/api/models"],
  },
  execution: { id: "id", detail: ["/api/plans/executions/{id}"], lists: ["/api/plans/executions"] },
  step: {
    id: "",
    detail: ["/api/plans/executions/{id}"],
    lists: ["/api/plans/executions/{id}/steps/{step}/items"],
  },
  hitl: {
    id: "taskId",
    detail: ["/api/hitl/{taskId}", "/api/hitl/{taskId}/history"],
    lists: ["/api/hitl", "/api/hitl/pending", "/api/hitl/stats"],
  },
  worker: { id: "id", detail: [], lists: ["/api/workers", "/api/queues", "/api/models"] },
  queue: { id: "name", detail: [], lists: ["/api/queues"] },
  batch: {
    id: "id",
    detail: ["/api/batches/{id}", "/api/batches/{id}/rows", "/api/batches/{id}/compare/{other}"],
    lists: ["/api/batches"],
  },
  schedule: {
    id: "id",
    detail: ["/api/schedules/{id}", "/api/schedules/{id}/runs"],
    lists: ["/api/schedules"],
  },
  budget: { id: "id", detail: ["/api/budgets/{id}"], lists: ["/api/budgets"] },
  bulk: { id: "id", detail: ["/api/bulk/{id}"], lists: [] },
  webhook: { id: "id", detail: [], lists: ["/api/webhooks/deliveries"] },
};
const EVERY = 1_000;
const PAGES_A_SECOND = 3;

const waiting = new WeakMap<QueryClient, Set<string>>();

export function apply(client: QueryClient, event: LiveEvent) {
  const kind = KINDS[event.resource.kind];
  if (!kind || event.event === "task.delta") return;
  // An event of a step says which execution it belongs to.
  const executionId = event.data.executionId ?? event.data.planExecutionId;
  const ids = new Set([event.resource.id, executionId].filter((id) => typeof id === "string"));
  const isOf = (key: readonly unknown[]) => {
    const params = key[1] as { path?: Record<string, string> } | undefined;
    return Object.values(params?.path ?? {}).some((id) => ids.has(id));
  };
  for (const path of kind.detail) {
    const predicate = ({ queryKey }: { queryKey: readonly unknown[] }) =>
      queryKey[0] === path && isOf(queryKey);
    if (kind.id && path === kind.detail[0]) {
      client.setQueriesData({ predicate }, (known) => patched(known, event.data));
    }
    const read = () => {
      for (const query of client.getQueryCache().findAll({ predicate })) {
        const pages = pagesOf(query);
        if (pages === 1) again(client, query);
        else later(client, query.queryHash, () => again(client, query), EVERY * (pages / PAGES_A_SECOND));
      }
    };
    later(client, `${path} ${event.resource.id}`, read, 100);
  }
  for (const path of kind.lists) {
    if (kind.id) {
      const predicate = ({ queryKey }: { queryKey: readonly unknown[] }) => queryKey[0] === path;
      client.setQueriesData({ predicate }, (known) => withRow(known, kind.id, event));
    }
    for (const query of client.getQueryCache().findAll({ queryKey: [path] })) {
      const wait = EVERY * Math.max(1, pagesOf(query) / PAGES_A_SECOND);
      later(client, query.queryHash, () => again(client, query), wait);
    }
  }
}

/** How many pages a query has read: reading it again reads all of them. */
const pagesOf = ({ state }: Query) =>
  Math.max(1, (state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1);

/** Reads again what events of these names change: some may have happened before they were sent. */
export function begun(client: QueryClient, events: string[]) {
  const kinds = events.map((event) => KINDS[event.split(".")[0] ?? ""]);
  const paths = new Set(kinds.flatMap((kind) => (kind ? [...kind.detail, ...kind.lists] : [])));
  for (const path of paths) {
    for (const query of client.getQueryCache().findAll({ queryKey: [path] })) again(client, query);
  }
}

/** Queries that are read again once the answer that is on its way is there. */
const behind = new WeakSet<Query>();

/**
 * Reads a query again. An answer that is on its way is waited for, and read behind, for it may be older than the
 * event: if each event gave up the read before it, a server that answers slowly would never be shown.
 */
export function again(client: QueryClient, query: Query) {
  const { queryKey, state, promise } = query;
  // A read that begins before the answer comes is behind the event, too.
  const read = () => void client.invalidateQueries({ queryKey, exact: true }, { cancelRefetch: false });
  if (!promise || state.fetchStatus !== "fetching") return read();
  if (behind.has(query)) return;
  behind.add(query);
  const next = () => {
    behind.delete(query);
    read();
  };
  void promise.then(next, next);
}

function patched(known: unknown, data: Record<string, unknown>): unknown {
  return isObject(known) && !Array.isArray(known) ? { ...known, ...data } : known;
}

/** A list with the row of the event as it is now, if it shows that row. */
function withRow(known: unknown, id: string, event: LiveEvent): unknown {
  if (Array.isArray(known)) {
    const index = known.findIndex((row) => isObject(row) && row[id] === event.resource.id);
    return index < 0 ? known : known.with(index, { ...known[index], ...event.data });
  }
  if (!isObject(known)) return known;
  if (Array.isArray(known.items)) {
    const items = withRow(known.items, id, event);
    return items === known.items ? known : { ...known, items };
  }
  if (Array.isArray(known.pages)) {
    const pages = known.pages.map((page) => withRow(page, id, event));
    return pages.every((page, index) => page === (known.pages as unknown[])[index])
      ? known
      : { ...known, pages };
  }
  return known;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** Runs once for all calls of the same name in the time. */
function later(client: QueryClient, name: string, run: () => void, ms: number) {
  const names = waiting.get(client) ?? new Set();
  waiting.set(client, names);
  if (names.has(name)) return;
  names.add(name);
  setTimeout(() => {
    names.delete(name);
    run();
  }, ms);
}
