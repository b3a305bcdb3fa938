/**
 * Rows that stay where they are while somebody points at them or has the focus among them.
 *
 * Rows that are shown change in place; one that has left the list stays until it is let go; new ones wait
 * and are counted. A user of it shows `waiting` with a button that calls `take`.
 */
import { useCallback, useMemo, useRef, useState } from "react";

export type Stable<T> = {
  rows: T[];
  /** The keys of rows that are shown but are not in the list any more. */
  gone: ReadonlySet<string>;
  /** How many rows wait. */
  waiting: number;
  take: () => void;
  /** To be spread on the element around the rows. */
  hold: {
    onPointerEnter: (event: React.PointerEvent) => void;
    onPointerLeave: () => void;
    onFocus: () => void;
    onBlur: (event: React.FocusEvent) => void;
  };
};

/** The order that is shown, given the order before, the rows that there are, and whether it is held. */
export function arrange<T>(
  before: readonly string[],
  rows: readonly T[],
  keyOf: (row: T) => string,
  held: boolean,
) {
  const now = rows.map(keyOf);
  if (!held || before.length === 0) return { order: now, waiting: 0 };
  const shown = new Set(before);
  const lastShown = now.findLastIndex((key) => shown.has(key));
  // What comes after all that is shown, as when the next page was read, moves nothing.
  const after = lastShown < 0 ? [] : now.slice(lastShown + 1);
  const waiting = now.filter((key, index) => index <= lastShown && !shown.has(key)).length;
  return { order: [...before, ...after], waiting };
}

/** Rows of another question, named by `asked`, replace those of the one before at once. */
export function useStable<T>(rows: T[], keyOf: (row: T) => string, asked = ""): Stable<T> {
  const [pointed, setPointed] = useState(false);
  const [focused, setFocused] = useState(false);
  const [, setTaken] = useState(0);
  const order = useRef<string[]>([]);
  const known = useRef(new Map<string, T>());
  const key = useRef(keyOf);
  key.current = keyOf;
  const answered = useRef(asked);
  const isHeld = pointed || focused;

  const arranged = useMemo(() => {
    if (answered.current !== asked) order.current = [];
    answered.current = asked;
    const present = new Map(rows.map((row) => [key.current(row), row]));
    const { order: next, waiting } = arrange(order.current, rows, key.current, isHeld);
    const shown = next.flatMap((id) => {
      const row = present.get(id) ?? known.current.get(id);
      return row === undefined ? [] : [row];
    });
    order.current = shown.map(key.current);
    known.current = new Map(shown.map((row) => [key.current(row), row]));
    const gone = new Set(order.current.filter((id) => !present.has(id)));
    return { rows: shown, waiting, gone };
  }, [rows, isHeld, asked]);

  const take = useCallback(() => {
    order.current = [];
    setPointed(false);
    setFocused(false);
    setTaken((count) => count + 1);
  }, []);
  const hold = useMemo(
    () => ({
      onPointerEnter: (event: React.PointerEvent) => setPointed(event.pointerType !== "touch"),
      onPointerLeave: () => setPointed(false),
      onFocus: () => setFocused(true),
      onBlur: (event: React.FocusEvent) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setFocused(false);
      },
    }),
    [],
  );
  return { ...arranged, take, hold };
}
