/** Reading with a cache. A query's key is `[path, params]`, which is how the live client finds it. */
import {
  type InfiniteData,
  QueryClient,
  type UseQueryOptions,
  useInfiniteQuery,
  useQuery,
} from "@tanstack/react-query";
import { useMemo } from "react";
import {
  ApiError,
  type DataOf,
  type GetPath,
  get,
  getPage,
  type ItemOf,
  type Page,
  type ParamsOf,
} from "./client";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // Events say when something has changed; nothing is asked for again by the clock.
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      retry: (count, error) => count < 2 && error instanceof ApiError && error.retryable,
      retryDelay: (count) => 500 * 2 ** count,
    },
  },
});

type Options<T> = Partial<Omit<UseQueryOptions<T, ApiError>, "queryKey" | "queryFn">>;

/** The data of a path: `useApi("/api/hitl/{taskId}", { path: { taskId } })`. */
export function useApi<P extends GetPath>(path: P, params?: ParamsOf<P>, options?: Options<DataOf<P>>) {
  return useQuery<DataOf<P>, ApiError>({
    queryKey: keyOf(path, params),
    queryFn: ({ signal }) => get(path, params, signal),
    ...options,
  });
}

/** One page of a list, with its total. */
export function usePage<P extends GetPath>(
  path: P,
  params?: ParamsOf<P>,
  options?: Options<Page<ItemOf<P>>>,
) {
  return useQuery<Page<ItemOf<P>>, ApiError>({
    queryKey: [...keyOf(path, params), "page"],
    queryFn: ({ signal }) => getPage(path, params, signal),
    ...options,
  });
}

/** A list of any length, read as it is scrolled: `rows` from the `first` on, `total`, `more()`. */
export function useRows<P extends GetPath>(
  path: P,
  params?: ParamsOf<P>,
  { enabled = true, first = 0 } = {},
) {
  const read = useInfiniteQuery<Page<ItemOf<P>>, ApiError, InfiniteData<Page<ItemOf<P>>>, unknown[], number>({
    queryKey: [...keyOf(path, params), "rows", first],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...(params?.query as object | undefined), limit: 100, offset: pageParam };
      return getPage(path, { ...params, query } as unknown as ParamsOf<P>, signal);
    },
    initialPageParam: first,
    getNextPageParam: (last) => (last.hasMore ? last.offset + last.limit : undefined),
    enabled,
  });
  const rows = useMemo(() => read.data?.pages.flatMap((page) => page.items) ?? [], [read.data]);
  const total = read.data?.pages.at(-1)?.total ?? 0;
  const more = () => {
    if (read.hasNextPage && !read.isFetchingNextPage) void read.fetchNextPage();
  };
  return { ...read, rows, total, more };
}

export function keyOf<P extends GetPath>(path: P, params?: ParamsOf<P>): unknown[] {
  return params ? [path, params] : [path];
}
