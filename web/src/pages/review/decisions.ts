/**
 * Decisions between the key and the server. Each waits five seconds, in which it can be undone, and is then sent.
 * A page that is left sends what waits at once.
 */
import { useSyncExternalStore } from "react";
import { ApiError, type Approval, api, unwrap } from "../../api/client";
import { queries } from "../../api/hooks";
import { beforeEnd } from "../../session/session";
import { toastError } from "../../ui/toast";
import { countDone } from "./done";
import { forgetDraft } from "./drafts";
import { forgetRefusal, refuse } from "./refusals";

export type Choice =
  | { kind: "approve"; comment?: string; modifiedOutput?: string; bulk?: number }
  | { kind: "reject"; reason: string; retry: boolean; retryPrompt?: string };

export type Waiting = {
  id: number;
  items: Approval[];
  choice: Choice;
  /** When it is sent, in milliseconds since 1970. */
  sendsAt: number;
  state: "waiting" | "sending";
};

/** What became of a decision that was sent. */
export type Outcome = { item: Approval; choice: Choice; error?: ApiError };

export const UNDO_MS = 5_000;
const AT_ONCE = 6;

let waiting: Waiting[] = [];
let last = 0;
const listeners = new Set<() => void>();
const outcomes = new Set<(outcomes: Outcome[], waiting: Waiting) => void>();
const timers = new Map<number, ReturnType<typeof setTimeout>>();
/** Of each decision that is being sent, the items without an answer. */
const unanswered = new Map<number, Set<Approval>>();
/** Items that were decided here, until the lists know it. */
let decided: ReadonlySet<string> = new Set();

function change(next: Waiting[]) {
  waiting = next;
  for (const each of listeners) each();
}

/** Decides, in five seconds. */
export function decide(items: Approval[], choice: Choice): Waiting {
  for (const { taskId } of items) forgetRefusal(taskId);
  const made: Waiting = { id: ++last, items, choice, sendsAt: Date.now() + UNDO_MS, state: "waiting" };
  change([...waiting, made]);
  timers.set(
    made.id,
    setTimeout(() => void send(made), UNDO_MS),
  );
  return made;
}

/** Takes back the latest decision that waits, or the given one; returns it. */
export function undo(id?: number): Waiting | undefined {
  const taken = waiting.findLast((each) => each.state === "waiting" && (id === undefined || each.id === id));
  if (!taken) return undefined;
  clearTimeout(timers.get(taken.id));
  timers.delete(taken.id);
  change(waiting.filter((each) => each !== taken));
  return taken;
}

/** The decisions that can be taken back. */
export const undoable = () => waiting.filter(({ state }) => state === "waiting");

/** Calls `listener` with what became of each decision. */
export function onOutcome(listener: (outcomes: Outcome[], waiting: Waiting) => void): () => void {
  outcomes.add(listener);
  return () => outcomes.delete(listener);
}

async function send(made: Waiting) {
  timers.delete(made.id);
  change(waiting.map((each) => (each.id === made.id ? { ...each, state: "sending" as const } : each)));
  const results: Outcome[] = [];
  const todo = [...made.items];
  const open = new Set(made.items);
  unanswered.set(made.id, open);
  const lane = async () => {
    for (let item = todo.shift(); item; item = todo.shift()) {
      results.push(await sent(item, made.choice));
      open.delete(item);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  unanswered.delete(made.id);
  const done = results
    .filter((each) => !each.error || each.error.status === 409)
    .map((each) => each.item.taskId);
  for (const id of done) forgetDraft(id);
  countDone(results.filter((each) => !each.error).length);
  for (const { item, choice, error } of results) {
    if (error && error.status !== 409) refuse(item.taskId, choice, error);
  }
  decided = new Set([...decided, ...done].slice(-500));
  change(waiting.filter((each) => each.id !== made.id));
  if (outcomes.size === 0) {
    // The page that tells it in full is not open.
    for (const { item, error } of results.filter((each) => each.error).slice(0, 3)) {
      toastError(error, `${item.stepId ?? "The output"} was not decided`);
    }
  }
  for (const each of outcomes) each(results, made);
  void queries.invalidateQueries({ queryKey: ["/api/hitl/pending"] });
  for (const taskId of done) {
    void queries.invalidateQueries({ queryKey: ["/api/hitl/{taskId}", { path: { taskId } }] });
    void queries.invalidateQueries({ queryKey: ["/api/hitl/{taskId}/history", { path: { taskId } }] });
  }
}

async function sent(item: Approval, choice: Choice): Promise<Outcome> {
  try {
    await unwrap(request(item, choice));
    return { item, choice };
  } catch (error) {
    const failure = error instanceof ApiError ? error : new ApiError(0, "UNKNOWN", String(error));
    return { item, choice, error: failure };
  }
}

type Sent = Promise<{ data?: unknown; error?: unknown; response: Response }>;

function request({ taskId }: Approval, choice: Choice, keepalive = false): Sent {
  const params = { path: { taskId } };
  const { kind, ...body } = choice;
  return kind === "approve"
    ? api.POST("/api/hitl/{taskId}/approve", { params, body, keepalive })
    : api.POST("/api/hitl/{taskId}/reject", { params, body: body as { reason: string }, keepalive });
}

/** Sends what waits, at once, and waits for what is being sent: the session ends. */
async function sendAll() {
  for (const made of waiting.filter((each) => each.state === "waiting")) {
    clearTimeout(timers.get(made.id));
    void send(made);
  }
  while (waiting.length > 0) {
    await new Promise<void>((changed) => {
      const once = () => {
        listeners.delete(once);
        changed();
      };
      listeners.add(once);
    });
  }
}
beforeEnd(sendAll);

/** Browsers send no more than that after a page has been left. */
const KEPT_ALIVE = 60_000;

/** Asks before what waits would be lost with the page. */
function ask(event: BeforeUnloadEvent) {
  const bodies = waiting.flatMap((made) =>
    [...(unanswered.get(made.id) ?? made.items)].map(() => JSON.stringify(made.choice)),
  );
  const bytes = bodies.reduce((sum, body) => sum + new TextEncoder().encode(body).length, 0);
  if (bytes > KEPT_ALIVE) event.preventDefault();
}

/** The page is left: there is no more time to undo. */
function flush() {
  for (const made of waiting) {
    clearTimeout(timers.get(made.id));
    // A request that is on its way ends with the page; a second one for the same item changes nothing.
    for (const item of unanswered.get(made.id) ?? made.items) void request(item, made.choice, true);
  }
  change([]);
}
if (typeof window !== "undefined") {
  window.addEventListener("beforeunload", ask);
  window.addEventListener("pagehide", flush);
}

/** The decisions that wait, and the items that need nobody any more. */
export function useDecisions(): { waiting: Waiting[]; isDecided: (taskId: string) => boolean } {
  const shown = useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => waiting,
  );
  const inWaiting = new Set(shown.flatMap((each) => each.items.map((item) => item.taskId)));
  return { waiting: shown, isDecided: (taskId) => inWaiting.has(taskId) || decided.has(taskId) };
}
