/** The filters of a list that are set, each to be taken away, and the saved views of the list. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense, useState } from "react";
import type { DataOf, Schemas } from "../api/client";
import { usePage } from "../api/hooks";
import { useParams } from "../lib/search";
import { visible } from "../lib/visible";
import { useMay } from "../session/session";
import { Button } from "./basics";
import { type Change, listOf, spanWord } from "./filters";
import { Icon } from "./icons";
import { lookOf } from "./status";

export type View = DataOf<"/api/views">[number];
export type ViewPage = Schemas["CreateView"]["page"];

const Views = lazy(() => import("./views"));
const SaveView = lazy(() => import("./save-view"));

const WORDS: Record<string, string> = {
  action: t`Action`,
  actor: t`Who`,
  age: t`Age`,
  batch: t`Batch`,
  ended: t`Ended`,
  error: t`Cause`,
  industry: t`Industry`,
  mine: t`Assigned`,
  model: t`Model`,
  planId: t`Plan`,
  q: t`Words`,
  queue: t`Queue`,
  search: t`Words`,
  since: t`Begun`,
  state: t`State`,
  status: t`Status`,
  step: t`Step`,
  tags: t`Tag`,
  taskId: t`Task`,
  templateId: t`Template`,
  until: t`To day`,
  verdict: t`Decision`,
  visibility: t`Seen by`,
};
/** The filters that are lists with commas between. */
const LISTS = ["status", "tags"];
/** Parameters of an address that are no part of a view. */
const PASSING = ["submit"];

/** The query of an address as a view keeps it: in one order, without what passes. */
export function queryOf(params: URLSearchParams): string {
  const kept = new URLSearchParams([...params].filter(([name]) => !PASSING.includes(name)));
  kept.sort();
  return kept.toString();
}

type Chip = { name: string; value: string; rest: string | undefined };

/** The filters that are set, a chip for each value of a list. */
export function chipsOf(params: URLSearchParams, names: readonly string[]): Chip[] {
  return names.flatMap((name) => {
    const given = params.get(name);
    if (!given) return [];
    if (!LISTS.includes(name)) return [{ name, value: given, rest: undefined }];
    const all = listOf(given);
    return all.map((value) => ({
      name,
      value,
      rest: all.filter((it) => it !== value).join(",") || undefined,
    }));
  });
}

/** The words of a page for a filter of its own: of its name, and of its value. */
type Words = Record<string, { word?: string; of?: (value: string) => string }>;

function shown({ name, value }: Chip): string {
  if (["status", "state", "verdict"].includes(name)) return lookOf(value).word;
  if (name === "since" || name === "ended") return spanWord(value);
  return name === "mine" ? t`to me` : visible(value);
}

/** The change that takes all these filters away. */
export const without = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, undefined]));

/** The line under the filters of a list. It is always there, so that a filter moves nothing. */
export function FilterBar({
  page,
  names,
  set,
  words = {},
}: {
  page: ViewPage;
  names: readonly string[];
  set: Change;
  words?: Words;
}) {
  const [params] = useParams();
  const [open, setOpen] = useState<"views" | "save">();
  const may = useMay()("views: manage own");
  const views = useViews(page, may);
  const here = queryOf(params);
  const current = views.data?.items.find((view) => queryOf(new URLSearchParams(view.query)) === here);
  const chips = chipsOf(params, names);
  const close = () => setOpen(undefined);
  return (
    <div className="filter-bar">
      {may && (
        <Button size="small" aria-haspopup="dialog" onClick={() => setOpen("views")}>
          <span className="cut">{current ? visible(current.name) : t`Views`}</span>
          <Icon name="drop" size={12} />
        </Button>
      )}
      {chips.length > 0 && (
        <ul className="chips" aria-label={t`Filters that are set`}>
          {chips.map((chip) => {
            const { word = WORDS[chip.name] ?? chip.name, of } = words[chip.name] ?? {};
            const text = of ? visible(of(chip.value)) : shown(chip);
            return (
              <li key={`${chip.name} ${chip.value}`}>
                <button type="button" className="chip" onClick={() => set({ [chip.name]: chip.rest })}>
                  <span className="hide">
                    <Trans>Take away the filter</Trans>
                  </span>{" "}
                  <span className="faint">{word}</span> <span className="cut">{text}</span>
                  <Icon name="cross" size={11} />
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {may && here !== "" && !current && (
        <Button size="small" kind="quiet" aria-haspopup="dialog" onClick={() => setOpen("save")}>
          <Trans>Save view…</Trans>
        </Button>
      )}
      {chips.length > 0 && (
        <Button size="small" kind="quiet" icon="cross" onClick={() => set(without(names))}>
          <Trans>Clear</Trans>
        </Button>
      )}
      <Suspense>
        {open === "views" && <Views page={page} here={here} views={views} onClose={close} />}
        {open === "save" && <SaveView page={page} query={here} onClose={close} />}
      </Suspense>
    </div>
  );
}

/** The views of a list: one's own, and the shared ones. No event tells of them. */
function useViews(page: ViewPage, enabled: boolean) {
  const query = { page, limit: 100 };
  return usePage("/api/views", { query }, { enabled, refetchOnWindowFocus: "always" });
}

export type ViewsRead = ReturnType<typeof useViews>;
