/** One tab stop for many links: the arrows lead from one to the next, Home and End to the first and the last. */
import { type FocusEvent, type KeyboardEvent, useState } from "react";

/** The link that a key leads to, of `count` in lines of `columns`; undefined for any other key. */
export function nextOf(key: string, at: number, count: number, columns: number): number | undefined {
  const to = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: 0,
    End: count - 1,
  }[key];
  return to === undefined || to < 0 || to >= count ? undefined : to;
}

/** The props of the element around `count` links, and of each; `first` is the stop until one is focused. */
export function useRoving(count: number, first: number) {
  const [focused, setFocused] = useState<number>();
  const stop = Math.min(focused ?? first, count - 1);
  const linksIn = (around: HTMLElement) => [...around.querySelectorAll<HTMLElement>("[data-roving]")];
  const around = {
    onFocus: (event: FocusEvent<HTMLElement>) => {
      const at = linksIn(event.currentTarget).indexOf(event.target);
      if (at >= 0) setFocused(at);
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      const all = linksIn(event.currentTarget);
      const [top, ...tops] = all.map((it) => it.getBoundingClientRect().top);
      const line = tops.findIndex((it) => it !== top) + 1;
      const at = all.indexOf(event.target as HTMLElement);
      const to = nextOf(event.key, at, all.length, line || all.length);
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      all[to]?.focus();
    },
  };
  const of = (index: number) => ({ "data-roving": true, tabIndex: index === stop ? 0 : -1 });
  return { around, of };
}
