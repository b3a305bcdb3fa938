/** Reading again what no event says itself: sums over many items, once in a while after events that change them. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { again } from "./cache";
import { useLive } from "./live";

/** After these events, reads the queries again whose key begins so; at most once in `ms`. */
export function useAgain(events: string[], isOf: (key: readonly unknown[]) => boolean, ms: number) {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef(isOf);
  latest.current = isOf;
  const soon = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      const predicate = ({ queryKey }: { queryKey: readonly unknown[] }) => latest.current(queryKey);
      for (const query of client.getQueryCache().findAll({ predicate })) again(client, query);
    }, ms);
  };
  useLive(events, undefined, soon, soon);
  useEffect(() => () => clearTimeout(timer.current), []);
}
