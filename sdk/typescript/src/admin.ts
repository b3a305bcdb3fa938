import { type Call, type CallOptions, call, type KeyOptions, type Query } from "./call.js";
import { checked, encoded } from "./check.js";
import { Resource } from "./item.js";
import type { Filters, Pages } from "./pages.js";
import type * as models from "./schema.js";
import type { Json } from "./sse.js";

/** `cb.queues`. */
export class Queues extends Resource {
  /** Lists queues. */
  list(filters: Filters<"/api/queues"> = {}): Pages<models.Queue> {
    return this.pages("GET", "/api/queues", { filters });
  }

  /** Pauses, resumes or limits a queue. */
  change(name: string, change: models.ChangeQueue, options: CallOptions = {}): Promise<models.Queue> {
    const body = checked("ChangeQueue", change);
    return this.transport.send("PATCH", "/api/queues/{name}", { names: { name }, body, ...options });
  }
}

/** `cb.bulk`: jobs over all tasks and executions that match. */
export class BulkJobs extends Resource {
  /** Cancels, retries, reprioritizes, rejects or erases all items that match, in the background. */
  start(job: models.StartBulk, options: KeyOptions = {}): Promise<models.Bulk> {
    const { signal, idempotencyKey: value } = options;
    return this.transport.send("POST", "/api/bulk", { body: checked("StartBulk", job), key: { value }, signal });
  }

  /** Reads a bulk job. */
  get(id: string, options: CallOptions = {}): Promise<models.Bulk> {
    return this.transport.send("GET", "/api/bulk/{id}", { names: { id }, ...options });
  }

  /** Lists bulk jobs. */
  list(filters: Filters<"/api/bulk"> = {}): Pages<models.Bulk> {
    return this.pages("GET", "/api/bulk", { filters });
  }

  /** Stops a bulk job. */
  stop(id: string, options: CallOptions = {}): Promise<models.Bulk> {
    return this.transport.send("DELETE", "/api/bulk/{id}", { names: { id }, ...options });
  }
}

/** A row to upload: its key, by default its number, and the input of the template. */
export interface NewRow {
  key?: string;
  input: Record<string, unknown>;
}

/** How the rows of a batch run. */
export interface BatchOptions extends KeyOptions {
  version?: string;
  name?: string;
  tags?: string[];
  /** In USD; at this cost the batch pauses. */
  maxCost?: number;
  /** The rows that run at a time. */
  concurrency?: number;
  /** `reject` keeps nothing if a row is faulty. */
  onInvalid?: "keep" | "reject";
  /** The id of a batch, or `latest`: answers to the same questions are taken over from it. */
  reuse?: string;
  /** Rows that ask the same are answered once. */
  dedupe?: boolean;
}

/** `cb.batches`: a template over many rows, each of them an execution. */
export class Batches extends Resource {
  /**
   * Uploads rows, and starts the template over them. All rows are durable when it resolves. They are held in memory
   * until then.
   */
  async create(templateId: string, rows: Iterable<NewRow>, options: BatchOptions = {}): Promise<models.TemplateBatch> {
    const { signal, idempotencyKey: value, ...settings } = options;
    const content = Array.from(rows, (row) => `${encoded({ ...row })}\n`).join("");
    const body = { content, contentType: "application/x-ndjson" };
    const query = { templateId, ...settings };
    const made = await this.transport.send("POST", "/api/batches", { ...body, query, key: { value }, signal });
    return made as models.TemplateBatch; // Only a dry run is answered with an estimate.
  }

  /** Checks rows and estimates their cost, and keeps nothing. */
  async dryRun(
    templateId: string,
    rows: Iterable<NewRow>,
    options: CallOptions & { version?: string } = {},
  ): Promise<models.TemplateBatchEstimate> {
    const { signal, version } = options;
    const content = Array.from(rows, (row) => `${encoded({ ...row })}\n`).join("");
    const body = { content, contentType: "application/x-ndjson" };
    const query = { templateId, version, dryRun: true };
    const estimate = await this.transport.send("POST", "/api/batches", { ...body, query, signal });
    return estimate as models.TemplateBatchEstimate;
  }

  /** The estimated cost of the rows that wait to be started. */
  estimate(id: string, options: CallOptions = {}): Promise<models.TemplateBatchEstimate> {
    return this.transport.send("POST", "/api/batches/{id}/estimate", { names: { id }, ...options });
  }

  /** Lists batches, the newest first. */
  list(filters: Filters<"/api/batches"> = {}): Pages<models.TemplateBatch> {
    return this.pages("GET", "/api/batches", { filters });
  }

  /** Reads a batch with its progress. */
  get(id: string, options: CallOptions = {}): Promise<models.TemplateBatch> {
    return this.transport.send("GET", "/api/batches/{id}", { names: { id }, ...options });
  }

  /** Starts no more rows; those that run go on. */
  pause(id: string, options: CallOptions = {}): Promise<models.TemplateBatch> {
    return this.transport.send("POST", "/api/batches/{id}/pause", { names: { id }, ...options });
  }

  /** Starts rows again. */
  resume(id: string, options: CallOptions = {}): Promise<models.TemplateBatch> {
    return this.transport.send("POST", "/api/batches/{id}/resume", { names: { id }, ...options });
  }

  /** Cancels the rows that have not ended. */
  cancel(id: string, options: CallOptions = {}): Promise<models.TemplateBatch> {
    return this.transport.send("POST", "/api/batches/{id}/cancel", { names: { id }, ...options });
  }

  /** Runs failed rows anew, and keeps the steps that are good. */
  retry(id: string, which: models.RetryBatch = {}, options: CallOptions = {}): Promise<models.TemplateBatch> {
    const body = checked("RetryBatch", which);
    return this.transport.send("POST", "/api/batches/{id}/retry", { names: { id }, body, ...options });
  }

  /** Asks for reviews of outputs that have passed; nothing waits for them. */
  review(id: string, which: models.ReviewBatch, options: CallOptions = {}): Promise<models.BatchReviews> {
    const body = checked("ReviewBatch", which);
    return this.transport.send("POST", "/api/batches/{id}/review", { names: { id }, body, ...options });
  }

  /** Erases a batch that has ended, with its executions. Requires the role admin. */
  delete(id: string, options: CallOptions = {}): Promise<models.TemplateBatch> {
    return this.transport.send("DELETE", "/api/batches/{id}", { names: { id }, ...options });
  }

  /** The rows, read 100 at a time; `step` is that of the decision and the confidence. */
  async *rows(
    id: string,
    filters: Omit<Filters<"/api/batches/{id}/rows">, "limit" | "cursor"> = {},
  ): AsyncGenerator<models.BatchRow, void, void> {
    const { signal, ...asked } = filters;
    for (let cursor: number | undefined; ; ) {
      const query = { ...asked, limit: 100, cursor };
      const page = await this.transport.send("GET", "/api/batches/{id}/rows", { names: { id }, query, signal });
      yield* page.rows;
      cursor = page.nextCursor ?? undefined;
      if (cursor === undefined) return;
    }
  }

  /** Compares the outputs of two batches by key. `isComplete` is false while rows are still read: ask again. */
  compare(
    id: string,
    other: string,
    options: Filters<"/api/batches/{id}/compare/{other}"> = {},
  ): Promise<models.BatchComparison> {
    const { signal, ...query } = options;
    return this.transport.send("GET", "/api/batches/{id}/compare/{other}", { names: { id, other }, query, signal });
  }

  /** All rows as CSV or JSON lines, also while the batch runs. */
  export(
    id: string,
    options: CallOptions & { format?: "csv" | "jsonl"; columns?: string[]; status?: string | string[] } = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const { signal, format = "csv", ...asked } = options;
    const Accept = format === "csv" ? "text/csv" : "application/x-ndjson";
    const given = { names: { id }, query: { format, ...asked } };
    return this.transport.open(call("GET", "/api/batches/{id}/export", given as never, { Accept }), signal);
  }
}

/** `cb.files`: images and documents for tasks. */
export class Files extends Resource {
  /** Uploads a file. The server recognises the formats that models are shown; `contentType` counts for others. */
  upload(
    content: Uint8Array,
    options: CallOptions & { name?: string; contentType?: string } = {},
  ): Promise<models.File> {
    const { signal, name, contentType = "application/octet-stream" } = options;
    // fetch takes no bytes of memory that is shared.
    const own = content as Uint8Array<ArrayBuffer>;
    return this.transport.send("POST", "/api/files", { content: own, contentType, query: { name }, signal });
  }

  /** Reads a file, without its bytes. */
  get(id: string, options: CallOptions = {}): Promise<models.File> {
    return this.transport.send("GET", "/api/files/{id}", { names: { id }, ...options });
  }

  /** Lists files, the newest first. */
  list(filters: Filters<"/api/files"> = {}): Pages<models.File> {
    return this.pages("GET", "/api/files", { filters });
  }

  /** The bytes of a file, as they come. */
  content(id: string, options: CallOptions = {}): AsyncGenerator<Uint8Array, void, void> {
    const asked = call("GET", "/api/files/{id}/content", { names: { id } } as never, { Accept: "*/*" });
    return this.transport.open(asked, options.signal);
  }

  /** Deletes a file. */
  delete(id: string, options: CallOptions = {}): Promise<models.File> {
    return this.transport.send("DELETE", "/api/files/{id}", { names: { id }, ...options });
  }
}

/** `cb.budgets`. */
export class Budgets extends Resource {
  /** Makes a budget. */
  create(budget: models.CreateBudget, options: CallOptions = {}): Promise<models.Budget> {
    return this.transport.send("POST", "/api/budgets", { body: checked("CreateBudget", budget), ...options });
  }

  /** Reads a budget. */
  get(id: string, options: CallOptions = {}): Promise<models.Budget> {
    return this.transport.send("GET", "/api/budgets/{id}", { names: { id }, ...options });
  }

  /** Lists budgets. */
  list(filters: Filters<"/api/budgets"> = {}): Pages<models.Budget> {
    return this.pages("GET", "/api/budgets", { filters });
  }

  /** Changes a budget. */
  change(id: string, change: models.ChangeBudget, options: CallOptions = {}): Promise<models.Budget> {
    const body = checked("ChangeBudget", change);
    return this.transport.send("PATCH", "/api/budgets/{id}", { names: { id }, body, ...options });
  }

  /** Deletes a budget. */
  delete(id: string, options: CallOptions = {}): Promise<models.Budget> {
    return this.transport.send("DELETE", "/api/budgets/{id}", { names: { id }, ...options });
  }
}

/** `cb.views`: named filters of the dashboard's lists. */
export class Views extends Resource {
  /** Saves a view. */
  create(view: models.CreateView, options: CallOptions = {}): Promise<models.View> {
    return this.transport.send("POST", "/api/views", { body: checked("CreateView", view), ...options });
  }

  /** Lists the own views, then the shared ones. */
  list(filters: Filters<"/api/views"> = {}): Pages<models.View> {
    return this.pages("GET", "/api/views", { filters });
  }

  /** Changes a view. */
  change(id: string, change: models.ChangeView, options: CallOptions = {}): Promise<models.View> {
    const body = checked("ChangeView", change);
    return this.transport.send("PATCH", "/api/views/{id}", { names: { id }, body, ...options });
  }

  /** Deletes a view. */
  delete(id: string, options: CallOptions = {}): Promise<models.View> {
    return this.transport.send("DELETE", "/api/views/{id}", { names: { id }, ...options });
  }
}

/** `cb.projects`. A project is named by its id or its name. */
export class Projects extends Resource {
  /** Makes a project; its maker is its first admin. */
  create(project: models.CreateProject, options: CallOptions = {}): Promise<models.Project> {
    return this.transport.send("POST", "/api/projects", { body: checked("CreateProject", project), ...options });
  }

  /** Reads a project. */
  get(id: string, options: CallOptions = {}): Promise<models.Project> {
    return this.transport.send("GET", "/api/projects/{id}", { names: { id }, ...options });
  }

  /** Lists the projects in which one has a role. */
  list(filters: Filters<"/api/projects"> = {}): Pages<models.Project> {
    return this.pages("GET", "/api/projects", { filters });
  }

  /** Counts and costs of the projects, on every cell. */
  figures(filters: Filters<"/api/projects/figures"> = {}, options: CallOptions = {}): Promise<models.ProjectsFigures> {
    return this.transport.send("GET", "/api/projects/figures", { query: { ...filters }, ...options });
  }

  /** Changes a project, puts it into the archive or takes it out. */
  change(id: string, change: models.ChangeProject, options: CallOptions = {}): Promise<models.Project> {
    const body = checked("ChangeProject", change);
    return this.transport.send("PATCH", "/api/projects/{id}", { names: { id }, body, ...options });
  }

  /** Deletes a project with everything in it; `confirm` is its name again. */
  delete(id: string, confirm: string, options: CallOptions = {}): Promise<models.Project> {
    const body = checked("DeleteProject", { confirm });
    return this.transport.send("DELETE", "/api/projects/{id}", { names: { id }, body, ...options });
  }

  /** Begins to move a project to another cell; it stands still until it is there. */
  beginMove(id: string, cell: string, options: CallOptions = {}): Promise<models.Project> {
    const body = checked("MoveProject", { cell });
    return this.transport.send("POST", "/api/projects/{id}/move", { names: { id }, body, ...options });
  }

  /** Gives up a move that has not ended: the project goes on where it was. */
  giveUpMove(id: string, options: CallOptions = {}): Promise<models.Project> {
    return this.transport.send("DELETE", "/api/projects/{id}/move", { names: { id }, ...options });
  }

  /** Lists the members of a project by name. */
  members(id: string, filters: Filters<"/api/projects/{id}/members"> = {}): Pages<models.Member> {
    return this.pages("GET", "/api/projects/{id}/members", { names: { id }, filters });
  }

  /** Gives a user, by id or e-mail, a role in a project. */
  setMember(
    id: string,
    user: string,
    role: models.SetMember["role"],
    options: CallOptions = {},
  ): Promise<models.Member> {
    const body = checked("SetMember", { role });
    return this.transport.send("PUT", "/api/projects/{id}/members/{user}", { names: { id, user }, body, ...options });
  }

  /** Ends the membership of a user, by id or e-mail. */
  removeMember(id: string, user: string, options: CallOptions = {}): Promise<models.Member> {
    return this.transport.send("DELETE", "/api/projects/{id}/members/{user}", { names: { id, user }, ...options });
  }
}

/** `cb.webhooks`: deliveries. `webhooks.verify` checks what a receiver gets. */
export class Deliveries extends Resource {
  /** Lists deliveries of webhooks and mails, the newest first. */
  deliveries(filters: Filters<"/api/webhooks/deliveries"> = {}): Pages<models.Delivery> {
    return this.pages("GET", "/api/webhooks/deliveries", { filters });
  }

  /** Sends a delivery again. */
  redeliver(id: string, options: CallOptions = {}): Promise<models.Delivery> {
    return this.transport.send("POST", "/api/webhooks/deliveries/{id}/redeliver", { names: { id }, ...options });
  }

  /** The secret that signs webhooks. Requires the role admin. */
  secret(options: CallOptions = {}): Promise<models.WebhookSecret> {
    return this.transport.send("GET", "/api/webhooks/secret", options);
  }

  /** Makes another secret; the earlier one signs too for the `overlap`, such as `24h`. Requires the role admin. */
  rotateSecret(options: CallOptions & { overlap?: string } = {}): Promise<models.WebhookSecret> {
    const { signal, overlap } = options;
    const body = checked("RotateWebhookSecret", { overlap });
    return this.transport.send("POST", "/api/webhooks/secret/rotate", { body, signal });
  }
}

/** `cb.workers`: the connected workers. `Worker` of `@callboard/client/worker` is one. */
export class Workers extends Resource {
  /** Lists workers, the newest first. */
  list(filters: Filters<"/api/workers"> = {}): Pages<models.Worker> {
    return this.pages("GET", "/api/workers", { filters });
  }

  /** Asks a worker to leave. */
  drain(id: string, options: CallOptions = {}): Promise<models.Worker> {
    return this.transport.send("POST", "/api/workers/{id}/drain", { names: { id }, ...options });
  }
}

/** `cb.functions`: the functions that connected workers run. */
export class Functions extends Resource {
  /** Lists functions by name, with their schemas. */
  list(filters: Filters<"/api/functions"> = {}): Pages<models.Function> {
    return this.pages("GET", "/api/functions", { filters });
  }
}

/** `cb.models`: models with their limits and their use. */
export class Models extends Resource {
  /** Lists models. */
  list(filters: Filters<"/api/models"> = {}): Pages<models.ModelState> {
    return this.pages("GET", "/api/models", { filters });
  }

  /** Sets the limits of a model. */
  setLimits(name: string, limits: models.SetModelLimits, options: CallOptions = {}): Promise<models.ModelState> {
    const body = checked("SetModelLimits", limits);
    return this.transport.send("PUT", "/api/models/{name}/limits", { names: { name }, body, ...options });
  }

  /** Opens a model whose provider refuses calls. */
  endPause(name: string, options: CallOptions = {}): Promise<models.ModelState> {
    return this.transport.send("DELETE", "/api/models/{name}/pause", { names: { name }, ...options });
  }
}

/** `cb.system`: the server itself. */
export class System extends Resource {
  /** The health of the server and its parts. */
  health(options: CallOptions = {}): Promise<models.Health> {
    return this.transport.send("GET", "/api/health", options);
  }

  /** The metrics, as Prometheus reads them. */
  metrics(options: CallOptions = {}): Promise<string> {
    return this.#text(call("GET", "/api/metrics", {}, { Accept: "text/plain" }), options);
  }

  /** The OpenAPI document of the server. */
  async openapi(options: CallOptions = {}): Promise<Json> {
    return JSON.parse(await this.#text(call("GET", "/api/openapi.json"), options));
  }

  async #text(request: Call, { signal }: CallOptions): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of this.transport.open(request, signal)) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }

  /** The whole store, as `callboard backup` reads it. Requires the role admin or backup. */
  backup({ signal }: CallOptions = {}): AsyncGenerator<Uint8Array, void, void> {
    return this.transport.open(call("POST", "/api/backups", {}, { Accept: "application/octet-stream" }), signal);
  }

  /** The last backup, the archive behind it, and the moments to which the two restore the server. */
  backupStatus(options: CallOptions = {}): Promise<models.BackupStatus> {
    return this.transport.send("GET", "/api/system/backup", options);
  }

  /** Says that a backup is complete: its name, and the lineage and the last group of its stream. */
  reportBackup(report: models.BackupReport, options: CallOptions = {}): Promise<models.BackupStatus> {
    return this.transport.send("POST", "/api/system/backup", { body: checked("BackupReport", report), ...options });
  }

  /** Says that a backup was verified: its name, the lineage that it has, and the finding. */
  reportVerification(verification: models.BackupVerification, options: CallOptions = {}): Promise<models.BackupStatus> {
    const body = checked("BackupVerification", verification);
    return this.transport.send("POST", "/api/system/backup/verification", { body, ...options });
  }

  /** The rows and bytes of each kind of data, of all projects together. */
  storage(options: CallOptions = {}): Promise<models.Storage> {
    return this.transport.send("GET", "/api/system/storage", options);
  }

  /** Gives out no more work: nothing is leased until `resume`. Running work goes on. */
  pause(pause: models.PauseAll, options: CallOptions = {}): Promise<models.Pause> {
    return this.transport.send("POST", "/api/system/pause", { body: checked("PauseAll", pause), ...options });
  }

  /** Gives out work again. */
  resume(options: CallOptions = {}): Promise<models.Pause> {
    return this.transport.send("DELETE", "/api/system/pause", options);
  }

  /** Whether everything is paused, since when, by whom and why. */
  paused(options: CallOptions = {}): Promise<models.Pause> {
    return this.transport.send("GET", "/api/system/pause", options);
  }

  /** Lists the nodes of a cluster. */
  nodes(filters: Filters<"/api/cluster"> = {}): Pages<models.Node> {
    return this.pages("GET", "/api/cluster", { filters });
  }

  /** Drains a node, or with `draining: false` ends that. */
  drainNode(id: string, options: CallOptions & { draining?: boolean } = {}): Promise<models.Node> {
    const { draining = true, signal } = options;
    const body = checked("ChangeNode", { draining });
    return this.transport.send("PATCH", "/api/cluster/nodes/{id}", { names: { id }, body, signal });
  }

  /** Lists the cells, home first. */
  cells(filters: Filters<"/api/cells"> = {}): Pages<models.Cell> {
    return this.pages("GET", "/api/cells", { filters });
  }

  /** Adds a cell, or gives one other addresses. */
  addCell(name: string, nodes: string[], options: CallOptions = {}): Promise<models.Cell> {
    const body = checked("PutCell", { name, nodes });
    return this.transport.send("POST", "/api/cells", { body, ...options });
  }

  /** Removes a cell that has no project. */
  removeCell(name: string, options: CallOptions = {}): Promise<models.Cell> {
    return this.transport.send("DELETE", "/api/cells/{name}", { names: { name }, ...options });
  }

  /** Rotates the key that signs access tokens; the earlier one counts for the `overlap`, such as `1h`. */
  rotateSigningKey(options: CallOptions & models.RotateSigningKey = {}): Promise<models.SigningKeys> {
    const { signal, ...members } = options;
    const body = checked("RotateSigningKey", members);
    return this.transport.send("POST", "/api/auth/signing-key/rotate", { body, signal });
  }

  /** Sums up the usage of tasks. */
  usage(query: Pick<Query<"/api/usage">, "groupBy"> & Filters<"/api/usage">): Promise<models.UsageGroups> {
    const { signal, ...members } = query;
    return this.transport.send("GET", "/api/usage", { query: members, signal });
  }

  /** Lists the audit log, the newest entry first. Requires the role admin. */
  audit(filters: Filters<"/api/audit"> = {}): Pages<models.AuditEntry> {
    return this.pages("GET", "/api/audit", { filters });
  }
}
