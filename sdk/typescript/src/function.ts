/** A function of a worker: its announcement, and its call with the args of a task. */
import { Failure, type Task } from "./assigned.js";
import { OutputMismatch } from "./errors.js";
import { frame, MAX_FRAME, unless } from "./handler.js";
import { jsonSchemaOf, type OutputOf, type OutputSchema, parsed } from "./output.js";

/** A function that the worker announces. */
export interface FunctionOptions<Args extends OutputSchema = OutputSchema> {
  /** The schema of the args: zod's, another Standard Schema, or a JSON Schema, which does not check them. */
  args: Args;
  /** The schema of the result, for people. */
  output?: OutputSchema;
  /** For people. */
  description?: string;
}

/** Calls a function; what it returns becomes JSON. Throw a `Failure` for a call that has no result. */
export type FunctionHandler<Args extends OutputSchema = OutputSchema> = (
  args: OutputOf<Args>,
  task: Task,
) => unknown | Promise<unknown>;

/** A function, ready to be called. */
export interface WorkerFunction {
  announcement: Record<string, unknown>;
  /** The frame of the result. */
  call(lease: string, task: Task): Promise<string>;
}

/** Makes the schemas of a function; throws `InvalidArgument` if they are none. */
export function workerFunction<Args extends OutputSchema>(
  name: string,
  { args, output, description }: FunctionOptions<Args>,
  handler: FunctionHandler<Args>,
): WorkerFunction {
  return {
    announcement: {
      name,
      description: description?.slice(0, 1024),
      inputSchema: jsonSchemaOf(args),
      outputSchema: output && jsonSchemaOf(output),
    },
    call: async (lease, task) => {
      const given = await checkedArgs(args, task);
      const value = await unless(task.signal, (async () => handler(given, task))());
      return returned(lease, task, value);
    },
  };
}

async function checkedArgs<Args extends OutputSchema>(schema: Args, task: Task): Promise<OutputOf<Args>> {
  try {
    return await parsed(schema, JSON.stringify(task.args ?? {}));
  } catch (error) {
    if (!(error instanceof OutputMismatch)) throw error;
    const told = error.message.replace("the output does not match: ", "args.");
    throw new Failure(told.replaceAll("; ", "; args."), { retryable: false });
  }
}

/** The frame of a function's result; undefined is null. */
function returned(lease: string, task: Task, value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new Failure(`the function returned no JSON: ${(error as Error).message}`, { retryable: false });
  }
  const output = json === undefined ? null : JSON.parse(json.toWellFormed());
  const text = frame({ type: "complete", lease, output, cost: task.cost || undefined });
  if (Buffer.byteLength(text) > MAX_FRAME) {
    throw new Failure(`the output does not fit a frame of ${MAX_FRAME} bytes`, { retryable: false });
  }
  return text;
}
