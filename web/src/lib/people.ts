/** Reviewers by name. Histories and decisions hold identifiers. */
import { t } from "@lingui/core/macro";
import { useCallback } from "react";
import { usePage } from "../api/hooks";
import { useWho } from "../session/session";
import { tail } from "./format";

export function useNames(): (id: string | undefined) => string {
  const who = useWho();
  const { data } = usePage("/api/hitl/reviewers", { query: { limit: 100 } });
  return useCallback(
    (id) => {
      if (!id) return t`nobody`;
      if (id === who.user.id) return t`you`;
      if (id === "system") return t`the server`;
      const known = data?.items.find((user) => user.id === id);
      if (known) return known.name;
      return /^(usr|key)_/.test(id) ? (id.startsWith("key") ? t`key ${tail(id)}` : t`user ${tail(id)}`) : id;
    },
    [who, data],
  );
}
