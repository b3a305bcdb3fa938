/** What stays in the browser: preferences and drafts, and nothing else. */
import { useSyncExternalStore } from "react";

const PREFIX = "callboard.";
const listeners = new Set<() => void>();
const parsed = new Map<string, { text: string | null; value: unknown }>();

function read<T>(name: string, fallback: T): T {
  let text: string | null = null;
  try {
    text = localStorage.getItem(PREFIX + name);
  } catch {
    // Storage may be closed; then preferences last as long as the page.
    return (parsed.get(name)?.value as T) ?? fallback;
  }
  const known = parsed.get(name);
  if (known && known.text === text) return (known.value as T) ?? fallback;
  let value: unknown;
  try {
    value = text === null ? undefined : JSON.parse(text);
  } catch {
    value = undefined;
  }
  parsed.set(name, { text, value });
  return (value as T) ?? fallback;
}

export function write(name: string, value: unknown) {
  const text = value === undefined ? null : JSON.stringify(value);
  parsed.set(name, { text, value });
  try {
    if (text === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, text);
  } catch {
    // As above.
  }
  for (const each of listeners) each();
}

export const preference = read;

/** A preference, shared by all who use it, in other tabs too. */
export function usePreference<T>(name: string, fallback: T): [T, (value: T | undefined) => void] {
  const value = useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      window.addEventListener("storage", changed);
      return () => {
        listeners.delete(changed);
        window.removeEventListener("storage", changed);
      };
    },
    () => read(name, fallback),
  );
  return [value, (next) => write(name, next)];
}
