/**
 * A worker: runs tasks on any model (docs/reference/workers.md).
 *
 *     worker ─register─▶ server      worker ─heartbeat─▶ server     worker ─complete | fail─▶ server
 *            ◀registered─                   ◀──leases───                   ◀──────ack───────
 *            ◀──assign───            worker ─delta, drain, return▶  worker ◀─cancel, drain, error─
 *
 * A lease is kept over a broken connection, and a result until the server has acknowledged it.
 */
import type { Agent, IncomingMessage } from "node:http";
import { hostname } from "node:os";
import type { ConnectionOptions } from "node:tls";
import { WebSocket } from "ws";
import { find, headers } from "#platform";
import { type Assign, Failure, type Heard, type Registered, type Result, Task, type TaskFile } from "./assigned.js";
import { backoffMs, LONGEST_RETRY_AFTER_MS, retryAfterMs } from "./call.js";
import type { Credentials } from "./credentials.js";
import { ConfigurationError, WorkerRefused } from "./errors.js";
import { type FunctionHandler, type FunctionOptions, type WorkerFunction, workerFunction } from "./function.js";
import { called, completed, failed, frame, MAX_FRAME } from "./handler.js";
import type { OutputSchema } from "./output.js";
import { VERSION } from "./version.js";

export {
  type ChatTurn,
  Failure,
  type FailureOptions,
  type Message,
  type Part,
  type Result,
  Task,
  type TaskFile,
  type Usage,
} from "./assigned.js";
export type { FunctionHandler, FunctionOptions } from "./function.js";

/** An attempt ends this long before its time is over, so that its report is in time. */
const MARGIN_MS = 250;
/** The longest wait for the acknowledgements of the last results. */
const ACKNOWLEDGED_MS = 5_000;
const REGISTERED_MS = 30_000;
const FOR_GOOD = [4400, 4401, 4403];
/** Statuses that refuse the worker, not this connection. */
const REFUSED = [400, 401, 403, 404];

/**
 * Runs a task: returns its output, or is an async generator of the pieces of its output, which are streamed; what it
 * returns at the end is the rest of the result.
 */
export type Handler = (
  task: Task,
) => string | Result | Promise<string | Result> | AsyncIterable<string> | AsyncGenerator<string, Result | undefined>;

export interface WorkerOptions {
  /** The server's address; otherwise CALLBOARD_SERVER. */
  server?: string;
  /** A key of the role worker; otherwise CALLBOARD_API_KEY or CALLBOARD_API_KEY_FILE. */
  apiKey?: string;
  /** The name in lists. Default: that of the machine. */
  name?: string;
  /** The queues that it takes tasks from. Default: `default`. */
  queues?: readonly string[];
  /** The number of tasks at once. Default: 4. */
  concurrency?: number;
  /** How long a worker that is told to stop may finish what runs; then it returns the rest. Default: 20 s. */
  graceMs?: number;
  /** For certificates of your own. */
  tls?: ConnectionOptions;
  /** For a proxy. */
  agent?: Agent;
  /** Gets a line for each connection, break and failed task. Default: `console.error`. */
  log?: (line: string) => void;
}

/** A lease: its task runs, or its result waits for an acknowledgement. */
interface Run {
  controller: AbortController;
  /** The frame. */
  result?: string;
}

/** A worker of one server. */
export class Worker {
  readonly #url: string;
  readonly #server: string;
  readonly #credentials: Credentials;
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, Handler>();
  readonly #functions = new Map<string, WorkerFunction>();
  readonly #runs = new Map<string, Run>();
  readonly #waiting = new Set<() => void>();
  #id: string | undefined;
  #takes = new Set<string>();
  #socket: WebSocket | undefined;
  /** The attempts to connect since the last success. */
  #attempt = 0;
  #stopping = false;
  #stopAt = Number.POSITIVE_INFINITY;

  constructor(options: WorkerOptions = {}) {
    const { url, credentials } = find(options.server, options.apiKey);
    if (!credentials.isKey) {
      throw new ConfigurationError("a worker needs a key: apiKey, CALLBOARD_API_KEY or CALLBOARD_API_KEY_FILE");
    }
    this.#credentials = credentials;
    this.#server = url.href.replace(/\/$/, "");
    this.#url = `${url.href.replace(/^http/, "ws").replace(/\/$/, "")}/api/workers/connect`;
    this.#options = options;
  }

  /** True while it is registered at the server. */
  get connected(): boolean {
    return this.#socket !== undefined;
  }

  /**
   * Runs tasks of these models by the function: exact names, prefixes such as `gpt-*`, or `*`.
   *
   * The function runs in the event loop, which also sends the heartbeats: it must not block it.
   */
  model(names: string | readonly string[], handler: Handler): this {
    for (const name of [names].flat()) this.#handlers.set(name, handler);
    return this;
  }

  /**
   * Runs tasks and steps that call this function. The schemas are announced, and the args are checked before the call.
   * As for `model`, the function must not block the event loop.
   */
  function<Args extends OutputSchema>(
    name: string,
    options: FunctionOptions<Args>,
    handler: FunctionHandler<Args>,
  ): this {
    this.#functions.set(name, workerFunction(name, options, handler));
    return this;
  }

  /** Runs until it is told to stop, by SIGTERM and SIGINT too. Throws `WorkerRefused` if the server does not take it. */
  async run(): Promise<void> {
    const stop = () => this.stop();
    const signals = ["SIGINT", "SIGTERM"] as const;
    for (const it of signals) process.on(it, stop);
    try {
      await this.serve();
    } finally {
      for (const it of signals) process.off(it, stop);
    }
  }

  /** Tells it to take no new task, to finish those that run within the grace, and to leave; the second time at once. */
  stop(): void {
    this.#stop(this.#stopping ? 0 : (this.#options.graceMs ?? 20_000));
  }

  #stop(graceMs: number): void {
    this.#stopping = true;
    this.#stopAt = now() + graceMs;
    this.#changed();
  }

  #changed(): void {
    for (const wake of this.#waiting) wake();
  }

  #done(): boolean {
    return this.#stopping && (this.#runs.size === 0 || now() >= this.#stopAt);
  }

  /** Waits until the state is reached; for at most this time, and not beyond the grace. */
  async #until(reached: () => boolean, ms: number): Promise<void> {
    const end = now() + ms;
    for (;;) {
      const left = Math.min(end, this.#stopAt) - now();
      if (reached() || left <= 0) return;
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, Math.min(left, 2 ** 30));
        this.#waiting.add(wake);
      });
    }
  }

  #log(line: string): void {
    (this.#options.log ?? console.error)(`callboard worker: ${line}`);
  }

  /** As `run`, without signals. */
  async serve(): Promise<void> {
    if (this.#handlers.size + this.#functions.size === 0) {
      throw new ConfigurationError('the worker runs no model and no function: call worker.model("*", …)');
    }
    [this.#stopping, this.#stopAt, this.#attempt] = [false, Number.POSITIVE_INFINITY, 0];
    try {
      while (!this.#done()) {
        const { why, waitMs } = await this.#session();
        if (this.#done()) return;
        this.#log(`${this.#url}: ${why}`);
        await this.#until(() => this.#done(), waitMs ?? backoffMs(this.#attempt));
        this.#attempt += 1;
      }
    } finally {
      for (const run of this.#runs.values()) run.controller.abort();
      this.#runs.clear();
    }
  }

  /** One connection, until it closes: the reason, and the wait that the server asks for. */
  async #session(): Promise<{ why: string; waitMs?: number | undefined }> {
    const token = await this.#credentials.token(() => Promise.reject());
    const { tls, agent } = this.#options;
    const socket = new WebSocket(this.#url, {
      ...tls,
      ...(agent && { agent }),
      headers: { ...headers, Authorization: `Bearer ${token}` },
      maxPayload: MAX_FRAME,
      perMessageDeflate: false,
      handshakeTimeout: 10_000,
    });
    const timers = new Set([setTimeout(() => socket.terminate(), REGISTERED_MS)]);
    let why = "";
    return new Promise((resolve, reject) => {
      socket.on("unexpected-response", async (_, response) => {
        const status = response.statusCode ?? 0;
        const told = await message(response);
        if (REFUSED.includes(status)) reject(new WorkerRefused(told));
        const waitMs = retryAfterMs(response.headers["retry-after"]);
        resolve({ why: told, waitMs: waitMs && Math.min(waitMs, LONGEST_RETRY_AFTER_MS) });
        socket.terminate();
      });
      socket.on("error", (error) => {
        why ||= error.message || String(error);
      });
      socket.on("open", () => void sent(socket, this.#registration()));
      socket.on("message", (data) => {
        const heard: Heard = JSON.parse(String(data));
        if (heard.type === "error") why = heard.error?.message ?? "";
        if (heard.type === "registered") for (const it of this.#registered(socket, heard)) timers.add(it);
        else this.#heard(heard);
      });
      socket.on("close", (code, reason) => {
        for (const it of timers) clearTimeout(it);
        if (this.#socket === socket) this.#socket = undefined;
        this.#changed();
        why ||= String(reason) || `the connection broke (${code})`;
        if (FOR_GOOD.includes(code)) reject(new WorkerRefused(`${this.#url}: ${why}`));
        else resolve({ why });
      });
    });
  }

  #registration(): string {
    const { name, queues = ["default"], concurrency = 4 } = this.#options;
    const resume = this.#id === undefined ? undefined : { workerId: this.#id, leases: [...this.#runs.keys()] };
    const models = [...this.#handlers.keys()];
    const version = `typescript-${VERSION}`;
    const announced = [...this.#functions.values()].map((it) => it.announcement);
    const functions = announced.length > 0 ? announced : undefined;
    return frame({
      type: "register",
      name: name ?? hostname(),
      version,
      queues,
      models,
      functions,
      concurrency,
      resume,
    });
  }

  /** Takes up the leases and the work; returns the timer of the heartbeats. */
  #registered(socket: WebSocket, heard: Registered): NodeJS.Timeout[] {
    this.#log(`worker ${heard.workerId} at ${this.#url}`);
    this.#id = heard.workerId;
    this.#takes = new Set(heard.takes ?? []);
    this.#lost(heard.lost ?? []);
    this.#socket = socket;
    this.#attempt = 0;
    for (const run of this.#runs.values()) if (run.result !== undefined) void this.#send(run.result);
    let unanswered = 0;
    socket.on("message", () => {
      unanswered = 0;
    });
    const beat = () => {
      void sent(socket, frame({ type: "heartbeat", leases: [...this.#runs.keys()] }));
      unanswered += 1;
      // If a task blocked the event loop, an answer may wait to be read: it is read before this.
      setImmediate(() => unanswered > 1 && socket.terminate());
    };
    void this.#leave(socket);
    return [setInterval(beat, heard.heartbeatMs)];
  }

  /** When it is told to stop: finishes what runs in time, returns the rest, closes the connection. */
  async #leave(socket: WebSocket): Promise<void> {
    const closed = () => this.#socket !== socket;
    await this.#until(() => this.#stopping || closed(), Number.POSITIVE_INFINITY);
    if (closed()) return;
    void this.#send(frame({ type: "drain" }));
    await this.#until(() => this.#runs.size === 0 || closed(), Number.POSITIVE_INFINITY);
    if (closed()) return;
    const leases = [...this.#runs].filter(([, run]) => run.result === undefined).map(([lease]) => lease);
    this.#lost(leases);
    if (leases.length > 0 && this.#takes.has("return")) void this.#send(frame({ type: "return", leases }));
    if (this.#runs.size > 0) {
      this.#stopAt = now() + ACKNOWLEDGED_MS;
      await this.#until(() => this.#runs.size === 0 || closed(), Number.POSITIVE_INFINITY);
    }
    socket.close();
    setTimeout(() => socket.terminate(), ACKNOWLEDGED_MS).unref();
  }

  #heard(heard: Exclude<Heard, Registered>): void {
    if (heard.type === "assign") void this.#assigned(heard);
    else if (heard.type === "ack") this.#forget(heard.lease);
    else if (heard.type === "cancel") this.#lost([heard.lease]);
    else if (heard.type === "leases") this.#lost(heard.lost ?? []);
    else if (heard.type === "error") this.#log(`the server refused a frame: ${heard.error?.message}`);
    else if (heard.type === "drain" && !this.#stopping) {
      this.#log("the server asks the worker to leave");
      this.#stop(Math.min(this.#options.graceMs ?? 20_000, heard.deadlineMs));
    }
  }

  #lost(leases: readonly string[]): void {
    for (const lease of leases) {
      this.#runs.get(lease)?.controller.abort();
      this.#forget(lease);
    }
  }

  #forget(lease: string): void {
    this.#runs.delete(lease);
    this.#changed();
  }

  async #read({ id, sha256 }: TaskFile, signal: AbortSignal): Promise<Uint8Array> {
    const gone = () => new Failure(`file ${id} was deleted`, { retryable: false });
    if (!sha256) throw gone();
    const headers = { Authorization: `Bearer ${await this.#credentials.token(() => Promise.reject())}` };
    const response = await fetch(`${this.#server}/api/files/${id}/content`, { headers, signal });
    if (response.status === 404) throw gone();
    if (!response.ok) throw new Failure(`file ${id} could not be read: the server answered ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  /** Runs a task and keeps its result until the acknowledgement. */
  async #assigned({ lease, task: members, attempt, timeoutMs }: Assign): Promise<void> {
    if (this.#runs.has(lease)) return;
    const run: Run = { controller: new AbortController() };
    this.#runs.set(lease, run);
    const read = (file: TaskFile, signal: AbortSignal) => this.#read(file, signal);
    const task = new Task(members, attempt, timeoutMs, run.controller.signal, read);
    const late = () => run.controller.abort(new Failure("the call took too long", { code: "TASK_TIMEOUT" }));
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, Math.max(timeoutMs - MARGIN_MS, 1));
    let result: string;
    try {
      if (task.function === undefined) {
        const made = await called(this.#handler(task.model), task, (text) =>
          this.#send(frame({ type: "delta", lease, text })),
        );
        result = completed(lease, task, made, this.#takes);
      } else {
        const found = this.#functions.get(task.function);
        if (!found) throw new Failure(`the worker runs no function ${task.function}`, { retryable: false });
        result = await found.call(lease, task);
      }
    } catch (error) {
      const wanted = this.#runs.get(lease) === run;
      if (wanted && !(error instanceof Failure))
        this.#log(`task ${task.id} failed: ${(error as Error)?.stack ?? error}`);
      result = failed(lease, error);
    } finally {
      clearTimeout(timer);
    }
    // Nobody wants the result of a lease that is lost.
    if (this.#runs.get(lease) !== run) return;
    run.result = result;
    await this.#send(result);
  }

  #handler(model: string): Handler {
    const prefixes = [...this.#handlers.keys()].filter((it) => it.endsWith("*") && model.startsWith(it.slice(0, -1)));
    const longest = prefixes.sort((one, other) => other.length - one.length)[0];
    const found = this.#handlers.get(model) ?? this.#handlers.get(longest ?? "");
    if (!found) throw new Failure(`the worker runs no model ${model}`, { retryable: false });
    return found;
  }

  /** Sends a frame; without a connection it is dropped, and a result is sent again after the next register. */
  async #send(text: string): Promise<void> {
    if (this.#socket) await sent(this.#socket, text);
  }
}

/** Sends a frame, and waits until it is written; what fails is known by the end of the connection. */
function sent(socket: WebSocket, text: string): Promise<void> {
  return new Promise((resolve) => socket.send(text, () => resolve()));
}

/** The message of an answer that refuses the connection. */
async function message(response: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of response) text += chunk;
    return JSON.parse(text).error.message;
  } catch {
    return `the server answered ${response.statusCode}`;
  }
}

function now(): number {
  return performance.now();
}
