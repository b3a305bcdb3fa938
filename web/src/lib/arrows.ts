/** Links that the arrows move among, beside the Tab key: the field above them is left by the first arrow down. */
import type { KeyboardEvent } from "react";

/** Moves the focus among the links inside of an element, which handles the key. */
export function moveAmongLinks(event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("a[href]")];
  const next = links.indexOf(document.activeElement as HTMLElement) + step;
  event.preventDefault();
  links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
}
