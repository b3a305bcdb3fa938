/** The items of a step over a list: a cell for each with its state, which leads to its task. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { memo, useCallback, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import type { ItemOf, ParamsOf } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { useRoving } from "../../lib/roving";
import { visible } from "../../lib/visible";
import { Icon } from "../../ui/icons";
import { lookOf, Status, stateOf } from "../../ui/status";
import { type Items as Counts, itemStates } from "./steps";
import "../../ui/filters.css";
import "./items.css";

const PATH = "/api/plans/executions/{id}/steps/{step}/items" as const;
type Item = ItemOf<typeof PATH>;
type States = NonNullable<NonNullable<ParamsOf<typeof PATH>["query"]>["status"]>;

export function Items({ executionId, step, counts }: { executionId: string; step: string; counts: Counts }) {
  const [chosen, choose] = useState<string>();
  const path = { id: executionId, step };
  // Without a choice, the words are those that say why an item failed.
  const said = chosen ?? (counts.failed ? "failed" : undefined);
  return (
    <section className="executions-items">
      <h3>
        <Trans>Items</Trans>
      </h3>
      <fieldset className="filter-states">
        <legend className="hide">
          <Trans>Items by state</Trans>
        </legend>
        {itemStates(counts).map(([state, number]) => (
          <button
            key={state}
            type="button"
            className="filter-state"
            aria-pressed={state === chosen}
            onClick={() => choose(state === chosen ? undefined : state)}
          >
            <Status state={state} word={`${count(number)} ${lookOf(state).word}`} />
          </button>
        ))}
      </fieldset>
      <Matrix path={path} status={chosen} />
      {said && <Words path={path} status={said} />}
    </section>
  );
}

type Of = { path: { id: string; step: string }; status: string | undefined };

/** Up to a thousand cells, read a hundred at a time as they are scrolled to. */
function Matrix({ path, status }: Of) {
  const query = status ? { status: [status] as States } : {};
  const { rows, total, more } = useRows(PATH, { path, query });
  const list = useRef<HTMLUListElement>(null);
  const begun = rows.filter(({ taskId }) => taskId);
  const roving = useRoving(begun.length, 0);
  const latest = useRef(more);
  latest.current = more;
  const read = useCallback(() => {
    if (!list.current) return;
    const { scrollTop, clientHeight, children } = list.current;
    const unread = list.current.querySelector<HTMLElement>("[data-unread]");
    const first = children[0] as HTMLElement | undefined;
    if (unread && first && unread.offsetTop - first.offsetTop < scrollTop + 2 * clientHeight)
      latest.current();
  }, []);
  // What was read may not reach as far as it is scrolled.
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked again after each page
  useEffect(read, [read, rows.length]);
  let link = 0;
  return (
    <ul
      ref={list}
      className="executions-matrix"
      aria-label={t`Items of ${path.step}`}
      onScroll={read}
      {...roving.around}
    >
      {rows.map((item) => (
        <li key={item.item}>
          <Cell
            number={item.item}
            state={stateOf(item)}
            taskId={item.taskId}
            error={item.error?.message}
            tabIndex={item.taskId ? roving.of(link++).tabIndex : -1}
          />
        </li>
      ))}
      {Array.from({ length: Math.max(0, total - rows.length) }, (_, index) => (
        <li key={rows.length + index} data-unread aria-hidden="true" />
      ))}
    </ul>
  );
}

const Cell = memo(function Cell({
  number,
  state,
  taskId,
  error,
  tabIndex,
}: {
  number: number;
  state: string;
  taskId: string | undefined;
  error: string | undefined;
  tabIndex: number;
}) {
  const { tone, icon, word } = lookOf(state);
  const words = t`item ${number}: ${word}`;
  const shown = (
    <>
      <Icon name={icon} size={14} />
      <span className="hide">{words}</span>
    </>
  );
  const tip = error ? `${words}\n${visible(error)}` : words;
  if (!taskId)
    return (
      <span data-tone={tone} data-tip={tip}>
        {shown}
      </span>
    );
  return (
    <Link href={`/tasks/${taskId}`} data-tone={tone} data-tip={tip} data-roving tabIndex={tabIndex}>
      {shown}
    </Link>
  );
});

/** The first of them, with the words of their errors. */
function Words({ path, status }: { path: Of["path"]; status: string }) {
  const { data } = usePage(PATH, { path, query: { status: [status] as States, limit: 20 } });
  const { items, total } = data ?? { items: [] as Item[], total: 0 };
  return (
    <ul className="executions-around" aria-label={t`The first items that are ${lookOf(status).word}`}>
      {items.map((item) => (
        <li key={item.item}>
          <span className="cut">
            {item.taskId ? (
              <Link href={`/tasks/${item.taskId}`}>
                <Trans>item {item.item}</Trans>
              </Link>
            ) : (
              t`item ${item.item}`
            )}
            {item.error && <span className="soft"> {visible(item.error.message)}</span>}
          </span>
          <Status state={stateOf(item)} />
        </li>
      ))}
      {total > items.length && (
        <li className="soft">
          <Trans>and {count(total - items.length)} more</Trans>
        </li>
      )}
    </ul>
  );
}
