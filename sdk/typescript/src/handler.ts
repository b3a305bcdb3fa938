import { Failure, type Result, type Task } from "./assigned.js";
import type { Handler } from "./worker.js";

/** The longest frame of the protocol, in bytes. */
export const MAX_FRAME = 32 * 1024 * 1024;
const LONGEST_PIECE = 1024 * 1024;

/** A frame, without the members that are undefined. */
export function frame(members: { type: string } & Record<string, unknown>): string {
  return JSON.stringify(members);
}

/** Calls a handler and collects its result. It is waited for until the task's signal aborts. */
export async function called(handler: Handler, task: Task, tell: (piece: string) => Promise<void>): Promise<Result> {
  const value: unknown = await unless(task.signal, (async () => handler(task))());
  if (typeof value === "string") return { output: value };
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return Symbol.asyncIterator in value ? collected(value as AsyncIterable<unknown>, task, tell) : value;
  }
  const kind = Array.isArray(value) ? "array" : typeof value;
  throw new Failure(`the worker's function returned ${kind}, not a text`, { retryable: false });
}

async function collected(
  pieces: AsyncIterable<unknown>,
  task: Task,
  tell: (piece: string) => Promise<void>,
): Promise<Result> {
  const iterator = pieces[Symbol.asyncIterator]();
  let text = "";
  let half = "";
  try {
    for (;;) {
      const { done, value } = await unless(task.signal, iterator.next());
      if (done) return { output: text + half.toWellFormed(), ...(value as Result | undefined) };
      if (typeof value !== "string") {
        throw new Failure(`the worker's function yielded ${typeof value}, not a text`, { retryable: false });
      }
      // A piece may end within a pair of surrogates, whose other half comes with the next.
      const all = half + value;
      const end = wholeUnits(all, all.length);
      half = all.slice(end);
      const fresh = all.slice(0, end).toWellFormed();
      text += fresh;
      for (let at = 0; at < fresh.length; ) {
        const next = wholeUnits(fresh, at + LONGEST_PIECE);
        await unless(task.signal, tell(fresh.slice(at, next)));
        at = next;
      }
    }
  } finally {
    // Ends the generator; one that waits for something ends when that does, and is not waited for.
    Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

/** The end, or one unit less if it would cut a pair of surrogates. */
function wholeUnits(text: string, end: number): number {
  if (end > text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last <= 0xdbff ? end - 1 : end;
}

/** The promise, or the reason of the signal if it aborts before. */
export async function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  let abort: () => void = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** The frame of a result. Throws a `Failure` if the server would not take it, because it would be lost. */
export function completed(lease: string, task: Task, result: Result, takes: ReadonlySet<string>): string {
  const { confidence, finishReason, thinking } = result;
  const output = (result.output ?? "").toWellFormed();
  const usage = result.usage ?? { input: tokens(...task.chat().map((it) => it.content)), output: tokens(output) };
  for (const count of Object.values(usage)) {
    if (count !== undefined && !(Number.isSafeInteger(count) && count >= 0))
      throw refused(`${count} is no count of tokens`);
  }
  if (confidence !== undefined && !(confidence >= 0 && confidence <= 1)) {
    throw refused(`the confidence ${confidence} is not within 0 to 1`);
  }
  const text = frame({
    type: "complete",
    lease,
    output,
    usage,
    confidence,
    confidenceSource: confidence === undefined ? undefined : "reported",
    finishReason,
    thinking: takes.has("thinking") ? thinking?.toWellFormed() : undefined,
  });
  if (Buffer.byteLength(text) > MAX_FRAME) throw refused(`the output does not fit a frame of ${MAX_FRAME} bytes`);
  return text;
}

function refused(message: string): Failure {
  return new Failure(message, { retryable: false });
}

function tokens(...texts: string[]): number {
  return Math.ceil(texts.reduce((sum, it) => sum + it.length, 0) / 4);
}

/** The frame of a failure. */
export function failed(lease: string, error: unknown): string {
  const { code, message, retryable, retryAfterMs } =
    error instanceof Failure ? error : new Failure(String(error).slice(0, 1000));
  const told = { code, message: message.toWellFormed() };
  const wait = retryAfterMs === undefined ? undefined : Math.round(retryAfterMs);
  return frame({ type: "fail", lease, error: told, retryable, retryAfterMs: wait });
}
