/** The errors of the library. Each is a `CallboardError`; the caller's own `AbortSignal` ends a call with its reason. */

/** Anything that this library throws. */
export class CallboardError extends Error {}

/** The address of the server or the credentials cannot be used. */
export class ConfigurationError extends CallboardError {}

/** A value that the server would refuse; nothing was sent. The text names each member and its fault. */
export class InvalidArgument extends CallboardError {}

/** No answer: the server is away, or the connection broke. */
export class ServerUnreachable extends CallboardError {}

/** No answer within the client's time-out. */
export class AnswerTimeout extends ServerUnreachable {}

/** The answer is not one of a Callboard server, but of a proxy or another program. */
export class UnexpectedAnswer extends CallboardError {}

/** The work has not ended within `waitMs`. The work goes on: wait again, or cancel it. */
export class WaitTimeout extends CallboardError {}

/** A task or an execution ended without an output: it failed, was cancelled or was rejected. */
export class WorkFailed<Item = unknown> extends CallboardError {
  /** `code` is that of its error, such as `TASK_TIMEOUT`. */
  constructor(
    message: string,
    readonly item: Item,
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

/** The task ended without an output. */
export class TaskFailed extends WorkFailed<import("./tasks.js").Task> {}

/** The execution did not complete. */
export class ExecutionFailed extends WorkFailed<import("./runs.js").Execution> {}

/** The output does not match the wanted schema. */
export class OutputMismatch extends CallboardError {
  constructor(
    message: string,
    readonly output: string,
  ) {
    super(message);
  }
}

/**
 * The text streamed so far is void: another attempt wrote another text, or a reviewer changed the output.
 *
 * Discard the pieces. `task.wait()` returns the task with its final output; `task.text()` streams anew.
 */
export class StreamReset extends CallboardError {
  constructor(
    message: string,
    readonly task: import("./tasks.js").Task,
  ) {
    super(message);
  }
}

/** Events are missing, because the server does not keep them any more: read the state, then go on from `to`. */
export class EventGap extends CallboardError {
  constructor(
    message: string,
    readonly to: string | undefined,
  ) {
    super(message);
  }
}

/** A webhook is not from the server, or too old. Answer 401 and do nothing. */
export class InvalidSignature extends CallboardError {}

/** The server does not take the worker: its key, its queues or its registration. */
export class WorkerRefused extends CallboardError {}

/** What the server says of a refusal. */
export interface Refusal {
  status: number;
  /** The reason (docs/reference/errors.md). */
  code: string;
  /** Such as `field`, `rule`, and every fault in `errors`. */
  details: Record<string, unknown>;
  /** True if the same request may succeed later. */
  retryable: boolean;
  /** The name of the request in the log of the server. */
  requestId: string | undefined;
  /** The time that the server asks to wait. */
  retryAfterMs: number | undefined;
}

/** The server refused a request. The class tells the status, `code` the reason. */
export class ApiError extends CallboardError {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly retryable: boolean;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, refusal: Refusal) {
    super(`${message} (${refusal.code || refusal.status})`);
    this.status = refusal.status;
    this.code = refusal.code;
    this.details = refusal.details;
    this.retryable = refusal.retryable;
    this.requestId = refusal.requestId;
    this.retryAfterMs = refusal.retryAfterMs;
  }
}

/** 400, 413, 415, 422, 431: the request has a fault. */
export class BadRequest extends ApiError {}
/** A plan or template has faults; `details.errors` lists each. */
export class InvalidDefinition extends BadRequest {}
/** 401: sign in, or use another key. */
export class Unauthorized extends ApiError {}
/** 403: the role may not do this. */
export class Forbidden extends ApiError {}
/** 403: the work does not fit a budget. */
export class BudgetExceeded extends Forbidden {}
/** 403: the account has as much as it may. */
export class QuotaExceeded extends Forbidden {}
/** 404: the item does not exist, or the caller may not see it. */
export class NotFound extends ApiError {}
/** 409: the state of the item does not permit this. */
export class Conflict extends ApiError {}
/** 409: another decision came first; `details` has `decidedBy` and `decidedAt`. */
export class AlreadyDecided extends Conflict {}
/** 409, 422: the idempotency key is in use, or was used with another request. */
export class IdempotencyConflict extends Conflict {}
/** 429: wait for `retryAfterMs`. */
export class RateLimited extends ApiError {}
/** 503, 408, 507: the server starts, stops or is overloaded, the request was slow, or the disk has no room for new work. */
export class Unavailable extends ApiError {}
/** 500: a fault of the server; its log has `requestId`. */
export class ServerFault extends ApiError {}

// The names of classes do not outlive a minifier.
const NAMED = {
  CallboardError,
  ConfigurationError,
  InvalidArgument,
  ServerUnreachable,
  AnswerTimeout,
  UnexpectedAnswer,
  WaitTimeout,
  WorkFailed,
  TaskFailed,
  ExecutionFailed,
  OutputMismatch,
  StreamReset,
  EventGap,
  InvalidSignature,
  WorkerRefused,
  ApiError,
  BadRequest,
  InvalidDefinition,
  Unauthorized,
  Forbidden,
  BudgetExceeded,
  QuotaExceeded,
  NotFound,
  Conflict,
  AlreadyDecided,
  IdempotencyConflict,
  RateLimited,
  Unavailable,
  ServerFault,
};
for (const [name, kind] of Object.entries(NAMED)) Object.defineProperty(kind.prototype, "name", { value: name });

const CODES: [typeof ApiError, string][] = [
  [
    BadRequest,
    "VALIDATION_ERROR INVALID_JSON INVALID_YAML PAYLOAD_TOO_LARGE UNSUPPORTED_MEDIA_TYPE RANGE_NOT_SATISFIABLE",
  ],
  [BadRequest, "HEADERS_TOO_LARGE METHOD_NOT_ALLOWED WEAK_PASSWORD CALLBACK_URL_FORBIDDEN"],
  [InvalidDefinition, "CIRCULAR_DEPENDENCY UNREACHABLE_STEP MISSING_DEPENDENCY UNDECLARED_DEPENDENCY"],
  [InvalidDefinition, "DUPLICATE_STEP_ID INVALID_INPUT_REF INVALID_CONDITION ENV_NOT_ALLOWED"],
  [Unauthorized, "UNAUTHORIZED INVALID_TOKEN TOKEN_EXPIRED INVALID_CREDENTIALS"],
  [Forbidden, "FORBIDDEN PASSWORD_CHANGE_REQUIRED"],
  [BudgetExceeded, "BUDGET_EXCEEDED"],
  [QuotaExceeded, "QUOTA_EXCEEDED"],
  [NotFound, "NOT_FOUND"],
  [Conflict, "INVALID_STATE VERSION_EXISTS EMAIL_EXISTS"],
  [AlreadyDecided, "ALREADY_DECIDED"],
  [IdempotencyConflict, "IDEMPOTENCY_KEY_IN_USE IDEMPOTENCY_KEY_REUSED"],
  [RateLimited, "RATE_LIMIT_EXCEEDED"],
  [Unavailable, "UNAVAILABLE REQUEST_TIMEOUT INSUFFICIENT_STORAGE"],
  [ServerFault, "INTERNAL_ERROR"],
];

/** The class of each code. */
export const byCode: ReadonlyMap<string, typeof ApiError> = new Map(
  CODES.flatMap(([kind, codes]) => codes.split(" ").map((code) => [code, kind] as const)),
);

/** The class of a status, for a code that this version of the library does not know. */
export const byStatus: ReadonlyMap<number, typeof ApiError> = new Map([
  [400, BadRequest],
  [401, Unauthorized],
  [403, Forbidden],
  [404, NotFound],
  [409, Conflict],
  [413, BadRequest],
  [422, BadRequest],
  [429, RateLimited],
  [500, ServerFault],
  [503, Unavailable],
]);
