import { checked } from "./check.js";
import { InvalidArgument } from "./errors.js";
import { jsonSchemaOf, type OutputSchema } from "./output.js";
import type * as models from "./schema.js";

// A placeholder of another step's output; a text in quotes stands as it is.
const OUTPUT = /\{\{\s*(?:"[^"]*"|'[^']*'|([a-z][a-z0-9-]*)\s*(?:\.output|\[\s*["']output))/g;
const CONDITION = /steps\s*\[\s*["']([a-z][a-z0-9-]*)["']\s*\]/g;

/** A step of a definition, for the prompts and the dependencies of later steps. */
export class Step {
  /** `body` is the step as it is sent. */
  constructor(readonly body: Readonly<models.StepRequest>) {}

  get id(): string {
    return this.body.id;
  }

  /** The placeholder of its output. */
  get output(): string {
    return `{{${this.id}.output}}`;
  }

  /** The placeholder of a member of its output, such as `facts.0.name`. */
  member(path: string): string {
    return `{{${this.id}.output.${path}}}`;
  }
}

type Dependencies = { dependsOn?: readonly (Step | string)[]; schema?: OutputSchema };
/** The members of a step that calls a model (docs/reference/templates.md); `schema` is that of its output. */
export type StepOptions = Omit<
  models.StepRequest,
  "id" | "type" | "prompt" | "function" | "args" | "dependsOn" | "outputSchema" | "signal" | "schema"
> &
  Dependencies;
/** The members of a step that calls a function; `schema` is that of its output. */
export type CallStepOptions = Pick<
  models.StepRequest,
  | "title"
  | "queue"
  | "condition"
  | "requiresApproval"
  | "timeoutMs"
  | "retry"
  | "forEach"
  | "item"
  | "maxItems"
  | "concurrency"
  | "onItemError"
  | "minSuccess"
  | "concurrencyKey"
  | "concurrencyLimit"
  | "onConflict"
  | "fairnessKey"
  | "weight"
> &
  Dependencies;
/** The members of a step that waits for a signal; `schema` is that of the payload. */
export type WaitForOptions = Pick<models.StepRequest, "condition" | "timeoutMs"> & Dependencies;

/** The steps of a plan or a template. A mistake is an `InvalidArgument` before anything is sent. */
export abstract class Definition {
  readonly #steps = new Map<string, Step>();

  /** Adds a step that calls a model. */
  step(id: string, prompt: string, options: StepOptions = {}): Step {
    const { schema, dependsOn, ...members } = options;
    return this.#add({ id, prompt, ...members, outputSchema: schema && jsonSchemaOf(schema) }, dependsOn);
  }

  /**
   * Adds a step that calls a function of a worker. The strings of `args` may have placeholders; one that is a placeholder
   * and nothing else, such as `extract.output`, becomes the value with its type.
   */
  call(id: string, name: string, args: Record<string, unknown> = {}, options: CallStepOptions = {}): Step {
    const { schema, dependsOn, ...members } = options;
    const outputSchema = schema && jsonSchemaOf(schema);
    return this.#add({ id, function: name, args, ...members, outputSchema }, dependsOn);
  }

  /** Adds a step that waits for a signal, whose payload is its output. */
  waitFor(id: string, signal: string, options: WaitForOptions = {}): Step {
    const { schema, dependsOn, ...members } = options;
    return this.#add({ id, type: "wait", signal, ...members, schema: schema && jsonSchemaOf(schema) }, dependsOn);
  }

  #add(members: Record<string, unknown>, needs: readonly (Step | string)[] | undefined): Step {
    const dependsOn = needs?.map((it) => (it instanceof Step ? it.id : it));
    const step = new Step(checked("StepRequest", { ...members, dependsOn }) as unknown as models.StepRequest);
    if (this.#steps.has(step.id)) throw new InvalidArgument(`the step ${step.id} exists: give the second another id`);
    this.#steps.set(step.id, step);
    return step;
  }

  /** The steps as they are sent: what they read and depend on exists, without a circle. */
  protected checkedSteps(): Readonly<models.StepRequest>[] {
    const open = new Map([...this.#steps.values()].map((it) => [it.id, new Set(it.body.dependsOn)]));
    for (const { id, body } of this.#steps.values()) {
      for (const name of body.dependsOn ?? []) {
        if (!open.has(name)) throw new InvalidArgument(`step ${id} depends on ${name}, which is no step`);
      }
      for (const name of reads(body)) {
        if (open.get(id)?.has(name)) continue;
        const why = open.has(name) ? ": name it in dependsOn" : ", which is no step";
        throw new InvalidArgument(`step ${id} reads the output of ${name}${why}`);
      }
    }
    for (let before = -1; before !== open.size; ) {
      before = open.size;
      for (const [id, needs] of open) if (![...needs].some((it) => open.has(it))) open.delete(id);
    }
    if (open.size > 0) throw new InvalidArgument(`the steps ${[...open.keys()].sort().join(", ")} wait for each other`);
    return [...this.#steps.values()].map((it) => it.body);
  }

  /** The definition as it is sent. */
  abstract body(): Record<string, unknown>;
}

/** The steps whose outputs the texts of a step read. */
function reads(body: Readonly<models.StepRequest>): Set<string> {
  const prompts = [body.prompt, body.systemPrompt, ...texts(body.messages?.map((it) => it.content))];
  const lists = typeof body.forEach === "object" ? Object.values(body.forEach ?? {}) : [body.forEach];
  const found = [...prompts, ...texts(body.args), body.condition, ...lists].flatMap((it) => names(OUTPUT, it));
  found.push(...[body.condition, ...lists].flatMap((it) => names(CONDITION, it)));
  const variables = typeof body.forEach === "object" ? Object.keys(body.forEach ?? {}) : [body.item ?? "item"];
  const own = ["input", "env", "meta", ...variables];
  return new Set(found.filter((it) => !own.includes(it)));
}

/** The strings within args. */
function texts(args: unknown): string[] {
  if (typeof args === "string") return [args];
  return typeof args === "object" && args !== null ? Object.values(args).flatMap(texts) : [];
}

function names(pattern: RegExp, text: string | null | undefined): string[] {
  return [...(text ?? "").matchAll(pattern)].flatMap((it) => it[1] ?? []);
}

/** A plan: `cb.plans.create(plan)`. */
export class Plan extends Definition {
  readonly #members: Omit<models.PlanRequest, "steps">;

  constructor(name: string, members: Omit<models.PlanRequest, "name" | "steps"> = {}) {
    super();
    this.#members = { name, ...members };
  }

  override body(): Record<string, unknown> {
    return checked("PlanRequest", { ...this.#members, steps: this.checkedSteps() });
  }
}

/** The members of a template (docs/reference/templates.md). */
export type TemplateOptions = Omit<
  models.TemplateRequest,
  "name" | "industry" | "inputSchema" | "outputSchema" | "steps"
> & {
  /** The schema of the input: zod's, another Standard Schema, or a JSON Schema. */
  input: OutputSchema;
  /** The schema of the last step's output. */
  output?: OutputSchema;
  /** Default: `custom`. */
  industry?: models.TemplateRequest["industry"];
};

/** A version of a template: `cb.templates.publish(template)`. */
export class Template extends Definition {
  readonly #members: Omit<models.TemplateRequest, "steps">;

  constructor(name: string, options: TemplateOptions) {
    super();
    const { input, output, industry = "custom", ...members } = options;
    this.#members = { name, industry, ...members, inputSchema: jsonSchemaOf(input) };
    if (output) this.#members.outputSchema = jsonSchemaOf(output);
  }

  override body(): Record<string, unknown> {
    return checked("TemplateRequest", { ...this.#members, steps: this.checkedSteps() });
  }
}
