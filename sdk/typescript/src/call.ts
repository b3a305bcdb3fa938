import { encoded } from "./check.js";
import * as errors from "./errors.js";
import type { paths } from "./schema.js";
import type { Json } from "./sse.js";

export const COMMENT_MS = 16_000;
/** The server sends a comment every 15 s; a stream without one for this time is broken. */
export const SILENCE_MS = 45_000;
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [250, 10_000];
export const LONGEST_RETRY_AFTER_MS = 60_000;

/** Options of every call. */
export interface CallOptions {
  /** Ends the call; it throws the signal's reason. Work on the server goes on. */
  signal?: AbortSignal | undefined;
}

/** Options of a call that starts something. */
export interface KeyOptions extends CallOptions {
  /** A second request with the same key, within 24 hours, does the work of the first. Made by the library otherwise. */
  idempotencyKey?: string | undefined;
}

/** Options of a call that waits for work to end. */
export interface WaitOptions extends CallOptions {
  /** The longest wait; then `WaitTimeout`. */
  waitMs?: number | undefined;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type Operation<M extends Method, P extends keyof paths> = NonNullable<paths[P][Lowercase<M>]>;
/** The paths that have a method. */
export type Path<M extends Method> = { [P in keyof paths]: [Operation<M, P>] extends [never] ? never : P }[keyof paths];

type Content<R> = R extends { content: { "application/json": infer Body } } ? Body : never;
type Answered<O> = O extends { responses: infer R } ? Content<R[keyof R]> : never;
type Part<O, Kind extends string> = O extends { parameters: infer P }
  ? Kind extends keyof P
    ? P[Kind]
    : never
  : never;

/** The `data` of the answer to a request. */
export type Data<M extends Method, P extends Path<M>> = Answered<Operation<M, P>> extends { data: infer D } ? D : never;
/** The parameters in the path of a request. */
export type Names<M extends Method, P extends Path<M>> = Part<Operation<M, P>, "path">;
/** The query of a list, without its page. */
export type Query<P extends Path<"GET">> = { [N in keyof Asked<P>]: Asked<P>[N] | undefined };
type Asked<P extends Path<"GET">> = Omit<NonNullable<Part<Operation<"GET", P>, "query">>, "limit" | "offset">;
/** What goes into a request. */
export interface Given<M extends Method = Method, P extends Path<M> = Path<M>> {
  names?: Names<M, P> | undefined;
  query?: Record<string, unknown> | undefined;
  /** Checked by `checked`. */
  body?: Record<string, unknown> | undefined;
  /** A body that is no JSON, with its type. */
  content?: string | Uint8Array<ArrayBuffer>;
  contentType?: string;
  /** The route takes an idempotency key: this one, or if undefined one that the library makes. */
  key?: { value: string | undefined };
  signal?: AbortSignal | undefined;
}

/** A request, before it is sent. */
export interface Call {
  method: string;
  /** With the query. */
  path: string;
  headers: Record<string, string>;
  content?: string | Uint8Array<ArrayBuffer> | undefined;
}

/** Builds a call. `names` fill the path; a member of the query that is undefined is left out. */
export function call(method: Method, path: string, given: Given = {}, headers: Record<string, string> = {}): Call {
  const all: Record<string, string> = { Accept: "application/json", ...headers };
  if (given.key) all["Idempotency-Key"] = given.key.value ?? randomKey();
  const content = given.body === undefined ? given.content : encoded(given.body);
  if (content !== undefined) all["Content-Type"] = given.contentType ?? "application/json";
  const names = given.names as Record<string, string> | undefined;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => segment(name, names?.[name]));
  const query = Object.entries(given.query ?? {}).filter(([, it]) => it !== undefined && it !== null);
  const asked = query.map(([name, it]) => `${name}=${encodeURIComponent(parameter(it))}`).join("&");
  return { method, path: asked === "" ? filled : `${filled}?${asked}`, headers: all, content };
}

/** Random. Pages without TLS have no `crypto.randomUUID`. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (it) => it.toString(16).padStart(2, "0")).join("");
}

function segment(name: string, value: unknown): string {
  if (typeof value !== "string" || value === "")
    throw new errors.InvalidArgument(`${name} must be a string that is not empty`);
  // A browser and fetch take these for steps in the path, also when they are escaped.
  if (value === "." || value === "..") throw new errors.InvalidArgument(`${name} must not be ${value}`);
  return encodeURIComponent(value);
}

/** A query parameter as the server reads it: lists with commas, times in ISO 8601. */
function parameter(value: unknown): string {
  if (Array.isArray(value)) return value.map(parameter).join(",");
  if (!(value instanceof Date)) return String(value);
  if (Number.isNaN(value.getTime())) throw new errors.InvalidArgument("a time is no valid Date");
  return value.toISOString();
}

/** What the library asks of `fetch`: that of the platform, undici's and others fit. */
export type Fetch = (url: string, init: FetchOptions) => Promise<Fetched>;

export interface FetchOptions {
  method: string;
  headers: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  signal: AbortSignal;
}

/** The members of a `Response` that the library reads. */
export interface Fetched {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): Reader } | null;
  text(): Promise<string>;
}

interface Reader {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
  releaseLock(): void;
}

/** The answer to a call, without its envelope. */
export interface Answer {
  data: Json;
  pagination: { total?: number; hasMore?: boolean };
}

/** Reads an answer; throws the error that it is. */
export function answer(call: Call, response: Fetched, text: string): Answer {
  let body: Json;
  try {
    body = JSON.parse(text);
  } catch {
    throw strange(call, response, text);
  }
  if (typeof body?.success !== "boolean") throw strange(call, response, text);
  if (body.success && response.ok) return { data: body.data, pagination: body.pagination ?? {} };
  const { error = {}, meta } = body;
  throw refusal(error, response.status, meta?.requestId, retryAfterMs(response.headers.get("Retry-After")));
}

/** The error for a refusal as the server writes it. */
export function refusal(error: Json, status: number, requestId?: string, retryAfterMs?: number): errors.ApiError {
  const { code = "", message = "the server refused the request", details = {}, retryable } = error;
  const kind = errors.byCode.get(code) ?? errors.byStatus.get(status) ?? errors.ApiError;
  return new kind(String(message), { status, code, details, retryable: retryable === true, requestId, retryAfterMs });
}

/** The error for an answer of another program. */
export function strange(call: Call, response: Fetched, text: string): errors.CallboardError {
  const where = `${call.method} ${call.path.replace(/\?.*/, "")}`;
  if ([502, 503, 504].includes(response.status)) {
    return new errors.ServerUnreachable(`${where}: a proxy answered ${response.status}`);
  }
  const told = `${where} answered ${response.status}, not as a Callboard server does: ${text.slice(0, 120)}`;
  return new errors.UnexpectedAnswer(told);
}

export function retryAfterMs(header: string | null | undefined): number | undefined {
  return header && /^\d+$/.test(header.trim()) ? Number(header) * 1000 : undefined;
}

/** The time before a failed request is worth another try; undefined if it is not. */
export function pauseMs(attempt: number, error: unknown): number | undefined {
  if (error instanceof errors.ServerUnreachable) return backoffMs(attempt);
  if (!(error instanceof errors.ApiError && error.retryable)) return undefined;
  const wait = error.retryAfterMs ?? backoffMs(attempt);
  return wait <= LONGEST_RETRY_AFTER_MS ? wait : undefined;
}

/** The time before the next attempt, doubled each time. */
export function backoffMs(attempt: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS) * (0.8 + 0.4 * Math.random());
}

/** True if sending the call again does the work once: it takes a key, never left, or was refused for its rate. */
export function mayRepeat(call: Call, error: unknown): boolean {
  const safe = ["GET", "PUT"].includes(call.method) || "Idempotency-Key" in call.headers;
  return safe || error instanceof errors.RateLimited || unsent(error);
}

// The codes of Node.js for connections that were never made; in browsers nothing tells.
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

function unsent(error: unknown): boolean {
  const cause = (error as Error).cause as { cause?: unknown; code?: string; errors?: { code?: string }[] } | undefined;
  if (cause === undefined || cause === null) return false;
  if (cause.errors?.length) return cause.errors.every((it) => UNSENT.includes(it.code ?? ""));
  return UNSENT.includes(cause.code ?? "") || unsent(cause);
}

/** Waits; throws the signal's reason when it aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
