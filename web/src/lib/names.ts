/** The names of templates and plans, so that one thing has one name on every page. */
import { t } from "@lingui/core/macro";
import { useCallback, useRef } from "react";
import { usePage } from "../api/hooks";
import { useMay } from "../session/session";

type Named = { templateId?: string; planId?: string };

/** The name of a template, or of a plan that is of none; its id to one who may not read them, or beyond one page. */
export function useNameOf(): (of: Named) => string {
  const may = useMay();
  const of = { query: { limit: 100 } };
  const templates = usePage("/api/templates", of, { enabled: may("templates: read") });
  const plans = usePage("/api/plans", of, { enabled: may("plans: read") });
  // One that was made since then is asked for once.
  const asked = useRef(new Set<string>());
  return useCallback(
    ({ templateId, planId }) => {
      const [list, id] = templateId ? [templates, templateId] : [plans, planId];
      const known = list.data?.items.find((each) => each.id === id);
      if (list.data && id && !known && !asked.current.has(id)) {
        asked.current.add(id);
        queueMicrotask(() => void list.refetch());
      }
      return known?.name ?? templateId ?? t`plan`;
    },
    [templates, plans],
  );
}
