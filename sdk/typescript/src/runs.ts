import { Definition, type Plan, type Template } from "./build.js";
import type { CallOptions, Data, KeyOptions, WaitOptions } from "./call.js";
import { checked } from "./check.js";
import * as errors from "./errors.js";
import { itemOf, Resource } from "./item.js";
import type { Filters, Pages } from "./pages.js";
import type * as models from "./schema.js";
import type { ServerEvent } from "./sse.js";
import type { Transport } from "./transport.js";

type Input = Record<string, unknown>;
type Shown = Omit<models.Execution, "steps"> & { steps: Record<string, models.StepResult> };

/** An execution, as the server last showed it: `refresh` and `wait` read it again. `steps` is empty in lists. */
export class Execution extends itemOf<Shown>() {
  constructor(transport: Transport, data: models.Execution) {
    super(transport, { ...data, steps: data.steps ?? {} });
  }

  /** Reads the execution again. */
  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#now(await new Executions(this.transport).get(this.id, options));
  }

  #now(data: models.Execution): this {
    return this.take({ ...data, steps: data.steps ?? {} });
  }

  /**
   * Waits until the execution has ended, over broken connections and restarts of the server.
   *
   * Throws `ExecutionFailed` unless it completed or `check` is false; `WaitTimeout` after `waitMs`. The execution goes on
   * in any case.
   */
  async wait(options: WaitOptions & { check?: boolean } = {}): Promise<this> {
    for await (const _ of this.follow(options));
    if (options.check === false || this.status === "completed") return this;
    const { stepId, message, code } = this.error ?? {};
    const told = `${stepId ? ` at step ${stepId}` : ""}${message ? `: ${message}` : ""}`;
    const ended = this.status === "failed" ? "failed" : `was ${this.status}`;
    throw new errors.ExecutionFailed(`execution ${this.id} ${ended}${told}`, this, code);
  }

  /** The events of its stream, `snapshot` first, `end` last; after a broken connection a `snapshot` again. */
  async *follow(options: WaitOptions = {}): AsyncGenerator<ServerEvent, void, void> {
    for await (const event of this.transport.follow("/api/plans/executions/{id}", this.id, options)) {
      if (event.name === "end") this.#now(event.data);
      yield event;
    }
  }

  /** Cancels the execution. */
  async cancel(options?: CallOptions): Promise<this> {
    return this.#now(await new Executions(this.transport).cancel(this.id, options));
  }

  /** Runs failed and cancelled steps again. */
  async retry(options?: CallOptions): Promise<this> {
    return this.#now(await new Executions(this.transport).retry(this.id, options));
  }

  /** Sends a signal, whose payload is the output of the step that waits for it. */
  async signal(name: string, payload?: unknown, options?: KeyOptions & { replace?: boolean }): Promise<this> {
    return this.#now(await new Executions(this.transport).signal(this.id, name, payload, options));
  }
}

/** What a fork changes. */
export interface Fork {
  /** The first step that runs again. */
  fromStep?: string;
  input?: Input;
  /** Another version of the template. */
  version?: string;
}

/** `cb.executions`: runs of plans. */
export class Executions extends Resource {
  /** Reads an execution with its steps. */
  async get(id: string, options: CallOptions = {}): Promise<Execution> {
    return this.#made(await this.transport.send("GET", "/api/plans/executions/{id}", { names: { id }, ...options }));
  }

  /** Lists executions without their steps, the newest first. */
  list(filters: Filters<"/api/plans/executions"> = {}): Pages<Execution> {
    return this.pages("GET", "/api/plans/executions", { filters }, (it) => this.#made(it));
  }

  /** The events of an execution (`Execution.follow`). */
  async *follow(id: string, options: WaitOptions = {}): AsyncGenerator<ServerEvent, void, void> {
    yield* (await this.get(id, options)).follow(options);
  }

  /** Lists the items of a step over a list. */
  items(
    id: string,
    step: string,
    filters: Filters<"/api/plans/executions/{id}/steps/{step}/items"> = {},
  ): Pages<models.Item> {
    return this.pages("GET", "/api/plans/executions/{id}/steps/{step}/items", { names: { id, step }, filters });
  }

  /** Cancels an execution. */
  async cancel(id: string, options: CallOptions = {}): Promise<Execution> {
    return this.#made(await this.transport.send("DELETE", "/api/plans/executions/{id}", { names: { id }, ...options }));
  }

  /** Erases the texts of an ended execution and of its tasks. Requires the role admin. */
  erase(id: string, reason: string, options: CallOptions = {}): Promise<models.ErasedExecution> {
    const body = checked("EraseTexts", { reason });
    return this.transport.send("DELETE", "/api/plans/executions/{id}/texts", { names: { id }, body, ...options });
  }

  /** Runs failed and cancelled steps again. */
  async retry(id: string, options: CallOptions = {}): Promise<Execution> {
    return this.#made(
      await this.transport.send("POST", "/api/plans/executions/{id}/retry", { names: { id }, ...options }),
    );
  }

  /** Starts an execution that takes over the steps that would be the same. */
  async fork(id: string, change: Fork & KeyOptions = {}): Promise<Execution> {
    const { signal, idempotencyKey: value, ...members } = change;
    const given = { names: { id }, body: checked("ForkExecution", members), key: { value }, signal };
    return this.#made(
      (await this.transport.send("POST", "/api/plans/executions/{id}/fork", given)) as models.Execution,
    );
  }

  /** Shows what a fork would run and cost; starts nothing. */
  async forkDryRun(id: string, change: Fork & CallOptions = {}): Promise<models.DryRun> {
    const { signal, ...members } = change;
    const given = { names: { id }, body: checked("ForkExecution", { ...members, dryRun: true }), key: NEW_KEY, signal };
    return (await this.transport.send("POST", "/api/plans/executions/{id}/fork", given)) as models.DryRun;
  }

  /** Sends a signal, whose payload is the output of the step that waits for it. */
  async signal(
    id: string,
    name: string,
    payload?: unknown,
    options: KeyOptions & { replace?: boolean } = {},
  ): Promise<Execution> {
    const { signal, idempotencyKey: value, replace } = options;
    const body = checked("SignalRequest", { payload: payload ?? null, replace });
    const given = { names: { id, name }, body, key: { value }, signal };
    return this.#made(await this.transport.send("POST", "/api/plans/executions/{id}/signals/{name}", given));
  }

  #made(data: Data<"GET", "/api/plans/executions/{id}">): Execution {
    return new Execution(this.transport, data);
  }
}

const NEW_KEY = { value: undefined };

type RunOptions = Omit<models.ExecutePlan, "input"> & KeyOptions;
type DeployOptions = Omit<models.DeployTemplate, "input"> & KeyOptions;

/** `cb.plans`: graphs of steps. */
export class Plans extends Resource {
  /** Creates a plan. Not repeated after a lost answer, because the server takes no key for it. */
  create(plan: Plan | models.PlanRequest, options: CallOptions = {}): Promise<models.Plan> {
    return this.transport.send("POST", "/api/plans", { body: definition("PlanRequest", plan), ...options });
  }

  /** Reads a plan. */
  get(id: string, options: CallOptions = {}): Promise<models.Plan> {
    return this.transport.send("GET", "/api/plans/{id}", { names: { id }, ...options });
  }

  /** Lists plans without their prompts, the newest first. */
  list(filters: Filters<"/api/plans"> = {}): Pages<models.Plan> {
    return this.pages("GET", "/api/plans", { filters });
  }

  /** Starts an execution of a plan. */
  async execute(id: string, input: Input = {}, options: RunOptions = {}): Promise<Execution> {
    const given = { names: { id }, ...started("ExecutePlan", input, options, false) };
    return new Execution(
      this.transport,
      (await this.transport.send("POST", "/api/plans/{id}/execute", given)) as models.Execution,
    );
  }

  /** Checks a start and shows what it would run and cost; starts nothing. */
  async dryRun(id: string, input: Input = {}, options: RunOptions = {}): Promise<models.DryRun> {
    const given = { names: { id }, ...started("ExecutePlan", input, options, true) };
    return (await this.transport.send("POST", "/api/plans/{id}/execute", given)) as models.DryRun;
  }
}

/** `cb.templates`: versioned plans with a schema of their input. */
export class Templates extends Resource {
  /** Publishes a version of a template: built, or as an object. The same content again is no error. */
  publish(template: Template | models.TemplateRequest, options: CallOptions = {}): Promise<models.Template> {
    return this.transport.send("POST", "/api/templates", { body: definition("TemplateRequest", template), ...options });
  }

  /** Publishes a version of a template that is written in YAML. */
  async publishYaml(text: string, options: CallOptions = {}): Promise<models.Template> {
    return this.transport.send("POST", "/api/templates", {
      content: text,
      contentType: "application/yaml",
      ...options,
    });
  }

  /** Reads a template in its latest version, or another. */
  get(id: string, options: CallOptions & { version?: string } = {}): Promise<models.Template> {
    const { signal, version } = options;
    return this.transport.send("GET", "/api/templates/{id}", { names: { id }, query: { version }, signal });
  }

  /** Lists templates, each in its latest version. */
  list(filters: Filters<"/api/templates"> = {}): Pages<models.Template> {
    return this.pages("GET", "/api/templates", { filters });
  }

  /** The versions of a template, the highest first. */
  versions(id: string, options: CallOptions = {}): Promise<models.Template[]> {
    return this.transport.send("GET", "/api/templates/{id}/versions", { names: { id }, ...options });
  }

  /** Makes deploys without a version take this one, whatever is published later. */
  setLatest(id: string, version: string, options: CallOptions = {}): Promise<models.Template> {
    const body = checked("SetLatestVersion", { version });
    return this.transport.send("PUT", "/api/templates/{id}/latest", { names: { id }, body, ...options });
  }

  /** Makes the highest version that is not retired the latest again. */
  followHighest(id: string, options: CallOptions = {}): Promise<models.Template> {
    return this.transport.send("DELETE", "/api/templates/{id}/latest", { names: { id }, ...options });
  }

  /** Retires a version, which no deploy takes any more; `retired: false` brings it back. */
  retire(id: string, version: string, options: CallOptions & { retired?: boolean } = {}): Promise<models.Template> {
    const { signal, retired = true } = options;
    const body = checked("ChangeTemplate", { version, retired });
    return this.transport.send("PATCH", "/api/templates/{id}", { names: { id }, body, signal });
  }

  /** Deletes a template of one's own, or one version. */
  delete(id: string, options: CallOptions & { version?: string } = {}): Promise<models.Deleted> {
    const { signal, version } = options;
    return this.transport.send("DELETE", "/api/templates/{id}", { names: { id }, query: { version }, signal });
  }

  /** Creates a plan from a template and starts it. */
  async deploy(id: string, input: Input = {}, options: DeployOptions = {}): Promise<Execution> {
    const given = { names: { id }, ...started("DeployTemplate", input, options, false) };
    return new Execution(
      this.transport,
      (await this.transport.send("POST", "/api/templates/{id}/deploy", given)) as models.Execution,
    );
  }

  /** Checks a deploy and shows what it would run and cost; starts nothing. */
  async dryRun(id: string, input: Input = {}, options: DeployOptions = {}): Promise<models.DryRun> {
    const given = { names: { id }, ...started("DeployTemplate", input, options, true) };
    return (await this.transport.send("POST", "/api/templates/{id}/deploy", given)) as models.DryRun;
  }
}

function started(schema: string, input: Input, options: RunOptions | DeployOptions, dryRun: boolean) {
  const { signal, idempotencyKey: value, ...members } = options;
  const fields = dryRun ? { ...members, options: { ...members.options, dryRun } } : members;
  return { body: checked(schema, { input, ...fields }), key: { value }, signal };
}

function definition(schema: string, given: Definition | object): Record<string, unknown> {
  return given instanceof Definition ? given.body() : checked(schema, given);
}

/** `cb.schedules`: work that starts by the clock. */
export class Schedules extends Resource {
  /** Makes a schedule. */
  create(schedule: models.CreateSchedule, options: CallOptions = {}): Promise<models.Schedule> {
    return this.transport.send("POST", "/api/schedules", { body: checked("CreateSchedule", schedule), ...options });
  }

  /** Reads a schedule. */
  get(id: string, options: CallOptions = {}): Promise<models.Schedule> {
    return this.transport.send("GET", "/api/schedules/{id}", { names: { id }, ...options });
  }

  /** Lists schedules. */
  list(filters: Filters<"/api/schedules"> = {}): Pages<models.Schedule> {
    return this.pages("GET", "/api/schedules", { filters });
  }

  /** Lists the occurrences of a schedule. */
  runs(id: string, filters: Filters<"/api/schedules/{id}/runs"> = {}): Pages<models.ScheduleRun> {
    return this.pages("GET", "/api/schedules/{id}/runs", { names: { id }, filters });
  }

  /** Changes a schedule; `enabled: false` pauses it. */
  change(id: string, change: models.ChangeSchedule, options: CallOptions = {}): Promise<models.Schedule> {
    const body = checked("ChangeSchedule", change);
    return this.transport.send("PATCH", "/api/schedules/{id}", { names: { id }, body, ...options });
  }

  /** Deletes a schedule. */
  delete(id: string, options: CallOptions = {}): Promise<models.Schedule> {
    return this.transport.send("DELETE", "/api/schedules/{id}", { names: { id }, ...options });
  }

  /** Starts its work now. */
  trigger(id: string, options: CallOptions = {}): Promise<models.ScheduleRun> {
    return this.transport.send("POST", "/api/schedules/{id}/trigger", { names: { id }, ...options });
  }
}
