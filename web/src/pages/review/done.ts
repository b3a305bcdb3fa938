/** How many outputs the user has decided in this browser today. */
import { preference, usePreference, write } from "../../lib/preferences";
import { own } from "../../session/session";

type Day = { day: string; count: number };
const NONE: Day = { day: "", count: 0 };
const today = () => new Date().toDateString();
const name = () => own("done");

export function countDone(more: number) {
  const known = preference(name(), NONE);
  const before = known.day === today() ? known.count : 0;
  if (more > 0) write(name(), { day: today(), count: before + more });
}

export function useDoneToday(): number {
  const [known] = usePreference(name(), NONE);
  return known.day === today() ? known.count : 0;
}
