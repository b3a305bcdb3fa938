/** A state as icon, word and colour, the same on every page. */
import { t } from "@lingui/core/macro";
import { instant } from "../lib/format";
import { Icon, type IconName } from "./icons";

export type Tone = "good" | "bad" | "warn" | "run" | "mute";
type Look = { tone: Tone; icon: IconName; word: string; spin?: boolean };

const LOOKS: Record<string, Look> = {
  pending: { tone: "mute", icon: "clock", word: t`pending` },
  scheduled: { tone: "mute", icon: "clock", word: t`scheduled` },
  loading: { tone: "run", icon: "running", word: t`loading`, spin: true },
  running: { tone: "run", icon: "running", word: t`running`, spin: true },
  streaming: { tone: "run", icon: "running", word: t`streaming`, spin: true },
  completed: { tone: "good", icon: "check", word: t`completed` },
  approved: { tone: "good", icon: "check", word: t`approved` },
  delivered: { tone: "good", icon: "check", word: t`delivered` },
  failed: { tone: "bad", icon: "cross", word: t`failed` },
  rejected: { tone: "bad", icon: "cross", word: t`rejected` },
  dead: { tone: "bad", icon: "cross", word: t`dead` },
  lost: { tone: "bad", icon: "cross", word: t`lost` },
  revoked: { tone: "mute", icon: "stop", word: t`revoked` },
  cancelled: { tone: "mute", icon: "stop", word: t`cancelled` },
  skipped: { tone: "mute", icon: "skip", word: t`skipped` },
  awaiting_approval: { tone: "warn", icon: "hand", word: t`awaiting review` },
  assigned: { tone: "warn", icon: "hand", word: t`waiting` },
  escalated: { tone: "warn", icon: "up", word: t`escalated` },
  expired: { tone: "bad", icon: "warn", word: t`overdue` },
  invalid: { tone: "bad", icon: "warn", word: t`invalid` },
  removed: { tone: "mute", icon: "skip", word: t`removed` },
  active: { tone: "good", icon: "dot", word: t`active` },
  standby: { tone: "mute", icon: "clock", word: t`standby` },
  draining: { tone: "warn", icon: "stop", word: t`draining` },
  paused: { tone: "warn", icon: "hand", word: t`paused` },
  ok: { tone: "good", icon: "check", word: t`ok` },
  degraded: { tone: "warn", icon: "warn", word: t`degraded` },
  unavailable: { tone: "bad", icon: "cross", word: t`unavailable` },
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
  worker: t`waits for a worker`,
  approval: t`waits for a reviewer`,
  signal: t`waits for a signal`,
  budget: t`waits for a budget`,
  limit: t`waits for a limit`,
  paused: t`the server is paused`,
  queue_paused: t`its queue is paused`,
  backoff: t`waits to try again`,
  schedule: t`waits for its time`,
};

/** The same as what follows "waits for". */
const OBSTACLES: Record<string, string> = {
  worker: t`a worker that has room`,
  approval: t`a reviewer`,
  schedule: t`its time to start`,
  backoff: t`its next attempt`,
  limit: t`a limit of its key`,
  budget: t`the budget`,
  paused: t`the server, which is paused`,
  queue_paused: t`its queue, which is paused`,
};
export const obstacleOf = (waitingFor: string) => OBSTACLES[waitingFor] ?? waitingFor;
export const waitOf = (waitingFor: string) => WAITS[waitingFor] ?? t`waits for ${waitingFor}`;

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
    <span data-tip={since && t`since ${instant(since)}`}>
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
