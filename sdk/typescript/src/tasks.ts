import {
  type CallOptions,
  call,
  type Data,
  type KeyOptions,
  type Query,
  type Call as Request,
  randomKey,
  refusal,
  sleep,
  type WaitOptions,
} from "./call.js";
import { checked, encoded } from "./check.js";
import * as errors from "./errors.js";
import { itemOf, Resource } from "./item.js";
import { jsonSchemaOf, type OutputOf, type OutputSchema, parsed } from "./output.js";
import type { Filters, Pages } from "./pages.js";
import type * as models from "./schema.js";
import { Text } from "./sse.js";

/** The members of a task beside its prompt (docs/reference/tasks.md), and options of the call. */
export interface TaskOptions
  extends Omit<models.CreateTask, "prompt" | "function" | "args" | "outputSchema" | "idempotencyKey">,
    KeyOptions {}

/** The call of a worker's function, in place of a prompt. */
export interface Call {
  function: string;
  args?: Record<string, unknown>;
}

/** What became of a task of `importLines`: its id, or the reason why it was refused. */
export interface Imported {
  /** The place of the task among those that were given, from 0. */
  index: number;
  id?: string;
  /** A refusal of the server, or before the task was sent. */
  error?: errors.CallboardError;
}

const NDJSON = "application/x-ndjson";
// A load of this size is answered in the buffers of a connection: fetch may read only when all is sent.
const [LOAD_LINES, LOAD_LENGTH] = [1000, 1 << 20];

/** A task, as the server last showed it: `refresh` and `wait` read it again. */
export class Task extends itemOf<models.Task>() {
  /** Reads the task again. */
  async refresh(options: CallOptions = {}): Promise<this> {
    return this.take(await this.transport.send("GET", "/api/tasks/{id}", { names: { id: this.id }, ...options }));
  }

  /**
   * Waits until the task has ended, over broken connections and restarts of the server.
   *
   * Throws `TaskFailed` if it ended without an output, unless `check` is false; `WaitTimeout` after `waitMs`. The task
   * goes on in any case.
   */
  async wait(options: WaitOptions & { check?: boolean } = {}): Promise<this> {
    for await (const event of this.transport.follow("/api/tasks/{id}", this.id, options)) {
      if (event.name === "end") this.take(event.data);
    }
    return options.check === false ? this : this.#checked();
  }

  #checked(): this {
    if (this.status === "completed") return this;
    const told = this.error ? `: ${this.error.message}` : "";
    const ended = this.status === "failed" ? "failed" : `was ${this.status}`;
    throw new errors.TaskFailed(`task ${this.id} ${ended}${told}`, this, this.error?.code);
  }

  /** The output as a value of a schema; throws `OutputMismatch` if it is none. */
  parse<S extends OutputSchema>(schema: S): Promise<OutputOf<S>> {
    return parsed(schema, this.output ?? "");
  }

  /** The output as plain JSON, such as the value of a function; throws `OutputMismatch` if it is none. */
  value(): Promise<unknown> {
    return parsed({}, this.output ?? "");
  }

  /**
   * The pieces of the output, as the model writes them; together they are `output`.
   *
   * Afterwards the task is as it ended. Throws `StreamReset` if the pieces are void (another attempt wrote another text),
   * `TaskFailed`, `WaitTimeout`.
   */
  async *text(options: WaitOptions = {}): AsyncGenerator<string, void, void> {
    const told = new Text();
    for await (const event of this.transport.follow("/api/tasks/{id}", this.id, options)) {
      if (event.name === "end") this.take(event.data).#checked();
      const fresh = told.next(event.name, event.data);
      if (fresh === undefined) {
        throw new errors.StreamReset(`the text streamed so far is void: task ${this.id} has another one`, this);
      }
      if (fresh !== "") yield fresh;
    }
  }

  /** Cancels the task. Throws `Conflict` if it has ended. */
  cancel(options?: CallOptions): Promise<models.Cancelled> {
    return new Tasks(this.transport).cancel(this.id, options);
  }

  /** Submits the ended task anew. `retry` is the policy of its attempts. */
  submitAgain(options?: KeyOptions): Promise<Task> {
    return new Tasks(this.transport).retry(this.id, options);
  }

  /** Erases the texts of the ended task. Requires the role admin. */
  erase(reason: string, options?: CallOptions): Promise<models.Erased> {
    return new Tasks(this.transport).erase(this.id, reason, options);
  }
}

/** `cb.tasks`: one prompt each, which one worker runs on one model, or one call of a worker's function. */
export class Tasks extends Resource {
  /**
   * Submits a task, waits for it, and returns its output: a value of `schema`, or the text without one.
   *
   * `schema` is a zod schema, another Standard Schema, or a JSON Schema. Throws `TaskFailed`, `WaitTimeout` after
   * `waitMs`, `OutputMismatch`.
   */
  run<S extends OutputSchema>(prompt: string, options: TaskOptions & WaitOptions & { schema: S }): Promise<OutputOf<S>>;
  run(prompt: string, options?: TaskOptions & WaitOptions): Promise<string>;
  async run(prompt: string, options: TaskOptions & WaitOptions & { schema?: OutputSchema } = {}): Promise<unknown> {
    const { waitMs, signal, schema } = options;
    const task = await this.#submitted(prompt, options);
    await task.wait({ waitMs, signal });
    return schema === undefined ? (task.output ?? "") : task.parse(schema);
  }

  /**
   * Submits the call of a function, waits for it, and returns its value: a value of `schema`, or plain JSON without one.
   *
   * A connected worker must run the function, or the task waits for one. Throws as `run`.
   */
  runFunction<S extends OutputSchema>(
    name: string,
    args: Record<string, unknown>,
    options: TaskOptions & WaitOptions & { schema: S },
  ): Promise<OutputOf<S>>;
  runFunction(name: string, args?: Record<string, unknown>, options?: TaskOptions & WaitOptions): Promise<unknown>;
  async runFunction(
    name: string,
    args: Record<string, unknown> = {},
    options: TaskOptions & WaitOptions & { schema?: OutputSchema } = {},
  ): Promise<unknown> {
    const { waitMs, signal, schema } = options;
    const task = await this.#submitted({ function: name, args }, options);
    await task.wait({ waitMs, signal });
    return schema === undefined ? task.value() : task.parse(schema);
  }

  /** Submits a prompt, or the call of a function. When the promise resolves, the task is on the server's disk. */
  submit(work: string | Call, options: TaskOptions & { schema?: OutputSchema } = {}): Promise<Task> {
    return this.#submitted(work, options);
  }

  async #submitted(work: string | Call, options: TaskOptions & WaitOptions & { schema?: OutputSchema }): Promise<Task> {
    const { signal, idempotencyKey, waitMs, schema, ...members } = options;
    const outputSchema = schema && jsonSchemaOf(schema);
    const named = typeof work === "string" ? { prompt: work } : work;
    const body = checked("CreateTask", { ...named, ...members, outputSchema });
    return this.#task(
      await this.transport.send("POST", "/api/tasks", { body, key: { value: idempotencyKey }, signal }),
    );
  }

  /** Submits a task at the first piece, and yields the pieces of its output (`Task.text`). */
  async *stream(prompt: string, options: TaskOptions & WaitOptions = {}): AsyncGenerator<string, void, void> {
    const { waitMs, signal } = options;
    const task = await this.#submitted(prompt, options);
    yield* task.text({ waitMs, signal });
  }

  /** Submits up to 100 tasks, all or none. */
  submitBatch(tasks: readonly models.NewTask[], options: KeyOptions = {}): Promise<models.Batch> {
    const { signal, idempotencyKey: value } = options;
    const body = checked("CreateBatch", { tasks });
    return this.transport.send("POST", "/api/tasks/batch", { body, key: { value }, signal });
  }

  /**
   * Submits any number of tasks, read as they are needed, and yields what became of each, in their order.
   *
   * A refused task stops no other. Each has an idempotency key (its `idempotencyKey`, or one that the library makes), so
   * tasks whose answer did not arrive are sent again, for at most `patienceMs`.
   */
  async *importLines(
    tasks: Iterable<models.CreateTask> | AsyncIterable<models.CreateTask>,
    options: CallOptions = {},
  ): AsyncGenerator<Imported, void, void> {
    const bulk = call("POST", "/api/tasks/bulk", { content: "", contentType: NDJSON }, { Accept: NDJSON });
    let load = new Map<number, string>();
    let done = new Map<number, Imported>();
    let [index, length] = [0, 0];
    for await (const task of tasks) {
      try {
        const line = `${encoded({ idempotencyKey: randomKey(), ...checked("CreateTask", { ...task }) })}\n`;
        load.set(index, line);
        length += line.length;
      } catch (error) {
        if (!(error instanceof errors.InvalidArgument)) throw error;
        done.set(index, { index, error });
      }
      index += 1;
      if (load.size + done.size >= LOAD_LINES || length >= LOAD_LENGTH) {
        yield* await this.#imported(bulk, load, done, options.signal);
        [load, done, length] = [new Map(), new Map(), 0];
      }
    }
    yield* await this.#imported(bulk, load, done, options.signal);
  }

  async #imported(
    bulk: Request,
    load: Map<number, string>,
    done: Map<number, Imported>,
    signal: AbortSignal | undefined,
  ): Promise<Imported[]> {
    const outage = this.transport.outage();
    const open = () => [...load].filter(([index]) => !done.has(index));
    for (let left = open(); left.length > 0; left = open()) {
      const request = { ...bulk, content: left.map(([, line]) => line).join("") };
      const before = done.size;
      let failure: unknown = new errors.ServerUnreachable(`${this.transport.server} has not answered every line`);
      try {
        const decoder = new TextDecoder();
        let rest = "";
        for await (const chunk of this.transport.open(request, signal)) {
          const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) {
            const answer = JSON.parse(line);
            const error = answer.error && refusal(answer.error, 400);
            const index = left[answer.line - 1]?.[0];
            if (index === undefined || error?.retryable) failure = error ?? failure;
            else done.set(index, error ? { index, error } : { index, id: answer.id });
          }
        }
      } catch (error) {
        failure = error;
      }
      if (done.size > before) outage.over();
      if (open().length > 0) await sleep(outage.pauseMs(failure), signal);
    }
    return [...done.values()].sort((one, other) => one.index - other.index);
  }

  /** Reads a batch: the status of its tasks. */
  batch(id: string, options: CallOptions = {}): Promise<models.BatchStatus> {
    return this.transport.send("GET", "/api/tasks/batch/{id}", { names: { id }, ...options });
  }

  /** Reads a task with its texts. */
  async get(id: string, options: CallOptions = {}): Promise<Task> {
    return this.#task(await this.transport.send("GET", "/api/tasks/{id}", { names: { id }, ...options }));
  }

  /** Lists tasks without their texts, the newest first. */
  list(filters: Filters<"/api/tasks"> = {}): Pages<Task> {
    return this.pages("GET", "/api/tasks", { filters }, (it) => this.#task(it));
  }

  /** Searches the prompts and outputs of the last days for words; `cursor` is the `next` of an answer. */
  search(q: string, options: Omit<Query<"/api/search">, "q"> & CallOptions = {}): Promise<models.Search> {
    const { signal, ...members } = options;
    return this.transport.send("GET", "/api/search", { query: { q, ...members }, signal });
  }

  /** Streams the output of a task that was submitted before (`Task.text`). */
  async *text(id: string, options: WaitOptions = {}): AsyncGenerator<string, void, void> {
    yield* (await this.get(id, options)).text(options);
  }

  /** Cancels a task. Throws `Conflict` if it has ended. */
  cancel(id: string, options: CallOptions = {}): Promise<models.Cancelled> {
    return this.transport.send("DELETE", "/api/tasks/{id}", { names: { id }, ...options });
  }

  /** Submits an ended task anew. */
  async retry(id: string, options: KeyOptions = {}): Promise<Task> {
    const { signal, idempotencyKey: value } = options;
    return this.#task(
      await this.transport.send("POST", "/api/tasks/{id}/retry", { names: { id }, key: { value }, signal }),
    );
  }

  /** Erases the texts of an ended task. Requires the role admin. */
  erase(id: string, reason: string, options: CallOptions = {}): Promise<models.Erased> {
    const body = checked("EraseTexts", { reason });
    return this.transport.send("DELETE", "/api/tasks/{id}/texts", { names: { id }, body, ...options });
  }

  #task(data: Data<"GET", "/api/tasks/{id}">): Task {
    return new Task(this.transport, data);
  }
}
