/** Killed servers, slow and cut connections: nothing is lost, nothing comes twice. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Event, errors, type Fetch } from "@callboard/client";
import { all, CutProxy, RunningWorker, Server, until } from "./support.js";

const server = new Server();
let proxy: CutProxy;
const fresh = (name: string) => `${name}-${randomUUID().slice(0, 8)}`;

/** A server that the test may kill. */
const own = () =>
  new Server({
    CALLBOARD_WORKER__LEASE: "4s",
    CALLBOARD_WORKER__HEARTBEAT: "1s",
    CALLBOARD_WORKER__SILENT_AFTER: "2s",
  }).start();

before(() => server.start());
after(() => server.end());
beforeEach(async () => {
  proxy = await new CutProxy(server).start();
});
afterEach(() => proxy.close());

test("a killed server loses nothing", async () => {
  // kill -9 in the middle of a wait, a stream, a stream of events and a worker's tasks.
  const mine = await own();
  const cb = await mine.client();
  const worker = await RunningWorker.start(mine);
  const since = await cb.cursor();
  const waits = await cb.tasks.submit("hold waited for");
  const waiting = waits.wait({ waitMs: 60_000 });
  const pieces: string[] = [];
  const streaming = (async () => {
    for await (const it of cb.tasks.stream("hold one two three", { waitMs: 60_000 })) pieces.push(it);
  })();
  const seen: Event[] = [];
  const following = (async () => {
    for await (const event of cb.events(["task.created", "task.completed"], { since })) {
      if (seen.push(event) === 8) return;
    }
  })();
  await until(() => pieces.length === 1 && worker.ran.length === 2);
  const first = await (await cb.tasks.submit("say before")).wait();
  await until(() => seen.length === 4);
  await mine.end("SIGKILL");
  const submitting = cb.tasks.submit("say while it is away");
  await sleep(500);
  await mine.start();
  const again = await submitting;
  assert.equal((await again.wait({ waitMs: 30_000 })).output, "while it is away");
  worker.go = true;
  assert.equal((await waiting).output, "waited for");
  await streaming;
  assert.equal(pieces.join(""), "one two three");
  // Each task ran once, although the server died while they ran.
  await worker.stop();
  assert.deepEqual([new Set(worker.ran).size, worker.ran.length], [4, 4]);
  await following;
  // Both events of each task, each once, and in the order of the log.
  const tasks = await cb.tasks.list().all();
  const wanted = tasks.flatMap(({ id }) => [`task.completed ${id}`, `task.created ${id}`]);
  assert.deepEqual(seen.map((it) => `${it.event} ${it.resource.id}`).sort(), wanted.sort());
  const completed = seen.filter((it) => it.event === "task.completed").map((it) => it.resource.id);
  assert.deepEqual(completed.slice(0, 2), [first.id, again.id]);
  assert.equal(tasks.length, 4);
  await mine.end("SIGKILL");
});

test("a result outlives the server", async () => {
  // A task ends while the server is away: its result counts, once, after the worker is back.
  const mine = await own();
  const cb = await mine.client();
  const worker = await RunningWorker.start(mine);
  const task = await cb.tasks.submit("hold on");
  await until(() => worker.ran.length === 1);
  // An answer means that its task is on disk. The lease was in line before the first, so it is there before the second.
  for (const prompt of ["x", "y"]) await cb.tasks.submit(prompt, { queue: "nobody" });
  await mine.end("SIGKILL");
  await until(() => !worker.worker.connected);
  worker.go = true;
  await until(() => worker.finished === 1);
  await mine.start();
  await task.wait({ waitMs: 30_000 });
  assert.deepEqual([task.output, task.attempt, worker.ran.length], ["on", 1, 1]);
  await worker.stop();
  await mine.end("SIGKILL");
});

test("a cut answer makes no second task", async () => {
  const tags = [fresh("cut")];
  const cb = await server.client({ server: proxy.url });
  for (const length of [0, 20, 400]) {
    proxy.cut();
    proxy.cutAfter = length;
    await cb.tasks.submit("x", { tags, queue: "nobody" });
  }
  assert.equal(proxy.cuts, 3);
  assert.equal(await cb.tasks.list({ tags }).total(), 3);
});

test("what takes no key is not repeated", async () => {
  const cb = await server.client({ server: proxy.url });
  const name = fresh("key");
  proxy.cutAfter = 0;
  await assert.rejects(cb.keys.create({ name, role: "viewer" }), errors.ServerUnreachable);
  assert.equal((await cb.keys.list().all()).filter((it) => it.name === name).length, 1);
});

test("a slow connection is waited for, and a silent one is not", async () => {
  proxy.pauseMs = 300;
  await (await server.client({ server: proxy.url })).tasks.list().total();
  proxy.pauseMs = 5_000;
  const impatient = await server.client({ server: proxy.url, timeoutMs: 500, retries: 1 });
  const began = performance.now();
  const late = await impatient.tasks
    .list()
    .total()
    .catch((it) => it);
  assert.ok(late instanceof errors.AnswerTimeout && /raise timeoutMs/.test(late.message));
  assert.ok(performance.now() - began < 4_000);
});

test("a cut stream goes on where it was", async () => {
  const cb = await server.client({ server: proxy.url });
  const worker = await RunningWorker.start(server);
  const words = Array.from({ length: 40 }, (_, index) => `wörd${index}😀`).join(" ");
  const pieces: string[] = [];
  const streaming = (async () => {
    for await (const it of cb.tasks.stream(`hold ${words}`)) pieces.push(it);
  })();
  await until(() => pieces.length > 0);
  for (let cut = 0; cut < 3; cut += 1) {
    proxy.cut();
    await sleep(300);
  }
  worker.go = true;
  await streaming;
  assert.equal(pieces.join(""), words);
  await worker.stop();
});

test("cut events come once each", async () => {
  const cb = await server.client({ server: proxy.url });
  const direct = await server.client();
  const worker = await RunningWorker.start(server);
  const tags = [fresh("events")];
  const since = await direct.cursor();
  const seen: string[] = [];
  const following = (async () => {
    for await (const event of cb.events("task.completed", { tags, since }))
      if (seen.push(event.resource.id) === 30) return;
  })();
  const made: string[] = [];
  for (let index = 0; index < 30; index += 1) {
    made.push((await (await direct.tasks.submit("say x", { tags })).wait()).id);
    if (index % 10 === 5) proxy.cut();
  }
  await following;
  assert.deepEqual(seen, made);
  await worker.stop();
});

test("a worker behind a cut connection runs each task once", async () => {
  const cb = await server.client();
  const queue = fresh("q");
  const worker = await RunningWorker.start(server, { server: proxy.url, queues: [queue] });
  const tasks = await Promise.all([0, 1, 2, 3, 4, 5].map((it) => cb.tasks.submit(`hold t${it}`, { queue })));
  await until(() => worker.ran.length === 6);
  proxy.cut();
  worker.go = true;
  const outputs = await Promise.all(tasks.map(async (it) => (await it.wait({ waitMs: 30_000 })).output));
  assert.deepEqual(outputs, ["t0", "t1", "t2", "t3", "t4", "t5"]);
  assert.equal(worker.ran.length, 6);
  await worker.stop();
});

test("a worker comes back soon after each break", async () => {
  const worker = await RunningWorker.start(server, { server: proxy.url, queues: ["nobody-else"] });
  const cb = await server.client();
  for (let cut = 0; cut < 6; cut += 1) {
    await until(() => worker.worker.connected, 3_000);
    proxy.cut();
    await until(() => !worker.worker.connected);
  }
  await until(() => worker.worker.connected);
  // It is the same worker each time.
  assert.equal((await cb.workers.list().all()).filter((it) => it.queues[0] === "nobody-else").length, 1);
  await worker.stop();
});

test("a server that stays away ends the wait", async () => {
  const cb = await server.client({ server: proxy.url, patienceMs: 1_000, retries: 1 });
  const task = await cb.tasks.submit("x", { queue: "nobody" });
  proxy.refuse = true;
  proxy.cut();
  const began = performance.now();
  await assert.rejects(task.wait(), errors.ServerUnreachable);
  assert.ok(performance.now() - began < 10_000);
});

test("a stream that is left ends its connection", async () => {
  const cb = await server.client({ server: proxy.url });
  const direct = await server.client();
  const since = await direct.cursor();
  await direct.tasks.submit("x", { queue: "nobody" });
  for (let index = 0; index < 60; index += 1) {
    // The server has 50 streams for an account, so each must end.
    for await (const event of cb.events("task.created", { since })) if (event.cursor) break;
  }
});

test("more waits than streams all end", async () => {
  // The server has no stream left for some waits: these read the task instead.
  const few = await new Server({ CALLBOARD_LIMITS__STREAMS: "2" }).start();
  const cb = await few.client();
  const worker = await RunningWorker.start(few);
  const tasks = await Promise.all([0, 1, 2, 3, 4].map((it) => cb.tasks.submit(`hold t${it}`)));
  const waits = tasks.map((it) => it.wait({ waitMs: 60_000 }));
  await until(() => worker.ran.length === 5);
  await sleep(500);
  worker.go = true;
  assert.deepEqual(
    (await Promise.all(waits)).map((it) => it.output),
    ["t0", "t1", "t2", "t3", "t4"],
  );
  await worker.stop();
  await few.end();
});

test("a proxy's answer is told from the server's", async () => {
  const answers = (status: number, text: string) => async () => new Response(text, { status });
  const behind = (fetch: Fetch) => server.client({ fetch, retries: 0 });
  const bad = await behind(answers(502, "<html>Bad gateway"));
  await assert.rejects(bad.tasks.list().total(), /GET \/api\/tasks: a proxy answered 502/);
  const odd = await behind(answers(200, "<html>Sign in"));
  await assert.rejects(all(odd.tasks.list()), errors.UnexpectedAnswer);
  await assert.rejects(odd.cursor(), errors.UnexpectedAnswer);
});
