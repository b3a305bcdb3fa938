/** A state as icon, word and colour, the same on every page. */
import { instant } from "../lib/format";
import { Icon, type IconName } from "./icons";

export type Tone = "good" | "bad" | "warn" | "run" | "mute";
type Look = { tone: Tone; icon: IconName; word: string; spin?: boolean };

const LOOKS: Record<string, Look> = {
  pending: { tone: "mute", icon: "clock", word: "pending" },
  scheduled: { tone: "mute", icon: "clock", word: "scheduled" },
  loading: { tone: "run", icon: "running", word: "loading", spin: true },
  running: { tone: "run", icon: "running", word: "running", spin: true },
  streaming: { tone: "run", icon: "running", word: "streaming", spin: true },
  completed: { tone: "good", icon: "check", word: "completed" },
  approved: { tone: "good", icon: "check", word: "approved" },
  delivered: { tone: "good", icon: "check", word: "delivered" },
  failed: { tone: "bad", icon: "cross", word: "failed" },
  rejected: { tone: "bad", icon: "cross", word: "rejected" },
  dead: { tone: "bad", icon: "cross", word: "dead" },
  lost: { tone: "bad", icon: "cross", word: "lost" },
  revoked: { tone: "mute", icon: "stop", word: "revoked" },
  cancelled: { tone: "mute", icon: "stop", word: "cancelled" },
  skipped: { tone: "mute", icon: "skip", word: "skipped" },
  awaiting_approval: { tone: "warn", icon: "hand", word: "awaiting review" },
  assigned: { tone: "warn", icon: "hand", word: "waiting" },
  escalated: { tone: "warn", icon: "up", word: "escalated" },
  expired: { tone: "bad", icon: "warn", word: "overdue" },
  invalid: { tone: "bad", icon: "warn", word: "invalid" },
  removed: { tone: "mute", icon: "skip", word: "removed" },
  active: { tone: "good", icon: "dot", word: "active" },
  standby: { tone: "mute", icon: "clock", word: "standby" },
  draining: { tone: "warn", icon: "stop", word: "draining" },
  paused: { tone: "warn", icon: "hand", word: "paused" },
  ok: { tone: "good", icon: "check", word: "ok" },
  degraded: { tone: "warn", icon: "warn", word: "degraded" },
  unavailable: { tone: "bad", icon: "cross", word: "unavailable" },
};

export function lookOf(state: string): Look {
  return LOOKS[state] ?? { tone: "mute", icon: "dot", word: state.replaceAll("_", " ") };
}

/** A state of the API: `completed`, `awaiting_approval`, … `word` replaces the word. */
export function Status({ state, word, filled = false }: { state: string; word?: string; filled?: boolean }) {
  const look = lookOf(state);
  return (
    <span className="status" data-tone={look.tone} data-filled={filled} data-state={state}>
      <Icon name={look.icon} spin={look.spin} />
      <span>{word ?? look.word}</span>
    </span>
  );
}

/** A task, or a step: pending with an output that waits for a reviewer is a state of its own. */
export function stateOf(item: { status: string; awaitingApproval?: boolean | number }): string {
  return item.status === "pending" && item.awaitingApproval ? "awaiting_approval" : item.status;
}

/** What a state waits for, in words. */
const WAITS: Record<string, string> = {
  worker: "waits for a worker",
  approval: "waits for a reviewer",
  signal: "waits for a signal",
  budget: "waits for a budget",
  limit: "waits for a limit",
  queue_paused: "its queue is paused",
  backoff: "waits to try again",
  schedule: "waits for its time",
};
export const waitOf = (waitingFor: string) => WAITS[waitingFor] ?? `waits for ${waitingFor}`;

type Item = {
  status: string;
  awaitingApproval?: boolean;
  waitingFor?: string;
  waitingSince?: string;
  createdAt?: string;
  startedAt?: string;
};

/** The state of an item as it is: nothing turns while nothing of it runs, and it says what it waits for. */
export function State({ of }: { of: Item }) {
  const isLive = of.status === "pending" || of.status === "running";
  if (!isLive || !of.waitingFor) return <Status state={stateOf(of)} />;
  const state = of.waitingFor === "approval" ? "awaiting_approval" : "pending";
  const since = of.waitingSince ?? of.createdAt ?? of.startedAt;
  return (
    <span data-tip={since && `since ${instant(since)}`}>
      <Status state={state} word={waitOf(of.waitingFor)} />
    </span>
  );
}

/** A word in a colour that is no state of the API. */
export function Mark({ tone, icon, children }: { tone: Tone; icon: IconName; children: React.ReactNode }) {
  return (
    <span className="status" data-tone={tone}>
      <Icon name={icon} />
      <span>{children}</span>
    </span>
  );
}
