/** Workers against a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Callboard, errors, Plan } from "@callboard/client";
import { Failure, type Handler, type Part, Task, Worker, type WorkerOptions } from "@callboard/client/worker";
import { z } from "zod";
import { all, first, RunningWorker, Server, until } from "./support.js";

const server = new Server();
let cb: Callboard;

before(async () => {
  await server.start();
  cb = await server.client();
});
after(() => server.end());

/** Runs a worker until the end of the work. */
async function beside(
  handlers: Record<string, Handler>,
  work: (worker: Worker) => Promise<void>,
  options: WorkerOptions = {},
) {
  const apiKey = await server.key("worker");
  const worker = new Worker({ server: server.url, apiKey, name: "mine", graceMs: 3_000, log: () => {}, ...options });
  for (const [name, it] of Object.entries(handlers)) worker.model(name, it);
  const ended = worker.serve();
  try {
    await work(worker);
  } finally {
    worker.stop();
    await ended;
  }
}

test("functions of every kind answer", async () => {
  const handlers: Record<string, Handler> = {
    promise: async (task) => task.prompt,
    function: (task) => ({
      output: task.prompt,
      usage: { input: 5, output: 6, cacheRead: 2 },
      confidence: 0.25,
      finishReason: "length",
      thinking: "hm",
    }),
    generator: async function* (task) {
      // Also between the halves of a pair of surrogates.
      yield* task.prompt.split("");
      return { usage: { input: 1, output: 2 } };
    },
    "stream-*": (task) => new Blob([task.prompt]).stream().pipeThrough(new TextDecoderStream()),
    "stream-other": () => "exact",
  };
  await beside(handlers, async () => {
    for (const model of ["promise", "function", "generator", "stream-x"]) {
      assert.equal(await cb.tasks.run("ab😀c", { model, waitMs: 30_000 }), "ab😀c", model);
    }
    assert.equal(await cb.tasks.run("abc", { model: "stream-other", waitMs: 30_000 }), "exact");
    assert.equal((await all(cb.tasks.stream("a😀c", { model: "generator" }))).join(""), "a😀c");
  });
  const task = await (await first(cb.tasks.list({ model: "function" }))).refresh();
  assert.deepEqual([task.usage?.input, task.usage?.output, task.usage?.cacheRead], [5, 6, 2]);
  assert.deepEqual([task.confidence, task.confidenceSource], [0.25, "reported"]);
  assert.deepEqual([task.finishReason, task.thinking], ["length", "hm"]);
});

test("functions are called with args of their types", async () => {
  const apiKey = await server.key("worker");
  const worker = new Worker({ server: server.url, apiKey, name: "functions", graceMs: 3_000, log: () => {} });
  const args = z.object({ id: z.number(), tier: z.string().max(4).default("gold") });
  const output = z.object({ name: z.string(), tier: z.string() });
  worker.function("lookup_customer", { args, output, description: "Looks a customer up." }, ({ id, tier }, task) => {
    task.charge(0.25);
    return { name: `customer ${id}`, tier };
  });
  worker.function("crm.greet", { args: { type: "object" } }, async (given) => [`Hello ${JSON.stringify(given)}`]);
  worker.function("nothing", { args: {} }, () => undefined);
  assert.throws(() => worker.function("bare", {} as never, () => 1), {
    name: "InvalidArgument",
    message: /a schema is missing/,
  });
  worker.function("fails", { args: {} }, () => {
    throw new Failure("gone", { retryable: false });
  });
  const ended = worker.serve();
  try {
    const listed = await until(async () => {
      const found = await all(cb.functions.list());
      return found.length === 4 ? found : undefined;
    });
    const lookup = listed.find((it) => it.name === "lookup_customer");
    assert.equal(lookup?.description, "Looks a customer up.");
    assert.deepEqual(lookup?.inputSchema?.required, ["id"]);
    const ada = await cb.tasks.runFunction("lookup_customer", { id: 7 }, { schema: output, waitMs: 30_000 });
    assert.deepEqual(ada, { name: "customer 7", tier: "gold" });
    const task = await cb.tasks.submit({ function: "lookup_customer", args: { id: 8 } });
    await task.wait({ waitMs: 30_000 });
    assert.deepEqual(await task.value(), { name: "customer 8", tier: "gold" });
    assert.deepEqual([task.usage?.totalCost, task.model], [0.25, "function:lookup_customer"]);
    assert.equal(await cb.tasks.runFunction("nothing", {}, { waitMs: 30_000 }), null);
    const wrong = cb.tasks.runFunction("lookup_customer", { id: "x", tier: "longer" }, { waitMs: 30_000 });
    await assert.rejects(wrong, (error: Error) => /args\.id: .*args\.tier: /.test(error.message));
    await assert.rejects(cb.tasks.runFunction("fails", {}, { waitMs: 30_000 }), /gone/);
    const plan = new Plan("functions");
    const one = plan.call("one", "lookup_customer", { id: "{{input.id}}" });
    plan.call("two", "crm.greet", { customer: one.output }, { dependsOn: [one] });
    const run = await cb.plans.execute((await cb.plans.create(plan)).id, { id: 9 });
    await run.wait({ waitMs: 30_000 });
    const expected = ['Hello {"customer":{"name":"customer 9","tier":"gold"}}'];
    assert.deepEqual(JSON.parse(run.steps?.two?.output ?? ""), expected);
    const lost = new Plan("lost");
    lost.call("two", "crm.greet", { customer: ["{{one.output}}"] });
    assert.throws(() => lost.body(), /reads the output of one/);
  } finally {
    worker.stop();
    await ended;
  }
});

test("failures are reported as they are", async () => {
  const attempts: number[] = [];
  const fails: Handler = async (task) => {
    attempts.push(task.attempt);
    if (task.prompt === "late") await sleep(60_000, undefined, { ref: false });
    if (task.prompt === "wait") throw new Failure("busy", { code: "PROVIDER_RATE_LIMITED", retryAfterMs: 3_600_000 });
    if (task.attempt < 2) throw new TypeError("a bug");
    throw new Failure("no such model", { retryable: false });
  };
  const handlers: Record<string, Handler> = {
    fails,
    wrong: () => 7 as never,
    yields: async function* () {
      yield 7 as never;
    },
    long: () => "x".repeat(33 << 20),
    sure: () => ({ output: "x", confidence: 1.1 }),
    negative: () => ({ output: "x", usage: { input: 1, output: -1 } }),
    surrogate: () => "a\ud800b",
  };
  await beside(handlers, async () => {
    const failure = await cb.tasks.run("x", { model: "fails", waitMs: 30_000 }).catch((it) => it);
    assert.ok(failure instanceof errors.TaskFailed && /no such model/.test(failure.message));
    assert.deepEqual([failure.code, attempts], ["PROVIDER_ERROR", [1, 2]]);
    const refused = async (model: string, message: RegExp) =>
      assert.rejects(cb.tasks.run("x", { model, waitMs: 30_000 }), message);
    await refused("wrong", /returned number, not a text/);
    await refused("yields", /yielded number, not a text/);
    await refused("long", /does not fit a frame/);
    await refused("sure", /not within 0 to 1/);
    await refused("negative", /-1 is no count of tokens/);
    assert.equal(await cb.tasks.run("x", { model: "surrogate", waitMs: 30_000 }), "a\ufffdb");
    const late = await cb.tasks.submit("late", { model: "fails", timeoutMs: 500 });
    await until(async () => (await late.refresh()).error);
    assert.equal(late.error?.code, "TASK_TIMEOUT");
    await late.cancel();
    const wait = await cb.tasks.submit("wait", { model: "fails" });
    await until(async () => (await wait.refresh()).error);
    assert.deepEqual([wait.waitingFor, wait.error?.code], ["backoff", "PROVIDER_RATE_LIMITED"]);
    await wait.cancel();
  });
});

test("a cancelled task aborts its signal and ends its generator", async () => {
  const ended: string[] = [];
  const handlers: Record<string, Handler> = {
    "slow-promise": async (task) => {
      try {
        await sleep(60_000, undefined, { signal: task.signal });
      } finally {
        ended.push("promise");
      }
      return "";
    },
    "slow-generator": async function* () {
      try {
        for (;;) {
          yield "x";
          await sleep(10);
        }
      } finally {
        ended.push("generator");
      }
    },
  };
  await beside(handlers, async () => {
    for (const model of Object.keys(handlers)) {
      const task = await cb.tasks.submit("x", { model });
      await until(async () => (await task.refresh()).status === "running");
      await task.cancel();
    }
    await until(() => ended.length === 2);
    assert.deepEqual(ended.sort(), ["generator", "promise"]);
  });
});

test("a stopped worker finishes in time and returns the rest", async () => {
  const queues = ["leave"];
  const one = await RunningWorker.start(server, { queues, graceMs: 1_000 });
  const quick = await cb.tasks.submit("say quick", { queue: "leave" });
  const long = await cb.tasks.submit("hold very long", { queue: "leave" });
  await until(() => one.ran.length === 2);
  const began = performance.now();
  one.worker.stop();
  // A task that comes now is another worker's.
  const later = await cb.tasks.submit("say later", { queue: "leave" });
  await one.ended;
  assert.ok(performance.now() - began < 6_000);
  // It is in its queue again at once, and neither an attempt nor a loss is counted; the fifth would be the end.
  for (let stop = 0; stop < 5; stop += 1) {
    await until(async () => (await long.refresh()).status === "pending");
    const another = await RunningWorker.start(server, { queues, graceMs: 0 });
    await until(() => another.ran.includes("hold very long"));
    another.worker.stop();
    await another.ended;
  }
  await until(async () => (await long.refresh()).status === "pending");
  assert.equal(long.attempt, 1);
  const last = await RunningWorker.start(server, { queues });
  last.go = true;
  await long.wait({ waitMs: 30_000 });
  assert.deepEqual([long.output, long.attempt], ["very long", 1]);
  assert.equal((await quick.wait({ waitMs: 30_000 })).output, "quick");
  assert.equal((await later.wait({ waitMs: 30_000 })).output, "later");
  await last.stop();
});

test("what runs ends within the grace", async () => {
  const worker = await RunningWorker.start(server, { queues: ["grace"], graceMs: 20_000 });
  const task = await cb.tasks.submit("hold a b", { queue: "grace" });
  await until(() => worker.ran.length === 1);
  worker.worker.stop();
  worker.go = true;
  await worker.ended;
  assert.deepEqual([(await task.refresh()).output, worker.ran.length], ["a b", 1]);
});

test("a worker that blocks the event loop keeps its connection", async () => {
  let blocked = 0;
  const busy: Handler = async () => {
    for (let part = 0; part < 4; part += 1) {
      // Behind a heartbeat whose answer has not come yet.
      await new Promise(setImmediate);
      const end = performance.now() + 1_200;
      while (performance.now() < end) blocked += 1;
    }
    return "done";
  };
  const mine = await new Server({ CALLBOARD_WORKER__HEARTBEAT: "1s", CALLBOARD_WORKER__LEASE: "10s" }).start();
  const lines: string[] = [];
  const options = { server: mine.url, apiKey: await mine.key("worker"), log: (line: string) => lines.push(line) };
  await beside(
    { busy },
    async () => {
      assert.equal(await (await mine.client()).tasks.run("x", { model: "busy", waitMs: 30_000 }), "done");
    },
    options,
  );
  assert.ok(blocked > 0);
  assert.equal(lines.length, 1, lines.join("\n"));
  await mine.end();
});

test("the server drains a worker", async () => {
  const worker = await RunningWorker.start(server, { queues: ["drained"] });
  const found = await until(async () =>
    (await cb.workers.list().all()).find((it) => it.queues[0] === "drained" && it.status === "active"),
  );
  await cb.workers.drain(found.id);
  await worker.ended;
});

test("a worker that the server refuses says why", async () => {
  const refused = async (apiKey: string, message: RegExp) => {
    const worker = new Worker({ server: server.url, apiKey, log: () => {} }).model("*", () => "");
    await assert.rejects(worker.run(), (it: Error) => it instanceof errors.WorkerRefused && message.test(it.message));
  };
  await refused(await server.key("viewer"), /may not|role/);
  await refused("svc_worker_nothing", /key|token|credentials/);
  const bound = await cb.keys.create({ name: "bound", role: "worker", queues: ["mine"] });
  await refused(bound.key, /queue/);
  const idle = new Worker({ server: server.url, apiKey: bound.key });
  await assert.rejects(idle.run(), /runs no model/);
});

test("a turn in parts has its texts and its files", async () => {
  const file = {
    id: "file_1",
    contentType: "image/png",
    bytes: 1,
    sha256: "x",
    read: () => Promise.reject(new Error()),
  };
  const content: Part[] = [
    { type: "text", text: "look" },
    { type: "image", file },
    { type: "text", text: "well" },
  ];
  const members = { id: "t", model: "m", queue: "q", prompt: "now", messages: [{ role: "user", content }] };
  const read = () => Promise.resolve(new Uint8Array([7]));
  const task = new Task(members, 1, undefined, new AbortController().signal, read);
  const [turn] = task.messages ?? [];
  assert(Array.isArray(turn?.content));
  const part = turn.content[1];
  assert(part && part.type !== "text");
  assert.deepEqual([...(await part.file.read())], [7]);
  assert.deepEqual(task.chat(), [
    { role: "user", content: "look\nwell" },
    { role: "user", content: "now" },
  ]);
});

test("the turns are those that the server promises", () => {
  const members = { id: "t", model: "m", queue: "q", prompt: "now", systemPrompt: "be brief", context: { a: "é" } };
  const messages = [{ role: "user", content: "before" }];
  const task = new Task({ ...members, messages }, 1, undefined, new AbortController().signal);
  assert.deepEqual(task.chat(), [
    { role: "system", content: "be brief" },
    { role: "system", content: 'Context:\n{"a":"é"}' },
    { role: "user", content: "before" },
    { role: "user", content: "now" },
  ]);
});
