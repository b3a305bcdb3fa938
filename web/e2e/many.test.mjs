// A server with very many items: how soon pages answer to a hand, and whether their memory stays flat under live
// events. The long form (CALLBOARD_LONG) is of 100,000 tasks and an hour; CALLBOARD_LIVE_SECONDS names another time.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { close, launch, live, loaded, open } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { allowed } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

const MANY = process.env.CALLBOARD_LONG
  ? { tasks: 100_000, templates: 300, schedules: 50, budgets: 20, seconds: 3_600, rounds: 5 }
  : { tasks: 3_000, templates: 30, schedules: 10, budgets: 5, seconds: 5, rounds: 1 };
const SECONDS = Number(process.env.CALLBOARD_LIVE_SECONDS ?? MANY.seconds);
/** Tasks a second, each with three events: it is ready, leased and done. */
const RATE = 67;
const LINES = 1_000;

let server;
let browser;
let worker;

before(async () => {
  server = await startServer({ LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE: "1000000" });
  worker = await startWorker(server, { concurrency: 200 });
  browser = await launch();
  const began = Date.now();
  await seed();
  console.log(`# ${MANY.tasks} tasks and the rest stand after ${Math.round((Date.now() - began) / 1_000)} s`);
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const seeded = (number) => ({
  title: `Letter ${number}`,
  prompt: `Write to customer ${number} about the damage to the roof, in two sentences.`,
  tags: [`customer:${number % 100}`, `team:${number % 7}`],
  priority: 1 + (number % 10),
  // One in ten waits where no worker looks.
  queue: number % 10 === 0 ? "later" : "default",
});

async function seed() {
  const lines = Array.from({ length: MANY.tasks }, (_, number) => JSON.stringify(seeded(number)));
  for (let from = 0; from < lines.length; from += LINES)
    await load(`${lines.slice(from, from + LINES).join("\n")}\n`);
  for (let number = 0; number < MANY.templates; number++)
    await server.call("POST", "/api/templates", {
      name: `Letters of team ${number}`,
      version: "1.0.0",
      industry: "custom",
      visibility: "organization",
      inputSchema: { type: "object", properties: { who: { type: "string" } } },
      steps: [
        { id: "draft", prompt: "Write to {{input.who}}." },
        { id: "short", dependsOn: ["draft"], prompt: "Shorten it: {{draft.output}}" },
      ],
    });
  for (let number = 0; number < MANY.schedules; number++)
    await server.call("POST", "/api/schedules", {
      name: `Digest ${number}`,
      cron: `${number} 3 * * MON-FRI`,
      timezone: "Europe/Berlin",
      target: { task: { prompt: "Write the digest." } },
    });
  for (let number = 0; number < MANY.budgets; number++)
    await server.call("POST", "/api/budgets", {
      match: { tags: [`customer:${number}`] },
      limit: 100,
      period: "month",
    });
  const done = async () => {
    const open = await server.answer("GET", "/api/tasks?status=pending,running&queue=default&limit=1");
    return open.pagination.total === 0;
  };
  await server.until(done, "the end of the tasks");
}

/** Submits a line each. */
async function load(lines) {
  const answer = await fetch(`${server.url}/api/tasks/bulk`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${await server.token()}`,
      "content-type": "application/x-ndjson",
    },
    body: lines,
  });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  assert.doesNotMatch(text, /"error"/);
}

/** Submits tasks at the rate, until it is stopped. Returns the function that stops it. */
function makeEvents() {
  let number = 0;
  let isOver = false;
  const run = async () => {
    const began = Date.now();
    while (!isOver) {
      const due = Math.floor(((Date.now() - began) * RATE) / 1_000) - number;
      if (due > 0) {
        const tasks = Array.from({ length: Math.min(due, 100) }, () => ({
          ...seeded(++number),
          queue: "default",
        }));
        await server.call("POST", "/api/tasks/batch", { tasks });
      }
      await pause(100);
    }
  };
  const running = run();
  return async () => {
    isOver = true;
    await running;
  };
}

/** Counts the events that the server sends. */
async function countEvents() {
  const headers = { authorization: `Bearer ${await server.token()}` };
  const call = request(`${server.url}/api/events`, { headers });
  const counter = { events: 0, stop: () => call.destroy() };
  call.on("error", () => {});
  call.on("response", (response) => {
    response.setEncoding("utf8");
    let rest = "";
    response.on("error", () => {});
    response.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      counter.events += lines.filter((line) => line.startsWith("data:")).length;
    });
  });
  call.end();
  return counter;
}

/** In the page: each interaction lasts as long as the longest of its events, from the hand to the next picture. */
function watchInteractions() {
  window.interactions = new Map();
  new PerformanceObserver((list) => {
    for (const { interactionId, duration, name, target } of list.getEntries()) {
      if (!interactionId) continue;
      const known = window.interactions.get(interactionId);
      if (known && known.duration >= duration) continue;
      const at = target?.getAttribute?.("aria-label") || target?.textContent?.slice(0, 40) || "";
      window.interactions.set(interactionId, { duration, name, at, path: location.pathname });
    }
  }).observe({ type: "event", durationThreshold: 16, buffered: true });
}

test("a page answers to a hand within 100 ms, on a server with very many items and live events", async (context) => {
  const stop = makeEvents();
  const page = await open(browser, server, null, { anew: true });
  await page.addInitScript(watchInteractions);
  await page.goto("/");
  await loaded(page);
  const nav = page.getByRole("navigation").first();
  let hands = 0;
  const click = async (locator) => {
    await locator.click();
    hands++;
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50))));
  };
  const type = async (text) => {
    for (const key of text) {
      await page.keyboard.press(key);
      hands++;
      await pause(40);
    }
  };
  for (let round = 0; round < MANY.rounds; round++) {
    for (const name of [
      "Tasks",
      "Templates",
      "Schedules",
      "Budgets",
      "Executions",
      "Queues",
      "Insights",
      "Tasks",
    ]) {
      await click(nav.getByRole("link", { name, exact: true }));
      await page.getByRole("heading", { name, level: 1 }).waitFor();
      // Under live events a page is never quite still.
      await page.locator(".loading").first().waitFor({ state: "detached" });
    }
    for (const name of ["failed", "completed", "failed", "completed"])
      await click(page.getByRole("button", { name, exact: true }).first());
    const first = page.locator("[role=row][data-key]").first();
    await first.waitFor();
    await click(
      page
        .getByRole("textbox", { name: /Search|Title/ })
        .or(page.getByRole("searchbox"))
        .first(),
    );
    await type("Letter 42");
    await page.keyboard.press("Enter");
    await first.waitFor();
    await page.mouse.move(700, 500);
    for (let turn = 0; turn < 10; turn++) {
      await page.mouse.wheel(0, 900);
      await pause(50);
    }
    await click(first.getByRole("link").first());
    await page.goBack();
    await first.waitFor();
    await page.keyboard.press("Control+k");
    const search = page.getByRole("dialog");
    await search.waitFor();
    await type("letter 77");
    // The first one clears the field.
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await search.waitFor({ state: "detached" });
    await click(nav.getByRole("link", { name: "Templates", exact: true }));
    await click(page.getByRole("searchbox", { name: "Search templates" }));
    await type("team 7");
  }
  const seen = await page.evaluate(() => [...window.interactions.values()]);
  await stop();
  // Those below 16 ms are not told.
  const all = [...seen.map(({ duration }) => duration), ...Array(Math.max(0, hands - seen.length)).fill(16)];
  all.sort((one, other) => one - other);
  const at = (share) => all[Math.min(all.length - 1, Math.floor(all.length * share))];
  const slow = seen.filter(({ duration }) => duration > 100);
  context.diagnostic(
    `${all.length} interactions: median ${at(0.5)}, 98 % within ${at(0.98)}, longest ${all.at(-1)} ms`,
  );
  for (const it of slow) context.diagnostic(`${it.duration} ms: ${it.name} at ${it.path}: ${it.at}`);
  // Other tests beside the short form delay single frames.
  const held = at(process.env.CALLBOARD_LONG ? 0.98 : 0.5);
  assert.ok(held <= allowed(100), `${held} ms to the next paint`);
  await close(page);
});

test("memory stays flat under live events", async (context) => {
  const counter = await countEvents();
  const stop = makeEvents();
  const pages = [];
  for (const path of ["/", "/tasks"]) {
    const page = await open(browser, server, path, { anew: true });
    await live(page);
    pages.push({ path, page, session: await page.context().newCDPSession(page), samples: [] });
  }
  const began = Date.now();
  const before = counter.events;
  const every = Math.max(1_000, (SECONDS * 1_000) / 60);
  while (Date.now() - began < SECONDS * 1_000) {
    await pause(every);
    for (const { session, samples } of pages) {
      await session.send("HeapProfiler.collectGarbage");
      const { usedSize } = await session.send("Runtime.getHeapUsage");
      const { nodes } = await session.send("Memory.getDOMCounters");
      samples.push({ megabytes: usedSize / 1e6, nodes });
    }
  }
  const rate = ((counter.events - before) / (Date.now() - began)) * 1_000;
  await stop();
  counter.stop();
  context.diagnostic(`${rate.toFixed(0)} events a second for ${SECONDS} s`);
  const quarter = (samples, number, of) => {
    const part = samples.slice((samples.length * (number - 1)) / 4, (samples.length * number) / 4);
    return part.reduce((sum, sample) => sum + sample[of], 0) / part.length;
  };
  for (const { path, samples } of pages) {
    const [second, last] = [2, 4].map((number) => quarter(samples, number, "megabytes"));
    const nodes = [2, 4].map((number) => Math.round(quarter(samples, number, "nodes")));
    const figures = `${second.toFixed(1)} MB, then ${last.toFixed(1)} MB; ${nodes.join(", then ")} nodes`;
    context.diagnostic(`${path}: ${figures}`);
    const tenths = samples.filter((_, at) => at % Math.ceil(samples.length / 10) === 0);
    context.diagnostic(`${path}: ${tenths.map((it) => it.megabytes.toFixed(1)).join(", ")} MB over time`);
    assert.ok(last <= second * 1.1 + 1, `${path}: ${figures}`);
  }
  assert.ok(rate * allowed(1) > RATE, `${rate} events a second`);
  for (const { page } of pages) await close(page);
});
