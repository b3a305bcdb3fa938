/** What is entered of a schedule, and the requests that are made of it. */
import type { Schemas } from "../../api/client";
import { isSame } from "../../lib/json";
import type { Schedule, Target } from "./read";

export type Draft = {
  name: string;
  kind: "cron" | "at";
  cron: string;
  timezone: string;
  /** As a control of the browser has it: the wall clock of the reader. */
  at: string;
  overlap: string;
  catchUp: string;
  /** Seconds. */
  jitter: string;
  enabled: boolean;
  target: Target;
};

export const NEW: Draft = {
  name: "",
  kind: "cron",
  cron: "0 3 * * *",
  timezone: "UTC",
  at: "",
  overlap: "skip",
  catchUp: "last",
  jitter: "0",
  enabled: true,
  target: { templateId: "" },
};

export function draftOf(of: Schedule): Draft {
  return {
    name: of.name,
    kind: of.cron ? "cron" : "at",
    cron: of.cron ?? NEW.cron,
    timezone: of.timezone ?? "UTC",
    at: of.at ? localOf(Date.parse(of.at)) : "",
    overlap: of.overlap,
    catchUp: of.catchUp,
    jitter: String(of.jitterMs / 1000),
    enabled: of.enabled,
    target: (of.target ?? {}) as Target,
  };
}

/** The wall clock of the reader, to the minute, as a control of the browser has it. */
function localOf(at: number): string {
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

export function bodyOf(draft: Draft): Schemas["CreateSchedule"] {
  const { name, overlap, catchUp, enabled, target } = draft;
  const time =
    draft.kind === "cron"
      ? { cron: draft.cron.trim(), timezone: draft.timezone.trim() }
      : { at: isoOf(draft.at) };
  return {
    name: name.trim(),
    ...time,
    overlap: overlap as Schemas["CreateSchedule"]["overlap"],
    catchUp: catchUp as Schemas["CreateSchedule"]["catchUp"],
    jitterMs: Math.round(Number(draft.jitter) * 1000),
    enabled,
    target: tidy(target),
  };
}

/** What differs. An unchanged target is left out: whoever gives it owns the work. */
export function changesOf(of: Schedule, draft: Draft): Schemas["ChangeSchedule"] {
  const [before, after] = [bodyOf(draftOf(of)), bodyOf(draft)];
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => !isSame(value, before[name as keyof typeof before])),
  );
}

const isoOf = (local: string) => (local === "" ? "" : new Date(local).toISOString());

/** Members that were emptied are left out. */
const tidy = (target: Target) => JSON.parse(JSON.stringify(target)) as Target;
