/** Filters and selections live in the address, so a reload or a link shows the same. */
import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

/** The parameters of the address. `set` replaces the entry of the history unless it is asked to push one. */
export function useParams(): [
  URLSearchParams,
  (changes: Record<string, string | undefined>, push?: boolean) => void,
] {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const params = useMemo(() => new URLSearchParams(search), [search]);
  const set = useCallback(
    (changes: Record<string, string | undefined>, push = false) => {
      // The address of now: two changes may come before the next render.
      const next = new URLSearchParams(window.location.search);
      for (const [name, value] of Object.entries(changes)) {
        if (value === undefined || value === "") next.delete(name);
        else next.set(name, value);
      }
      const text = next.toString();
      navigate(text ? `${path}?${text}` : path, { replace: !push });
    },
    [path, navigate],
  );
  return [params, set];
}
