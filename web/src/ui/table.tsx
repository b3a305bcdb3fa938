/**
 * A table of any length. Only the rows in view are in the document; the table says how many there are.
 *
 *     <Table label="Tasks" rows={rows} total={total} more={more} keyOf={(task) => task.id}
 *            href={(task) => `/tasks/${task.id}`} columns={[…]} />
 *
 * On a phone a row becomes a card: the first column is its title, columns with `phone: false` are left out.
 */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useStable } from "./stable";
import "./table.css";

export type Column<T> = {
  id: string;
  header: string;
  /** A track of a CSS grid, such as `minmax(160px, 2fr)`. One such as `120px` grows with what is in view. */
  width: string;
  cell: (row: T) => ReactNode;
  /** Numbers stand at the end of their column. */
  number?: boolean;
  phone?: boolean;
  /** On a phone, its header stands before what it shows; before a number it always does. */
  named?: boolean;
};

export type Selection = { chosen: ReadonlySet<string>; set: (chosen: Set<string>) => void };

export type TableProps<T> = {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  total?: number;
  /** Reads further rows. */
  more?: () => void;
  href?: (row: T) => string;
  /** The row that is open beside the table. */
  current?: string;
  selection?: Selection;
  nameOf?: (row: T) => string;
  /** The rows never change their places, so none need be held where they are. */
  fixed?: boolean;
  /** Told the first and the last row that are drawn, for rows that are read as they come into view. */
  onRange?: (first: number, last: number) => void;
};

const ROW = 34;
const NONE: never[] = [];

export function Table<T>(props: TableProps<T>) {
  const { label, columns, keyOf, total, more, href, current, selection, nameOf, fixed, onRange } = props;
  const stable = useStable<T>(fixed ? NONE : props.rows, keyOf);
  const { gone, waiting, take, hold } = stable;
  const rows = fixed ? props.rows : stable.rows;
  const scroller = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    getItemKey: (index) => keyOf(rows[index] as T),
    measureElement: (element) => element.getBoundingClientRect().height,
  });
  const items = virtual.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && rows.length > 0 && lastIndex >= rows.length - 20) more();
  }, [lastIndex, rows.length, more]);

  const firstIndex = items[0]?.index ?? 0;
  useEffect(() => onRange?.(firstIndex, lastIndex), [firstIndex, lastIndex, onRange]);

  const isStop = useStop(scroller);
  const widths = useWidths(scroller, columns);
  const tracks = `${selection ? "32px " : ""}${widths.join(" ")}`;
  const least = [...tracks.matchAll(/(\d+)px/g)].reduce((sum, [, pixels]) => sum + Number(pixels), 16);
  const style = { "--tracks": tracks, "--least": `${least}px` } as React.CSSProperties;
  const all =
    rows.length > 0 && selection !== undefined && rows.every((row) => selection.chosen.has(keyOf(row)));

  const toggle = (id: string) => {
    if (!selection) return;
    const next = new Set(selection.chosen);
    if (!next.delete(id)) next.add(id);
    selection.set(next);
  };

  return (
    <div className="table" style={style} {...hold}>
      {waiting > 0 && (
        <button type="button" className="button table-new" data-size="small" onClick={take}>
          <Trans>{waiting} new</Trans>
        </button>
      )}
      <div
        className="table-scroll"
        ref={scroller}
        {...(isStop && { tabIndex: 0, role: "group", "aria-label": label })}
      >
        <div
          role="table"
          aria-label={label}
          aria-rowcount={(total ?? rows.length) + 1}
          className="table-rows"
        >
          <div role="rowgroup" className="table-head">
            <div role="row" aria-rowindex={1} className="table-row">
              {selection && (
                <div role="columnheader" className="table-cell">
                  <input
                    type="checkbox"
                    aria-label={t`Select all ${rows.length} rows that are loaded`}
                    checked={all}
                    onChange={() => selection.set(all ? new Set() : new Set(rows.map(keyOf)))}
                  />
                </div>
              )}
              {columns.map((column) => (
                <div
                  key={column.id}
                  role="columnheader"
                  className="table-cell"
                  data-number={column.number}
                  data-column={column.id}
                >
                  {column.header}
                </div>
              ))}
            </div>
          </div>
          <div role="rowgroup" className="table-body" style={{ height: virtual.getTotalSize() }}>
            {items.map((item) => {
              const row = rows[item.index] as T;
              const id = keyOf(row);
              const to = href?.(row);
              return (
                // The link in the first cell is how the keyboard opens the row.
                <div
                  key={id}
                  role="row"
                  aria-rowindex={item.index + 2}
                  aria-current={current === id || undefined}
                  data-index={item.index}
                  data-key={id}
                  data-gone={gone.has(id) || undefined}
                  data-link={to !== undefined || undefined}
                  ref={virtual.measureElement}
                  className="table-row"
                  style={{ transform: `translateY(${item.start}px)` }}
                  onClick={(event) => {
                    if (!to || (event.target as Element).closest("a, button, input, label")) return;
                    if (window.getSelection()?.toString()) return;
                    navigate(to);
                  }}
                >
                  {selection && (
                    <div role="cell" className="table-cell">
                      <input
                        type="checkbox"
                        aria-label={t`Select ${nameOf?.(row) ?? id}`}
                        checked={selection.chosen.has(id)}
                        onChange={() => toggle(id)}
                      />
                    </div>
                  )}
                  {columns.map((column) => (
                    <div
                      key={column.id}
                      role="cell"
                      className="table-cell"
                      data-number={column.number}
                      data-column={column.id}
                      data-phone={column.phone === false ? "no" : undefined}
                      data-label={column.number || column.named ? column.header : undefined}
                    >
                      {column.cell(row)}
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

/** True if nothing in it can have the focus, so that the keyboard can scroll it only if it has the focus itself. */
function useStop(scroller: RefObject<HTMLElement | null>): boolean {
  const [isStop, setStop] = useState(false);
  useLayoutEffect(() => setStop(!scroller.current?.querySelector("a[href], button, input, select")));
  return isStop;
}

/** The tracks: those of a fixed width are as wide as what is in view needs, and never narrower again. */
function useWidths<T>(scroller: RefObject<HTMLElement | null>, columns: Column<T>[]): string[] {
  const [needed, setNeeded] = useState<Record<string, number>>({});
  const isFixed = ({ width }: Column<T>) => /^\d+px$/.test(width);
  useLayoutEffect(() => {
    // Cards have no columns.
    if (!scroller.current || window.matchMedia("(max-width: 620px)").matches) return;
    const more: Record<string, number> = {};
    for (const { id } of columns.filter(isFixed)) {
      for (const cell of scroller.current.querySelectorAll<HTMLElement>(`[data-column="${id}"]`)) {
        const lacks = Math.max(...[cell, ...cell.querySelectorAll(".cut")].map(lackOf));
        const width = Math.min(WIDEST, cell.offsetWidth + lacks);
        if (lacks > 0 && width > (more[id] ?? needed[id] ?? 0)) more[id] = width;
      }
    }
    if (Object.keys(more).length > 0) setNeeded({ ...needed, ...more });
  });
  return columns.map((column) =>
    isFixed(column)
      ? `${Math.max(Number.parseInt(column.width, 10), needed[column.id] ?? 0)}px`
      : column.width,
  );
}

const WIDEST = 280;
const lackOf = ({ scrollWidth, clientWidth }: Element) => scrollWidth - clientWidth;
