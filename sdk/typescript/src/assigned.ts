/** What a worker's functions get and give. */

/** A part of a turn. */
export type Part = { type: "text"; text: string } | { type: "image" | "document"; file: TaskFile };

/** An earlier turn. */
export interface Message {
  role: string;
  content: string | Part[];
}

/** A turn for a chat model. */
export interface ChatTurn {
  role: string;
  content: string;
}

/** A file of a task. */
export interface TaskFile {
  readonly id: string;
  readonly name?: string;
  readonly contentType: string;
  readonly bytes: number;
  /** Empty for a file that was deleted. */
  readonly sha256: string;
  /** Reads the bytes from the server, with the worker's key. */
  read(): Promise<Uint8Array>;
}

/** The members of a lease's task (docs/reference/workers.md). */
interface Members {
  id: string;
  model: string;
  queue: string;
  /** Empty for a call of a function. */
  prompt: string;
  /** The function to call with `args`, in place of a prompt. */
  function?: string;
  args?: Record<string, unknown>;
  systemPrompt?: string;
  context?: Record<string, unknown>;
  messages?: Message[];
  /** The files that go with the prompt, or that the function reads. */
  files?: TaskFile[];
  maxTokens?: number;
  temperature?: number;
  topP?: number;
  seed?: number;
  frequencyPenalty?: number;
  stop?: string | string[];
  serviceTier?: string;
  /** The server checks the output against it in any case. */
  outputSchema?: Record<string, unknown>;
  confidence?: Record<string, unknown>;
  /** False if nothing reads a confidence. */
  logprobs?: boolean;
  planExecutionId?: string;
  stepId?: string;
  item?: number;
  traceparent?: string;
}

/** The frames of the server (docs/reference/workers.md). */
export type Heard =
  | Registered
  | Assign
  | { type: "leases"; lost?: string[] }
  | { type: "ack" | "cancel"; lease: string }
  | { type: "drain"; deadlineMs: number }
  | { type: "error"; error?: { message: string } };

export interface Registered {
  type: "registered";
  workerId: string;
  heartbeatMs: number;
  lost?: string[];
  takes?: string[];
}

export interface Assign {
  type: "assign";
  lease: string;
  attempt: number;
  timeoutMs?: number;
  task: Members;
}

const Base = class {} as new () => Members;

/** A task to run. */
export class Task extends Base {
  constructor(
    members: Members,
    readonly attempt: number,
    readonly timeoutMs: number | undefined,
    /** Aborts once nobody wants the result: pass it on to the provider's library. */
    readonly signal: AbortSignal,
    read: (file: TaskFile, signal: AbortSignal) => Promise<Uint8Array> = () => Promise.reject(new Failure("no server")),
  ) {
    super();
    Object.assign(this, members);
    this.prompt ??= "";
    const readable = (file: TaskFile) => ({ ...file, read: () => read(file, signal) });
    this.files = (members.files ?? []).map(readable);
    const part = (it: Part) => (it.type === "text" ? it : { ...it, file: readable(it.file) });
    const turn = ({ role, content }: Message) => ({
      role,
      content: typeof content === "string" ? content : content.map(part),
    });
    if (members.messages) this.messages = members.messages.map(turn);
  }

  #cost = 0;

  /** The cost of a function's call so far, in USD. */
  get cost(): number {
    return this.#cost;
  }

  /** Adds to the cost of a function's call, in USD. That of a model comes from the server's price table. */
  charge(cost: number): void {
    if (!(cost >= 0 && cost <= 1_000_000)) throw new RangeError(`the cost ${cost} is not within 0 to 1000000`);
    this.#cost += cost;
  }

  /** The turns for a chat model, in the order that the server promises, without the files of `messages`. */
  chat(): ChatTurn[] {
    const context = this.context && `Context:\n${JSON.stringify(this.context)}`;
    const system = [this.systemPrompt, context].flatMap((content) => (content ? [{ role: "system", content }] : []));
    const earlier = (this.messages ?? []).map(({ role, content }) => ({ role, content: textOf(content) }));
    return [...system, ...earlier, { role: "user", content: this.prompt }];
  }
}

/** The texts of a turn, without the files between them. */
function textOf(content: Message["content"]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** Tokens of a call; `input` counts cached ones too. */
export interface Usage {
  input: number;
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
}

/** An output with what the provider says of it. */
export interface Result {
  /** Of an iterator, the pieces together unless it is given. */
  output?: string;
  /** Without it, four characters count as a token. */
  usage?: Usage;
  /** 0 to 1. */
  confidence?: number;
  /** `length` means that the output is cut. */
  finishReason?: string;
  thinking?: string;
}

export interface FailureOptions {
  /** `PROVIDER_ERROR` (default), `PROVIDER_RATE_LIMITED`, `TASK_TIMEOUT` or `OUTPUT_INVALID`. */
  code?: string;
  /** Default: true. */
  retryable?: boolean;
  retryAfterMs?: number;
}

/** Throw it for a task that has no result. Any other error is a retryable `PROVIDER_ERROR`. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly code: string;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { code = "PROVIDER_ERROR", retryable = true, retryAfterMs }: FailureOptions = {}) {
    super(message);
    this.code = code;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}
