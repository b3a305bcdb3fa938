/** The client against a real server. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Callboard, errors, type models, Plan, Template } from "@callboard/client";
import { z } from "zod";
import { all, CutProxy, EMAIL, first, PASSWORD, RunningWorker, Server, until } from "./support.js";

const server = new Server();
let cb: Callboard;
let worker: RunningWorker;
const fresh = (name: string) => `${name}-${randomUUID().slice(0, 8)}`;

before(async () => {
  await server.start();
  cb = await server.client();
  worker = await RunningWorker.start(server);
});

after(async () => {
  await worker.stop();
  await server.end();
});

test("a task answers with its text", async () => {
  assert.equal(await cb.tasks.run("say hello", { maxTokens: 20 }), "hello");
});

test("a schema is answered with a typed value", async () => {
  const Colour = z.object({ name: z.string(), seen: z.iso.datetime().transform((it) => new Date(it)) });
  const colour = await cb.tasks.run('say {"name": "red", "seen": "2026-01-02T03:04:05Z"}', { schema: Colour });
  const seen: Date = colour.seen;
  assert.deepEqual([colour.name, seen.getUTCFullYear()], ["red", 2026]);
  assert.deepEqual(await cb.tasks.run("say [1, 2]", { schema: { type: "array" } }), [1, 2]);
  const task = await cb.tasks.submit("say 7", { schema: z.number() });
  await assert.rejects((await task.wait()).parse(z.string()), errors.OutputMismatch);
  await assert.rejects(cb.tasks.run("x", { schema: z.date() }), /the schema of zod is none of JSON/);
});

test("a task shows usage, confidence and times", async () => {
  const task = await cb.tasks.submit("say x", { tags: ["sdk"], context: { a: null } });
  await task.wait({ waitMs: 30_000 });
  assert.deepEqual([task.status, task.output, task.usage?.total, task.confidence], ["completed", "x", 7, 0.5]);
  assert.ok(Date.parse(task.createdAt) > 0);
  assert.deepEqual((await cb.tasks.get(task.id)).context, { a: null });
  // What is printed or stored is the data alone.
  assert.deepEqual(Object.keys(JSON.parse(JSON.stringify(task))), Object.keys(task));
});

test("a failure is an error with its code", async () => {
  const failed = await cb.tasks.run("fail").catch((it) => it);
  assert.ok(failed instanceof errors.TaskFailed && failed instanceof errors.CallboardError);
  assert.match(failed.message, /task dt_task_\w+ failed: as asked/);
  assert.deepEqual([failed.name, failed.code], ["TaskFailed", "PROVIDER_ERROR"]);
  assert.equal((await (await cb.tasks.get(failed.item.id)).wait({ check: false })).status, "failed");
});

test("a wait ends in time, or with its signal, and the task goes on", async () => {
  const task = await cb.tasks.submit("hold on");
  await assert.rejects(task.wait({ waitMs: 300 }), errors.WaitTimeout);
  const began = performance.now();
  await assert.rejects(task.wait({ signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  const controller = new AbortController();
  const streaming = all(task.text({ signal: controller.signal }));
  controller.abort(new Error("enough"));
  await assert.rejects(streaming, /enough/);
  await assert.rejects(cb.tasks.list({ signal: controller.signal }).total(), /enough/);
  assert.ok(performance.now() - began < 5_000);
  worker.go = true;
  assert.equal((await task.wait()).output, "on");
  worker.go = false;
});

test("pieces are the output", async () => {
  const text = "one two  three — “four” 😀 five";
  assert.equal((await all(cb.tasks.stream(`stream ${text}`))).join(""), text);
  const { id } = await first(cb.tasks.list());
  assert.equal((await all(cb.tasks.text(id))).join(""), text);
});

test("a stream begins before the end, and may be left", async () => {
  const pieces = cb.tasks.stream("hold first second");
  assert.equal((await pieces.next()).value, "first ");
  worker.go = true;
  assert.deepEqual(await all(pieces), ["second"]);
  worker.go = false;
  assert.equal(await first(cb.tasks.stream("hold first second")), "first ");
  worker.go = true;
  await until(async () => (await first(cb.tasks.list())).status === "completed");
  worker.go = false;
});

test("a list is iterated over its pages", async () => {
  const tags = [fresh("pages")];
  const made: string[] = [];
  for (let part = 0; part < 3; part += 1) {
    const batch = await cb.tasks.submitBatch(Array(60).fill({ prompt: "x", tags, queue: "nobody" }));
    made.push(...batch.tasks.map((it) => it.id));
  }
  const pages = cb.tasks.list({ tags, status: ["pending", "running"] });
  assert.equal(await pages.total(), 180);
  const found: string[] = [];
  for await (const task of pages) {
    found.push(task.id);
    // A new task moves the others on by one: none is seen twice, none is lost.
    if (found.length === 50) await cb.tasks.submit("x", { tags, queue: "nobody" });
  }
  assert.deepEqual(found.sort(), made.sort());
  const hour = 3_600_000;
  assert.equal(await cb.tasks.list({ tags, createdAfter: new Date(Date.now() + hour) }).total(), 0);
  assert.equal((await cb.tasks.list({ tags }).all()).length, 181);
  const job = await cb.bulk.start({ action: "cancel", filter: { tags } });
  await until(async () => (await cb.bulk.get(job.id ?? "")).status === "completed");
});

test("decisions hide no pending output", async () => {
  const tags = [fresh("hitl")];
  for (let part = 0; part < 2; part += 1) {
    await cb.tasks.submitBatch(Array(52).fill({ prompt: "say x", tags, hitl: { required: true } }));
  }
  // More than a page.
  await until(async () => (await cb.hitl.pending({ tags }).total()) === 104);
  let last = "";
  for await (const item of cb.hitl.pending({ tags })) {
    await item.approve({ comment: "fine" });
    last = item.taskId;
  }
  assert.equal(await cb.hitl.pending({ tags }).total(), 0);
  const late = await cb.hitl.approve(last).catch((it) => it);
  assert.ok(late instanceof errors.AlreadyDecided && late.details.decidedBy);
  assert.equal((await cb.hitl.history(last)).at(-1)?.action, "approved");
  assert.equal((await cb.tasks.get(last)).status, "completed");
  const rejected = await cb.tasks.submit("say no", { hitl: { required: true } });
  const item = await until(() => cb.hitl.get(rejected.id).catch(() => undefined));
  await item.claim();
  await item.release();
  await item.reject("wrong");
  await assert.rejects(rejected.wait(), errors.TaskFailed);
  assert.ok((await item.historyEntries()).length > 2);
});

test("refusals are typed", async () => {
  await assert.rejects(cb.tasks.get("dt_task_00000000000000000000000000"), errors.NotFound);
  const refused = await cb.tasks.submit("x", { tags: ["a b/../!"] }).catch((it) => it);
  assert.ok(refused instanceof errors.BadRequest && refused.requestId);
  assert.equal(refused.code, "VALIDATION_ERROR");
  await assert.rejects((await server.client({ role: "viewer" })).tasks.submit("x"), errors.Forbidden);
  const task = await cb.tasks.submit("x", { queue: "nobody" });
  await task.cancel();
  await assert.rejects(task.cancel(), errors.Conflict);
});

test("a mistake is an error before the request", async () => {
  // Nobody listens there, so anything that is sent is another error.
  const closed = await new CutProxy(server).start();
  closed.close();
  const nowhere = await server.client({ server: closed.url, retries: 0 });
  const refused = (promise: Promise<unknown>, message: RegExp) =>
    assert.rejects(promise, (it: Error) => it instanceof errors.InvalidArgument && message.test(it.message));
  await refused(nowhere.tasks.submit("x", { priority: 11 }), /CreateTask: priority: must be at most 10/);
  await refused(nowhere.tasks.submit("x", { maxToken: 1 } as object), /maxToken: is unknown/);
  await refused(nowhere.tasks.submit("x", { hitl: { required: 1 } } as object), /hitl.required: must be boolean/);
  await refused(nowhere.tasks.submit("x", { context: { a: Number.NaN } }), /a cannot be written as JSON: NaN/);
  await refused(nowhere.tasks.list({ createdAfter: new Date("never") }).total(), /no valid Date/);
  await refused(nowhere.tasks.get(""), /id must be a string that is not empty/);
  await refused(nowhere.queues.change("..", { paused: true }), /name must not be/);
  await assert.rejects(nowhere.tasks.submit("x"), /127\.0\.0\.1:\d+ cannot be reached: .*ECONNREFUSED/);
});

test("an idempotency key makes one task", async () => {
  const options = { idempotencyKey: fresh("key"), queue: "nobody" };
  const task = await cb.tasks.submit("x", options);
  assert.equal((await cb.tasks.submit("x", options)).id, task.id);
  await assert.rejects(cb.tasks.submit("y", options), errors.IdempotencyConflict);
  await task.cancel();
});

test("a plan runs, waits for a signal and is forked", async () => {
  const plan = new Plan("A plan", { tags: ["sdk"] });
  const extract = plan.step("extract", "say {{input.text}}", { maxTokens: 10 });
  const paid = plan.waitFor("paid", "payment", { dependsOn: [extract], schema: z.object({ amount: z.number() }) });
  plan.step("tell", `say ${extract.output} ${paid.member("amount")}`, { dependsOn: [extract, paid] });
  const made = await cb.plans.create(plan);
  assert.equal((await cb.plans.dryRun(made.id, { text: "a" })).status, "dry_run");
  const run = await cb.plans.execute(made.id, { text: "a" }, { options: { timeoutMs: 60_000 } });
  assert.deepEqual([run.status, run.progress?.pending], ["running", 3]);
  await run.signal("payment", { amount: 7 });
  await run.wait({ waitMs: 30_000 });
  assert.deepEqual([run.status, run.steps.tell?.output], ["completed", "a 7"]);
  const fork = await cb.executions.fork(run.id, { input: { text: "b" } });
  assert.equal((await cb.executions.forkDryRun(run.id)).forkOf, run.id);
  assert.equal((await fork.wait({ waitMs: 30_000 })).steps.tell?.output, "b 7");
  assert.ok((await cb.executions.list({ planId: made.id }).all()).some((it) => it.id === run.id));
  const names = (await all(cb.executions.follow(run.id))).map((it) => it.name);
  assert.deepEqual(names, ["snapshot", "end"]);
});

test("a failed execution names the step", async () => {
  const broken = new Plan("Broken");
  broken.step("first", "fail");
  const run = await cb.plans.execute((await cb.plans.create(broken)).id);
  await assert.rejects(run.wait({ waitMs: 30_000 }), / failed at step first: as asked/);
});

test("a batch runs a template over rows", async () => {
  const input = z.object({ text: z.string() });
  const template = new Template(fresh("Rows"), { version: "1.0.0", input });
  template.step("echo", "say {{input.text}}");
  const made = await cb.templates.publish(template);
  const rows = Array.from({ length: 120 }, (_, n) => ({ key: `k${n}`, input: { text: `t${n}` } }));
  const batch = await cb.batches.create(made.id, rows, { name: "rows", concurrency: 50 });
  await until(async () => (await cb.batches.get(batch.id)).status === "completed");
  const found = new Map<string, unknown>();
  for await (const row of cb.batches.rows(batch.id)) found.set(row.key, row.output);
  assert.equal(found.size, 120);
  assert.equal(found.get("k7"), "t7");
  let table = "";
  const decoder = new TextDecoder();
  for await (const chunk of cb.batches.export(batch.id, { columns: ["key", "output"] }))
    table += decoder.decode(chunk, { stream: true });
  assert.match(table, /k7,t7/);
  assert.equal((await cb.batches.list({ templateId: made.id }).all())[0]?.id, batch.id);
  assert.equal((await cb.batches.dryRun(made.id, rows)).rows, 120);
  assert.equal((await cb.batches.estimate(batch.id)).rows, 0);
  for await (const row of cb.batches.rows(batch.id, { orderBy: "key", order: "desc" })) {
    assert.equal(row.key, "k99");
    break;
  }
  await until(async () => (await cb.batches.compare(batch.id, batch.id)).isComplete);
  const compared = await cb.batches.compare(batch.id, batch.id, { outcome: ["equal"] });
  assert.deepEqual([compared.equal, compared.items.length], [120, 20]);
});

test("lines are imported, each once", async () => {
  const tag = fresh("load");
  // More than one load, with lines that are refused and a key that comes twice.
  const given = Array.from({ length: 1200 }, (_, at): models.CreateTask => {
    const task = { prompt: `say ${at}`, queue: "nobody", tags: [tag] };
    if (at === 7) return { ...task, prompt: 1 as never };
    if (at === 9) return { ...task, outputSchema: { type: "nothing" } };
    return at < 1198 ? task : { ...task, prompt: "k", idempotencyKey: tag };
  });
  const done = [];
  for await (const one of cb.tasks.importLines(given)) done.push(one);
  assert.deepEqual(
    done.map((it) => it.index),
    given.map((_, at) => at),
  );
  const refused = done.filter((it) => it.error);
  assert.deepEqual(
    refused.map((it) => it.index),
    [7, 9],
  );
  assert.ok(refused[0]?.error instanceof errors.InvalidArgument && refused[1]?.error instanceof errors.BadRequest);
  assert.equal(done[1198]?.id, done[1199]?.id);
  assert.equal((await cb.tasks.list({ tags: [tag] }).all()).length, 1197);
});

test("a template is published and deployed", async () => {
  const template = new Template(fresh("Echo"), {
    version: "1.0.0",
    input: z.object({ text: z.string() }),
    defaults: { maxTokens: 10 },
  });
  template.step("echo", "say {{input.text}}");
  const made = await cb.templates.publish(template);
  assert.equal((await cb.templates.publish(template)).id, made.id);
  assert.deepEqual(
    (await cb.templates.versions(made.id)).map((it) => it.version),
    ["1.0.0"],
  );
  assert.equal((await cb.templates.get(made.id, { version: "1.0.0" })).id, made.id);
  const run = await cb.templates.deploy(made.id, { text: "hi" });
  await run.wait({ waitMs: 30_000 });
  assert.equal(run.steps.echo?.output, "hi");
  assert.equal((await cb.templates.dryRun(made.id, { text: "hi" })).status, "dry_run");
  await assert.rejects(cb.templates.deploy(made.id, {}), /text/);
  assert.ok((await cb.templates.setLatest(made.id, "1.0.0")).latestSet);
  assert.ok((await cb.templates.followHighest(made.id)).latest);
  assert.ok((await cb.templates.retire(made.id, "1.0.0")).retiredAt);
  await assert.rejects(cb.templates.deploy(made.id, { text: "hi" }), /retired/);
  await cb.templates.retire(made.id, "1.0.0", { retired: false });
  assert.equal(await cb.executions.list({ templateId: made.id, version: "1.0.0" }).total(), 1);
  assert.equal((await cb.executions.erase(run.id, "asked for")).tasks, 1);
  await cb.templates.delete(made.id);
  const yaml = `name: ${fresh("Yaml")}\nversion: 1.0.0\nindustry: custom\ninputSchema: {type: object}\nsteps: [{id: a, prompt: say a}]\n`;
  assert.equal((await cb.templates.publishYaml(yaml)).version, "1.0.0");
});

test("events go on from a cursor", async () => {
  const since = await cb.cursor();
  const task = await cb.tasks.submit("x", { queue: "nobody" });
  const created = await first(cb.events("task.*", { since, taskId: task.id }));
  assert.deepEqual([created.event, created.resource.id, created.data.id], ["task.created", task.id, task.id]);
  await task.cancel();
  assert.ok(created.cursor);
  const next = await first(cb.events("task.*", { since: created.cursor, taskId: task.id }));
  assert.equal(next.event, "task.cancelled");
  const gap = await first(cb.events([], { since: "e0" })).catch((it) => it);
  assert.ok(gap instanceof errors.EventGap && gap.to);
  await assert.rejects(first(cb.events("nothing.*" as never)), errors.BadRequest);
  const controller = new AbortController();
  const waiting = first(cb.events("worker.*", { signal: controller.signal }));
  await sleep(50);
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("the rest of the interface answers", async () => {
  await cb.tasks.run("say x");
  assert.match((await cb.system.health()).status, /ok|degraded/);
  assert.match(await cb.system.metrics(), /svc_tasks_total/);
  assert.match((await cb.system.openapi()).openapi, /^3\.1/);
  assert.ok((await cb.workers.list().all()).some((it) => it.name === "test"));
  assert.ok((await cb.queues.list().all()).some((it) => it.name === "default"));
  assert.ok((await cb.queues.change("sdk", { paused: true })).paused);
  assert.ok((await cb.models.list().all()).length > 0);
  assert.equal((await cb.models.setLimits("sdk/model", { concurrent: 2 })).name, "sdk/model");
  assert.equal((await cb.system.usage({ groupBy: "model" })).groupBy, "model");
  assert.ok((await first(cb.system.audit())).action);
  assert.equal((await cb.hitl.statistics()).windowDays, 30);
  assert.ok((await cb.hitl.calibration({ threshold: 0.5 })).thresholds);
  const { secret } = await cb.webhooks.secret();
  assert.match(secret, /^whsec_/);
  assert.equal((await cb.webhooks.rotateSecret({ overlap: "1h" })).previous?.secret, secret);
  assert.deepEqual(await cb.webhooks.deliveries().all(), []);
  assert.ok((await first(cb.system.backup())).length > 0);
  assert.equal((await cb.system.backupStatus()).restorable, undefined);
  await assert.rejects(cb.system.reportBackup({ id: "a", lineage: 0, group: 1 }), /lineage/);
  await assert.rejects(cb.system.reportVerification({ id: "a", lineage: 0, result: "intact" }), /lineage/);
  assert.ok((await cb.system.storage()).kinds.some(({ name }) => name === "accounts"));
  const key = await cb.keys.create({ name: "k", role: "viewer" });
  assert.ok((await cb.keys.rotate(key.id, { overlap: "1h" })).key);
  assert.ok((await cb.keys.list().all()).some((it) => it.id === key.id));
  assert.equal((await cb.keys.revokeMany({ madeBy: key.id, dryRun: true })).total, 1);
  assert.equal((await cb.keys.revokeMany({ madeBy: key.id })).keys[0]?.id, key.id);
  const email = `${fresh("u")}@example.com`;
  const user = await cb.users.create({ email, password: "a long pass phrase 7", role: "viewer" });
  assert.equal((await cb.users.change(user.id, { role: "operator" })).role, "operator");
  assert.equal((await cb.users.delete(user.id)).id, user.id);
  const budget = await cb.budgets.create({ limit: 5, period: "day", match: { tags: ["none"] } });
  assert.equal((await cb.budgets.delete(budget.id)).id, budget.id);
  const at = new Date(Date.now() + 86_400_000);
  const schedule = await cb.schedules.create({ name: "s", at, target: { task: { prompt: "say x", maxTokens: 3 } } });
  assert.equal((await cb.schedules.change(schedule.id, { enabled: false })).enabled, false);
  assert.deepEqual(await cb.schedules.runs(schedule.id).all(), []);
  assert.equal(await cb.schedules.list({ enabled: false }).total(), 1);
  await cb.schedules.delete(schedule.id);
  const task = await (await cb.tasks.submit("say x")).wait();
  await task.erase("asked for");
  assert.ok((await task.refresh()).erasedAt && task.output === undefined);
  const failed = await (await cb.tasks.submit("fail")).wait({ check: false });
  assert.ok((await failed.submitAgain()).retryOf);
});

test("a session is begun, renewed and ended", async () => {
  const begun = await cb.sessions.logIn(EMAIL, PASSWORD);
  const renewed = await cb.sessions.refresh(begun.refreshToken);
  const mine = await server.client({ apiKey: renewed.token });
  assert.equal((await mine.sessions.who()).user.email, EMAIL);
  assert.ok((await mine.sessions.list().all()).length > 0);
  assert.ok((await mine.sessions.methods()).password);
  assert.ok((await mine.sessions.createLink()).token);
  await assert.rejects(mine.sessions.changePassword("wrong", "another pass phrase 7"), errors.ApiError);
  await mine.sessions.logOut();
  await assert.rejects(mine.sessions.who(), errors.Unauthorized);
  await assert.rejects(cb.sessions.setUp({ token: "x", email: EMAIL, password: PASSWORD }), errors.ApiError);
});
