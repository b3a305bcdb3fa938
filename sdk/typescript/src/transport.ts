import { find, headers } from "#platform";
import {
  type Answer,
  answer,
  type Call,
  COMMENT_MS,
  call,
  type Data,
  type Fetch,
  type Fetched,
  type FetchOptions,
  type Given,
  type Method,
  mayRepeat,
  type Path,
  pauseMs,
  SILENCE_MS,
  sleep,
  strange,
  type WaitOptions,
} from "./call.js";
import type { Credentials, Renewal } from "./credentials.js";
import { AnswerTimeout, type CallboardError, ServerUnreachable, WaitTimeout } from "./errors.js";
import { EventParser, type Json, type ServerEvent } from "./sse.js";

const ENDED = ["completed", "failed", "cancelled", "rejected"];

export interface ClientOptions {
  /** The server's address; otherwise CALLBOARD_SERVER, the login of the command line, or in a browser the page's origin. */
  server?: string | undefined;
  /** A key or a token; otherwise CALLBOARD_API_KEY, CALLBOARD_API_KEY_FILE, or the login of the command line. */
  apiKey?: string | undefined;
  /** The time-out of each request. Default: 60 s. */
  timeoutMs?: number | undefined;
  /** How often a request is repeated where that is safe. Default: 6. */
  retries?: number | undefined;
  /** How long waits and streams bear a server that is away. Default: 120 s. */
  patienceMs?: number | undefined;
  /** Takes the place of `fetch`: for proxies, certificates, or traces. */
  fetch?: Fetch | undefined;
}

/** The connection to one server: credentials, retries, streams that connect again. */
export class Transport {
  /** The address of the server. */
  readonly server: string;
  readonly #credentials: Credentials;
  readonly #fetch: Fetch;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #patienceMs: number;

  constructor(options: ClientOptions = {}) {
    const found = find(options.server, options.apiKey);
    this.server = found.url.href.replace(/\/$/, "");
    this.#credentials = found.credentials;
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#retries = options.retries ?? 6;
    this.#patienceMs = options.patienceMs ?? 120_000;
  }

  /** The data of the answer to a request, which is repeated while that is safe and may help. */
  async send<M extends Method, P extends Path<M>>(method: M, path: P, given: Given<M, P> = {}): Promise<Data<M, P>> {
    return (await this.answered(call(method, path, given as Given), given.signal)).data;
  }

  /** The answer to a call, which is repeated while that is safe and may help. */
  async answered(call: Call, signal?: AbortSignal): Promise<Answer> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#once(call, signal);
      } catch (error) {
        const wait = mayRepeat(call, error) ? pauseMs(attempt, error) : undefined;
        if (wait === undefined || attempt >= this.#retries) throw error;
        await sleep(wait, signal);
      }
    }
  }

  async #once(call: Call, signal: AbortSignal | undefined): Promise<Answer> {
    const [response, watch] = await this.#sent(call, this.#timeoutMs, signal);
    try {
      return answer(call, response, await watch.bear(response.text()));
    } finally {
      watch.end();
    }
  }

  /** Opens an answer that is read piece by piece; `silenceMs` is the longest time between two pieces. */
  async *open(call: Call, signal?: AbortSignal, silenceMs = SILENCE_MS): AsyncGenerator<Uint8Array, void, void> {
    const [response, watch] = await this.#sent(call, silenceMs, signal);
    const reader = response.body?.getReader();
    try {
      const type = response.headers.get("Content-Type") ?? "";
      if (!response.ok || !reader || !type.startsWith(call.headers.Accept ?? "")) {
        reader?.releaseLock();
        const text = await watch.bear(response.text());
        answer(call, response, text);
        throw strange(call, response, text);
      }
      for (;;) {
        watch.start(silenceMs);
        const { done, value } = await watch.bear(reader.read());
        watch.pause();
        if (done) return;
        if (value) yield value;
      }
    } finally {
      watch.end();
      // Ends the connection of a stream that is not read to its end.
      watch.abort();
    }
  }

  /** Sends a call with the credentials, and again with a renewed login if the server refuses the token. */
  async #sent(call: Call, timeoutMs: number, signal: AbortSignal | undefined): Promise<[Fetched, Watch]> {
    const renew: Renewal = (refreshToken) => this.#refreshed(refreshToken);
    for (let renewed = false; ; renewed = true) {
      const token = await this.#credentials.token(renew);
      const watch = new Watch(this.server, signal);
      watch.start(timeoutMs);
      try {
        const response = await watch.bear(this.#fetched(call, token, watch.signal));
        if (response.status !== 401 || renewed || !(await this.#credentials.replaced(token, renew)))
          return [response, watch];
        watch.end();
        watch.abort();
      } catch (error) {
        watch.end();
        throw error;
      }
    }
  }

  #fetched(call: Call, token: string | undefined, signal: AbortSignal): Promise<Fetched> {
    const all = { ...headers, ...call.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const init: FetchOptions = { method: call.method, headers: all, signal };
    if (call.content !== undefined) init.body = call.content;
    return this.#fetch(this.server + call.path, init);
  }

  async #refreshed(refreshToken: string): Promise<Data<"POST", "/api/auth/refresh">> {
    const request = call("POST", "/api/auth/refresh", { body: { refreshToken } });
    const watch = new Watch(this.server, undefined);
    watch.start(this.#timeoutMs);
    try {
      const response = await watch.bear(this.#fetched(request, undefined, watch.signal));
      return answer(request, response, await watch.bear(response.text())).data;
    } finally {
      watch.end();
    }
  }

  /**
   * The events of an item's stream until its `end`, over broken connections.
   *
   * A connection that breaks is followed by another, which begins with a `snapshot`. In the last seconds before the
   * deadline, and while the server refuses another stream, the item is read instead.
   */
  async *follow(path: Path<"GET">, id: string, options: WaitOptions = {}): AsyncGenerator<ServerEvent, void, void> {
    const { waitMs, signal } = options;
    const deadline = waitMs === undefined ? Number.POSITIVE_INFINITY : now() + waitMs;
    const outage = new Outage(this.#patienceMs);
    const read = call("GET", path, { names: { id } as never });
    for (;;) {
      let wait = 250;
      try {
        if (deadline - now() > COMMENT_MS) {
          const stream = { ...read, path: `${read.path}/stream`, headers: { Accept: "text/event-stream" } };
          const parser = new EventParser();
          for await (const chunk of this.open(stream, signal)) {
            for (const event of parser.feed(chunk)) {
              yield event;
              if (event.name === "end") return;
            }
            if (deadline - now() <= COMMENT_MS) break;
          }
        } else {
          wait = Math.min(Math.max(deadline - now(), 0), 500);
        }
      } catch (error) {
        wait = outage.pauseMs(error);
      }
      const late = () => new WaitTimeout(`${id} has not ended in time; it goes on: wait again, or cancel it`);
      if (now() + wait > deadline + 500) throw late();
      await sleep(wait, signal);
      let item: Json;
      try {
        item = (await this.#once(read, signal)).data;
      } catch (error) {
        await sleep(outage.pauseMs(error), signal);
        continue;
      }
      outage.over();
      if (ENDED.includes(item.status)) {
        yield { name: "end", id: undefined, data: item };
        return;
      }
      if (now() >= deadline) throw late();
    }
  }

  /** How long waits, streams and loads bear a server that is away. */
  outage(): Outage {
    return new Outage(this.#patienceMs);
  }

  /** The events of the log, which go on after the last one over broken connections. */
  async *logEvents(
    query: Record<string, unknown>,
    since?: string,
    signal?: AbortSignal,
  ): AsyncGenerator<ServerEvent, void, void> {
    const outage = new Outage(this.#patienceMs);
    let place = since;
    for (;;) {
      const resume: Record<string, string> = place === undefined ? {} : { "Last-Event-ID": place };
      const stream = call("GET", "/api/events", { query }, { Accept: "text/event-stream", ...resume });
      const parser = new EventParser();
      let wait: number;
      try {
        for await (const chunk of this.open(stream, signal)) {
          outage.over();
          yield* parser.feed(chunk);
          // The caller has all of these, so the next connection goes on behind them.
          place = parser.lastId ?? place;
        }
        throw new ServerUnreachable(`${this.server} ended the stream of events`);
      } catch (error) {
        wait = outage.pauseMs(error);
      }
      await sleep(wait, signal);
    }
  }
}

/** Ends a request when the caller's signal aborts, or when it takes too long, and names the error. */
class Watch {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #forward = () => this.#controller.abort();
  #late = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly server: string,
    caller: AbortSignal | undefined,
  ) {
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.#forward);
    this.#caller = caller;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  start(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#late = true;
      this.#controller.abort();
    }, ms);
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  abort(): void {
    this.#controller.abort();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#forward);
  }

  /** What a part of the request gives, or the error that it means. */
  async bear<T>(part: Promise<T>): Promise<T> {
    try {
      return await part;
    } catch (cause) {
      this.#caller?.throwIfAborted();
      if (this.#late) {
        throw new AnswerTimeout(`${this.server} did not answer in time: raise timeoutMs if it should have longer`, {
          cause,
        });
      }
      throw new ServerUnreachable(`${this.server} cannot be reached: ${why(cause)}`, { cause });
    }
  }
}

/** The text of the deepest cause: that of fetch alone is "fetch failed". */
function why(error: unknown): string {
  const { cause, message, code } = error as { cause?: unknown; message?: string; code?: string };
  return cause ? why(cause) : message || code || String(error);
}

/** How long the server has been away, and how long the client bears it. */
/** How long the server has been away, and how long the client bears it. */
export class Outage {
  #since: number | undefined;
  #attempt = 0;

  constructor(private readonly patienceMs: number) {}

  over(): void {
    this.#since = undefined;
    this.#attempt = 0;
  }

  /** The time to wait; throws the error if it is for good, or has lasted too long. */
  pauseMs(error: unknown): number {
    const wait = pauseMs(this.#attempt, error as CallboardError);
    this.#since ??= now();
    if (wait === undefined || now() - this.#since > this.patienceMs) throw error;
    this.#attempt += 1;
    return wait;
  }
}

function now(): number {
  return performance.now();
}
