import { Keys, Sessions, Users } from "./accounts.js";
import {
  Batches,
  Budgets,
  BulkJobs,
  Deliveries,
  Files,
  Functions,
  Models,
  Projects,
  Queues,
  System,
  Views,
  Workers,
} from "./admin.js";
import { call, type Query } from "./call.js";
import { EventGap, ServerUnreachable } from "./errors.js";
import { Hitl } from "./hitl.js";
import type { Filters } from "./pages.js";
import { Executions, Plans, Schedules, Templates } from "./runs.js";
import { EventParser, type Json } from "./sse.js";
import { Tasks } from "./tasks.js";
import { type ClientOptions, Transport } from "./transport.js";

/** The name of an event, such as `task.completed`, or of a group, such as `execution.*` (docs/reference/events.md). */
export type EventName = NonNullable<Query<"/api/events">["events"]>[number];

/** An event of the server. */
export interface Event {
  /** The name, such as `task.completed`. */
  event: EventName;
  /** The place in the log, for `since`; none for `task.delta` and `queue.depth`, which are not kept. */
  cursor?: string;
  at: string;
  /** The item that the event is about. */
  resource: {
    /** Such as `task`, `execution`, `step`, `hitl`. */
    kind: string;
    id: string;
    /** Grows from event to event of one item. */
    version?: number;
    /** The execution of a step. */
    executionId?: string;
  };
  /** The item as a list shows it. */
  data: Json;
}

/** Which events, and after which cursor. */
export type EventOptions = Omit<Filters<"/api/events">, "events"> & { since?: string | undefined };

/** A client of one server. It holds nothing that has to be closed. */
export class Callboard {
  readonly #transport: Transport;
  readonly tasks: Tasks;
  readonly plans: Plans;
  readonly executions: Executions;
  readonly templates: Templates;
  readonly schedules: Schedules;
  readonly hitl: Hitl;
  readonly queues: Queues;
  readonly batches: Batches;
  readonly files: Files;
  readonly bulk: BulkJobs;
  readonly budgets: Budgets;
  readonly views: Views;
  readonly projects: Projects;
  readonly webhooks: Deliveries;
  readonly workers: Workers;
  readonly functions: Functions;
  readonly models: Models;
  readonly users: Users;
  readonly keys: Keys;
  readonly sessions: Sessions;
  readonly system: System;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(options);
    this.tasks = new Tasks(this.#transport);
    this.plans = new Plans(this.#transport);
    this.executions = new Executions(this.#transport);
    this.templates = new Templates(this.#transport);
    this.schedules = new Schedules(this.#transport);
    this.hitl = new Hitl(this.#transport);
    this.queues = new Queues(this.#transport);
    this.batches = new Batches(this.#transport);
    this.files = new Files(this.#transport);
    this.bulk = new BulkJobs(this.#transport);
    this.budgets = new Budgets(this.#transport);
    this.views = new Views(this.#transport);
    this.projects = new Projects(this.#transport);
    this.webhooks = new Deliveries(this.#transport);
    this.workers = new Workers(this.#transport);
    this.functions = new Functions(this.#transport);
    this.models = new Models(this.#transport);
    this.users = new Users(this.#transport);
    this.keys = new Keys(this.#transport);
    this.sessions = new Sessions(this.#transport);
    this.system = new System(this.#transport);
  }

  /** The address of the server. */
  get server(): string {
    return this.#transport.server;
  }

  /**
   * The events of the server, after the cursor `since` or from the connection on; it goes on over broken ones.
   *
   * To miss nothing of what you are about to start, take `cursor()` before. Without a name, all events come. Keep
   * `event.cursor` to go on later. Throws `EventGap` if events are missing.
   */
  async *events(
    names: EventName | readonly EventName[] = [],
    options: EventOptions = {},
  ): AsyncGenerator<Event, void, void> {
    const { since, signal, ...filters } = options;
    const events = [names].flat();
    const query = { ...filters, events: events.length > 0 ? events : undefined };
    for await (const event of this.#transport.logEvents(query, since, signal)) {
      if (event.name === "gap") {
        const { from, to } = event.data;
        const told = `events after ${from} are not kept any more: read the current state, then go on with since: "${to}"`;
        throw new EventGap(told, to);
      }
      yield event.data;
    }
  }

  /** The place in the log of events now, for `since`. */
  async cursor({ signal }: { signal?: AbortSignal } = {}): Promise<string> {
    const parser = new EventParser();
    const stream = call("GET", "/api/events", {}, { Accept: "text/event-stream" });
    for await (const chunk of this.#transport.open(stream, signal)) {
      for (const _ of parser.feed(chunk));
      if (parser.lastId !== undefined) return parser.lastId;
    }
    throw new ServerUnreachable(`${this.server} ended the stream of events`);
  }
}
