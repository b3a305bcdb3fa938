/** The typed client of the HTTP interface: calls, the envelope, refusals. */
import { t } from "@lingui/core/macro";
import createClient from "openapi-fetch";
import { HEADER, project } from "../lib/project";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Approval = Schemas["Approval"];

/** A refusal of the server, or the lack of an answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
    readonly retryable = false,
    readonly requestId?: string,
  ) {
    super(message);
  }

  /** Every fault of a definition or a body, by field. */
  get faults(): { field: string; message: string; code: string }[] {
    const all = this.details.errors;
    if (Array.isArray(all)) return all;
    const field = this.details.field;
    return typeof field === "string" ? [{ field, message: this.message, code: this.code }] : [];
  }
}

export type Page<T> = { items: T[]; total: number; limit: number; offset: number; hasMore: boolean };

type Get<P extends keyof paths> = paths[P] extends { get: infer O } ? O : never;
type Json<R> = R extends { content: { "application/json": infer B } } ? B : never;
type Ok<O> = O extends { responses: infer R }
  ? R extends { 200: infer A }
    ? Json<A>
    : R extends { 201: infer A }
      ? Json<A>
      : never
  : never;
type Enveloped<O> = Ok<O> extends { data: infer D } ? D : Ok<O>;
type Item<D> = D extends (infer I)[] ? I : never;

/** The paths that can be read. */
export type GetPath = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
/** The data of a path. */
export type DataOf<P extends GetPath> = Enveloped<Get<P>>;
/** An item of a list. */
export type ItemOf<P extends GetPath> = Item<DataOf<P>>;
/** What a path and its query take. */
export type ParamsOf<P extends GetPath> =
  Get<P> extends { parameters: infer A }
    ? { path?: A extends { path: infer V } ? V : never; query?: A extends { query?: infer V } ? V : never }
    : never;

/** For calls with a body: `api.POST("/api/tasks", { body })` through `unwrap`. */
export const api = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? "",
  credentials: "same-origin",
  // A list in a query is written with commas.
  querySerializer: { array: { style: "form", explode: false } },
});

/** The user's own account and the server's users: of no project, and open to one who has lost a project. */
const OF_NO_PROJECT = /^\/api\/auth\/(?!session|keys)/;

api.use({
  onRequest({ request, schemaPath }) {
    const isOfProject = !request.headers.has(HEADER) && !OF_NO_PROJECT.test(schemaPath);
    if (project && isOfProject) request.headers.set(HEADER, project);
  },
});

type Envelope = { success: boolean; data?: unknown; pagination?: Omit<Page<unknown>, "items"> };
type Answer<T> = { data?: T; error?: unknown; response: Response };

async function settled<T>(call: Promise<Answer<T>>): Promise<Envelope> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, "UNREACHABLE", t`the server cannot be reached`, {}, true);
  }
  if (answer.error !== undefined || !answer.response.ok) {
    throw refusal(answer.response, answer.error);
  }
  return answer.data as Envelope;
}

/** The refusal in the body of an answer. */
export function refusal(response: Pick<Response, "status" | "headers">, body: unknown): ApiError {
  const envelope = body as { error?: Partial<ApiError>; meta?: { requestId?: string } } | undefined;
  const error = envelope?.error;
  const id = envelope?.meta?.requestId ?? response.headers.get("x-request-id") ?? undefined;
  const message = error?.message ?? t`the server answered ${response.status}`;
  return new ApiError(
    response.status,
    error?.code ?? "UNKNOWN",
    message,
    error?.details,
    error?.retryable,
    id,
  );
}

/** The data of an answer; throws `ApiError`. */
export async function unwrap<T>(
  call: Promise<Answer<T>>,
): Promise<T extends { data: infer D } ? D : undefined> {
  return (await settled(call)).data as never;
}

/** Reads a path. */
export async function get<P extends GetPath>(
  path: P,
  params?: ParamsOf<P>,
  signal?: AbortSignal,
  headers?: HeadersInit,
): Promise<DataOf<P>> {
  // The parameters of openapi-fetch cannot be inferred for a path that is itself a parameter.
  const call = api.GET as unknown as (path: string, init: object) => Promise<Answer<unknown>>;
  return (await settled(call(path, { params, signal, headers }))).data as DataOf<P>;
}

/** Reads a page of a list. */
export async function getPage<P extends GetPath>(
  path: P,
  params?: ParamsOf<P>,
  signal?: AbortSignal,
  headers?: HeadersInit,
): Promise<Page<ItemOf<P>>> {
  const call = api.GET as unknown as (path: string, init: object) => Promise<Answer<unknown>>;
  const { data, pagination } = await settled(call(path, { params, signal, headers }));
  const items = data as ItemOf<P>[];
  return { total: items.length, limit: items.length, offset: 0, hasMore: false, ...pagination, items };
}
