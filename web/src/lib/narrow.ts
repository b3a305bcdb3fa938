/** True where two things have no room beside each other: on a phone, or at 200 %. It follows the window. */
import { useSyncExternalStore } from "react";

const NARROW = "(max-width: 860px)";

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => window.matchMedia(NARROW).matches);
}

function subscribe(changed: () => void) {
  const query = window.matchMedia(NARROW);
  query.addEventListener("change", changed);
  return () => query.removeEventListener("change", changed);
}
