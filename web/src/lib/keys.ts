/**
 * Keys without a modifier, for the page that is shown.
 *
 * Off while somebody types, while a dialog is open (unless the keys are the dialog's own), and when the user has
 * turned them off or given them other letters (WCAG 2.1.4).
 */
import { useEffect, useRef } from "react";
import { flushSync } from "react-dom";
import { preference } from "./preferences";

export type Key = {
  /** Names the key in the preferences; unique over all pages. */
  id: string;
  key: string;
  label: string;
  run: () => void;
  /** Shown in the help, and does nothing. */
  off?: boolean;
};

type Scope = { title: string; keys: Key[]; inDialog: boolean };

const scopes: Scope[] = [];
const listeners = new Set<() => void>();
export const KEYS_OFF = "keys.off";
export const KEYS = "keys";

/** The name of the key that sends a form with Enter. */
export const COMMAND = /Mac|iPhone|iPad/.test(globalThis.navigator?.userAgent ?? "") ? "⌘" : "Ctrl";

/** The key that runs an action, as the user has set it. */
export function keyOf(id: string, initial: string): string {
  return preference<Record<string, string>>(KEYS, {})[id] ?? initial;
}

/** The keys of the page as it is, for the help. */
export function activeScopes(): readonly Scope[] {
  return scopes;
}

export function onScopes(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** True if what has the focus takes letters itself. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest("[contenteditable=true], [role=textbox], [role=combobox]"))
    return true;
  if (target instanceof HTMLInputElement)
    return !["checkbox", "radio", "button", "submit", "range"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/** Keys that count while the component is mounted. */
export function useKeys(title: string, keys: Key[], options: { inDialog?: boolean } = {}) {
  const inDialog = options.inDialog ?? false;
  const scope = useRef<Scope>({ title, keys, inDialog });
  scope.current.keys = keys;
  scope.current.title = title;
  useEffect(() => {
    const mine = scope.current;
    scopes.push(mine);
    for (const each of listeners) each();
    return () => {
      scopes.splice(scopes.indexOf(mine), 1);
      for (const each of listeners) each();
    };
  }, []);
}

/**
 * The names of a pressed key: what it writes, and the letter that stands there on a Latin keyboard.
 *
 * With caps lock, or with a layout such as Greek or Cyrillic, `a` writes another character.
 */
function namesOf(event: KeyboardEvent): string[] {
  const { key, code, shiftKey } = event;
  if ([...key].length > 1) return [key];
  const isLatin = /\p{Script=Latin}/u.test(key);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is the range of ASCII
  const isForeign = !isLatin && !/^[\x00-\x7f]$/.test(key);
  const letter = isLatin ? key : isForeign ? /^Key([A-Z])$/.exec(code)?.[1] : undefined;
  if (letter === undefined) return [key];
  return [key, shiftKey ? letter.toUpperCase() : letter.toLowerCase()];
}

/** Handles a key; true if it was one of ours. */
export function pressed(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing)
    return false;
  // What has the focus may stand in a shadow root, as an editor does.
  if (isTyping(event.composedPath()[0] ?? event.target)) return false;
  // `?` always works: it is how the keys are turned on again.
  if (preference(KEYS_OFF, false) && event.key !== "?") return false;
  const inDialog = document.querySelector("dialog[open]") !== null;
  const names = namesOf(event);
  for (const scope of [...scopes].reverse()) {
    if (inDialog && !scope.inDialog) continue;
    const found = names
      .map((name) => scope.keys.find((each) => keyOf(each.id, each.key) === name))
      .find((each) => each !== undefined);
    if (!found) continue;
    event.preventDefault();
    if (!found.off && !(event.repeat && found.key !== "j" && found.key !== "k")) {
      // At once: the next key may follow within a millisecond, and belongs into the dialog that this one opens.
      flushSync(found.run);
    }
    return true;
  }
  return false;
}

export function installKeys() {
  document.addEventListener("keydown", pressed);
}
