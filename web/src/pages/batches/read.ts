/**
 * The rows of a batch as they come into view.
 *
 *     all rows, in their order   the table is as long as the batch, and reads the pages that are looked at
 *     some, or another order     the pages one after the other, as the table is scrolled
 *
 * In the order of the rows a cursor is the number of a row, so any place can be read without those before it.
 */
import { type InfiniteData, useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { ApiError, get, type ParamsOf, type Schemas } from "../../api/client";
import { keyOf } from "../../api/hooks";

export type Batch = Schemas["TemplateBatch"];
export type BatchRow = Schemas["BatchRow"];
export type RowQuery = NonNullable<ParamsOf<typeof ROWS>["query"]>;
type RowPage = Schemas["BatchRows"];

/** A place in the table; the row is there once it is read. */
export type Place = { number: number; row?: BatchRow };

export type Read = {
  places: Place[];
  /** The rows that were read, for what the columns are made of. */
  known: BatchRow[];
  /** Undefined while the number is not known. */
  total?: number;
  error: Error | null;
  refetch: () => void;
  isPending: boolean;
  more?: () => void;
  onRange?: (first: number, last: number) => void;
};

const ROWS = "/api/batches/{id}/rows" as const;
const PAGE = 100;
/** The server reads a large batch once for another order: it is asked again for so long. */
const TRIES = 60;

/** All rows of a batch of so many. */
export function useAllRows(id: string, length: number, enabled: boolean): Read {
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const pages = Math.ceil(length / PAGE);
  const [first, last] = range.map((row) => Math.min(Math.max(0, pages - 1), Math.floor(row / PAGE))) as [
    number,
    number,
  ];
  const wanted = enabled && length > 0 ? Array.from({ length: last - first + 1 }, (_, at) => first + at) : [];
  const reads = useQueries({
    queries: wanted.map((page) => {
      const params = { path: { id }, query: { limit: PAGE, ...(page > 0 && { cursor: page * PAGE }) } };
      return {
        queryKey: keyOf(ROWS, params),
        queryFn: ({ signal }: { signal: AbortSignal }) => get(ROWS, params, signal),
      };
    }),
  });
  // Places of rows that are not read are the same objects at every change.
  const empty = useMemo(
    () => Array.from({ length: enabled ? length : 0 }, (_, at): Place => ({ number: at + 1 })),
    [length, enabled],
  );
  const known = reads.flatMap(({ data }) => data?.rows ?? []);
  const places = empty.length > 0 ? empty.slice() : empty;
  for (const row of known) if (row.row <= places.length) places[row.row - 1] = { number: row.row, row };
  const failed = reads.find(({ error, data }) => error && !data);
  return {
    places,
    known,
    total: length,
    error: (failed?.error as Error | undefined) ?? null,
    refetch: () => void failed?.refetch(),
    isPending: reads.length > 0 && reads.every(({ isPending }) => isPending) && first === 0,
    onRange: (from, to) => {
      if (from !== range[0] || to !== range[1]) setRange([from, to]);
    },
  };
}

/** The rows that a filter matches, or in another order. */
export function useSomeRows(id: string, query: RowQuery, enabled: boolean): Read {
  const params = { path: { id }, query: { ...query, limit: PAGE } };
  const read = useInfiniteQuery<RowPage, ApiError, InfiniteData<RowPage>, unknown[], number | undefined>({
    queryKey: [...keyOf(ROWS, params), "cursors"],
    queryFn: ({ pageParam, signal }) => {
      const at = { ...params, query: { ...params.query, ...(pageParam && { cursor: pageParam }) } };
      return get(ROWS, at, signal);
    },
    initialPageParam: undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor,
    enabled,
    retry: (tries, error) =>
      error instanceof ApiError && error.retryable && tries < (error.status === 503 ? TRIES : 2),
    retryDelay: 1_000,
  });
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage } = read;
  const known = useMemo(() => data?.pages.flatMap(({ rows }) => rows) ?? [], [data]);
  const places = useMemo(() => known.map((row): Place => ({ number: row.row, row })), [known]);
  const more = () => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  };
  // A page may be empty, and have a next one.
  const isEmpty = known.length === 0 && hasNextPage && !isFetchingNextPage;
  useEffect(() => {
    if (isEmpty) void fetchNextPage();
  }, [isEmpty, fetchNextPage]);
  return {
    places,
    known,
    total: hasNextPage ? undefined : known.length,
    error: data ? null : read.error,
    refetch: () => void read.refetch(),
    isPending: enabled && (data === undefined || (known.length === 0 && hasNextPage)),
    more,
  };
}
