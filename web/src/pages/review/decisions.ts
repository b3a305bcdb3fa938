/**
 * Decisions between the key and the server. Each waits five seconds, in which it can be undone, and is then sent.
 * A page that is left sends what waits at once. One that the server does not answer is kept, and sent again.
 */
import { t } from "@lingui/core/macro";
import { useSyncExternalStore } from "react";
import { ApiError, type Approval, api, unwrap } from "../../api/client";
import { queries } from "../../api/hooks";
import { freshKey } from "../../lib/fresh-key";
import { headerOf, project } from "../../lib/project";
import { beforeEnd, sessionRefused, signedIn } from "../../session/session";
import { toastError } from "../../ui/toast";
import { countDone } from "./done";
import { forgetDraft } from "./drafts";
import { drop, type Kept, keep, left, tab } from "./outbox";
import { forgetRefusal, refuse } from "./refusals";

export type Choice =
  | { kind: "approve"; comment?: string; modifiedOutput?: string; bulk?: number }
  | { kind: "reject"; reason: string; retry: boolean; retryPrompt?: string };

export type Waiting = Kept & {
  id: number;
  /** `held`: the server did not answer, so it may have it already. */
  state: "waiting" | "sending" | "held";
  /** How often it was sent without an answer. */
  tries: number;
};

/** What became of a decision that was sent. */
export type Outcome = { item: Approval; choice: Choice; error?: ApiError };

export const UNDO_MS = 5_000;
const AT_ONCE = 6;

let waiting: Waiting[] = [];
let last = 0;
const listeners = new Set<() => void>();
const outcomes = new Set<(outcomes: Outcome[], waiting: Waiting) => void>();
/** The keys of all that this page has seen, so that one that was taken back is never found again and sent. */
const known = new Set<string>();
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
  const kept = {
    key: freshKey(),
    userId: signedIn() ?? "",
    project,
    tab: tab(),
    items,
    choice,
    sendsAt: Date.now() + UNDO_MS,
  };
  const made: Waiting = { ...kept, id: ++last, state: "waiting", tries: 0 };
  known.add(made.key);
  change([...waiting, made]);
  void keep(kept);
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
  void drop(taken);
  change(waiting.filter((each) => each !== taken));
  return taken;
}

/** A decision that had reached the server was taken back there. */
export function waitsAgain(taskId: string) {
  decided = new Set([...decided].filter((id) => id !== taskId));
  change([...waiting]);
}

/** The decisions that can be taken back. */
export const undoable = () => waiting.filter(({ state }) => state === "waiting");

/** Calls `listener` with what became of each decision. */
export function onOutcome(listener: (outcomes: Outcome[], waiting: Waiting) => void): () => void {
  outcomes.add(listener);
  return () => outcomes.delete(listener);
}

async function send(made: Waiting) {
  const user = signedIn();
  if (user !== undefined && user !== made.userId) {
    // It stays in the outbox of the user who made it.
    known.delete(made.key);
    return change(waiting.filter((each) => each.id !== made.id));
  }
  timers.delete(made.id);
  change(waiting.map((each) => (each.id === made.id ? { ...each, state: "sending" as const } : each)));
  const all: Outcome[] = [];
  const todo = [...made.items];
  const open = new Set(made.items);
  unanswered.set(made.id, open);
  const lane = async () => {
    for (let item = todo.shift(); item; item = todo.shift()) {
      all.push(await sent(item, made));
      open.delete(item);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  unanswered.delete(made.id);
  const ended = all.find(({ error }) => error?.status === 401);
  const unsent = all.filter(({ error }) => error && comesAgain(error)).map(({ item }) => item);
  const results = all.filter(({ item }) => !unsent.includes(item));
  const done = results
    .filter((each) => !each.error || each.error.status === 409)
    .map((each) => each.item.taskId);
  for (const { item, choice, error } of results) {
    // What was written about an item that another has decided is still to be had there.
    const isLost = error?.code === "ALREADY_DECIDED" && (choice.kind === "reject" || choice.modifiedOutput);
    if (done.includes(item.taskId) && !isLost) forgetDraft(item.taskId);
  }
  countDone(results.filter((each) => !each.error).length);
  for (const { item, choice, error } of results) {
    if (error && error.status !== 409) refuse(item.taskId, choice, error);
  }
  decided = new Set([...decided, ...done].slice(-500));
  const { state: _, ...kept } = { ...made, items: unsent };
  if (unsent.length > 0) hold(kept);
  else {
    void drop(made);
    change(waiting.filter((each) => each.id !== made.id));
  }
  if (ended) sessionRefused(queries, ended.error);
  if (results.length === 0) return;
  const isHere = made.project === project;
  if (outcomes.size === 0 || !isHere) {
    // The page that tells it in full is not open.
    for (const { item, error } of results.filter((each) => each.error).slice(0, 3)) {
      toastError(error, t`${item.stepId ?? t`The output`} was not decided`);
    }
  }
  if (isHere) for (const each of outcomes) each(results, made);
  void queries.invalidateQueries({ queryKey: ["/api/hitl/pending"] });
  for (const taskId of done) {
    void queries.invalidateQueries({ queryKey: ["/api/hitl/{taskId}", { path: { taskId } }] });
    void queries.invalidateQueries({ queryKey: ["/api/hitl/{taskId}/history", { path: { taskId } }] });
  }
}

/** It may be another time: the network, the server or the session was away. */
const comesAgain = ({ status }: ApiError) =>
  status === 0 || status === 401 || status === 429 || status >= 500;

const LONGEST_MS = 60_000;

/** Keeps a decision that had no answer, for a later time. */
function hold(made: Omit<Waiting, "state">) {
  const held: Waiting = { ...made, state: "held", tries: made.tries + 1 };
  const { key, userId, project, items, choice, sendsAt } = held;
  void keep({ key, userId, project, tab: tab(), items, choice, sendsAt });
  if (signedIn() !== userId) {
    // Its user has gone, and finds it in the outbox.
    known.delete(key);
    return change(waiting.filter((each) => each.id !== held.id));
  }
  const wait = Math.min(LONGEST_MS, 1_000 * 2 ** held.tries);
  timers.set(
    held.id,
    setTimeout(() => void send(held), wait),
  );
  change(waiting.map((each) => (each.id === held.id ? held : each)));
}

/** Sends at once what had no answer. */
export function retry() {
  for (const made of waiting.filter(({ state }) => state === "held")) {
    clearTimeout(timers.get(made.id));
    void send(made);
  }
}

/** Sends what the user decided before the page was loaded or the session ended. */
export async function resume(userId: string) {
  for (const kept of await left(userId)) {
    if (known.has(kept.key)) continue;
    known.add(kept.key);
    const made: Waiting = { ...kept, tab: tab(), id: ++last, state: "held", tries: 1 };
    change([...waiting, made]);
    void send(made);
  }
}

async function sent(item: Approval, made: Waiting): Promise<Outcome> {
  const { choice, tries, userId } = made;
  try {
    await unwrap(request(item, made));
    return { item, choice };
  } catch (error) {
    const failure = error instanceof ApiError ? error : new ApiError(0, "UNKNOWN", String(error));
    // An earlier try has reached the server, and its answer was lost.
    if (failure.code === "ALREADY_DECIDED" && tries > 0 && failure.details.decidedBy === userId)
      return { item, choice };
    return { item, choice, error: failure };
  }
}

type Sent = Promise<{ data?: unknown; error?: unknown; response: Response }>;

/** Sends a decision to the project of its item, on whatever page it is sent. */
function request({ taskId }: Approval, { choice, project }: Kept, keepalive = false): Sent {
  const params = { path: { taskId } };
  const headers = headerOf(project);
  const { kind, ...body } = choice;
  return kind === "approve"
    ? api.POST("/api/hitl/{taskId}/approve", { params, body, headers, keepalive })
    : api.POST("/api/hitl/{taskId}/reject", { params, body: body as { reason: string }, headers, keepalive });
}

/** Sends what waits, at once, and waits for what is being sent: the session ends. */
async function sendAll() {
  for (const made of waiting.filter((each) => each.state === "waiting")) {
    clearTimeout(timers.get(made.id));
    void send(made);
  }
  while (waiting.some(({ state }) => state !== "held")) {
    await new Promise<void>((changed) => {
      const once = () => {
        listeners.delete(once);
        changed();
      };
      listeners.add(once);
    });
  }
  // What had no answer is the user's, and is sent when that user is back.
  for (const made of waiting) {
    clearTimeout(timers.get(made.id));
    known.delete(made.key);
  }
  change([]);
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
    if (made.state === "held") continue;
    // A request that is on its way ends with the page; a second one for the same item changes nothing.
    for (const item of unanswered.get(made.id) ?? made.items) void request(item, made, true);
  }
  known.clear();
  change([]);
}
if (typeof window !== "undefined") {
  window.addEventListener("beforeunload", ask);
  window.addEventListener("pagehide", flush);
  window.addEventListener("online", retry);
  // Back from where the browser keeps pages that were left.
  window.addEventListener("pageshow", ({ persisted }) => {
    const user = signedIn();
    if (persisted && user) void resume(user);
  });
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
