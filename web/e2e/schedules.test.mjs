// Schedules: the list, one with its runs and its year, the form, and what is not offered to a viewer.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  accessible,
  close,
  follow,
  launch,
  live,
  loaded,
  looksOf,
  open,
  resize,
  shot,
  WINDOW,
} from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { eventually } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

const NARROW = { width: 360, height: 800 };
let server;
let browser;
let worker;
const ids = {};

const TEMPLATE = {
  name: "Digest",
  version: "1.0.0",
  industry: "custom",
  visibility: "organization",
  inputSchema: {
    type: "object",
    required: ["topic"],
    properties: { topic: { type: "string" }, length: { type: "integer" } },
  },
  steps: [{ id: "write", prompt: "Write about {{input.topic}}.", retry: { maxAttempts: 1 } }],
};
const hold = (prompt) => ({ task: { prompt: JSON.stringify(prompt), retry: { maxAttempts: 1 } } });

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server);
  await server.call("POST", "/api/templates", TEMPLATE);
  const create = (body) => server.call("POST", "/api/schedules", body);
  ids.night = (
    await create({
      name: "Nightly digest",
      cron: "30 2 * * *",
      timezone: "Europe/Berlin",
      target: { templateId: "digest-v1", input: { topic: "{{meta.scheduledDate}}" } },
    })
  ).id;
  ids.bad = (
    await create({
      name: "Fails always",
      cron: "*/15 * * * *",
      timezone: "America/New_York",
      target: hold({ fail: "the provider is out of ink" }),
    })
  ).id;
  ids.slow = (
    await create({
      name: "Takes long",
      cron: "0 9 * * MON-FRI",
      timezone: "UTC",
      overlap: "queue",
      target: hold({ hang: true }),
    })
  ).id;
  for (let run = 0; run < 3; run++) {
    const { taskId } = await server.call("POST", `/api/schedules/${ids.bad}/trigger`);
    const isOver = async () => (await server.call("GET", `/api/tasks/${taskId}`)).status === "failed";
    await server.until(isOver, "the end of a failing run");
  }
  await server.call("POST", `/api/schedules/${ids.slow}/trigger`);
  await server.call("PATCH", `/api/schedules/${ids.slow}`, { enabled: false });
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("the list says when each runs, in words and in both zones, and marks one that does not succeed", async () => {
  const page = await open(browser, server, "/schedules", { timezoneId: "Asia/Tokyo" });
  const row = (name) => page.locator(".table-body .table-row", { hasText: name });
  await row("Nightly digest").getByText("At 02:30").waitFor();
  await row("Nightly digest").getByText("for you").waitFor();
  await row("Fails always").getByText("Every 15 minutes").waitFor();
  await row("Fails always").getByText("no success in 3 runs").waitFor();
  await row("Takes long").getByText("paused").waitFor();
  await looksOf(page, "schedules");
  await resize(page, NARROW);
  await accessible(page, "schedules at 360 px");
  await shot(page, "schedules-narrow");
  await resize(page, WINDOW);
  await page.getByLabel("State").selectOption("paused");
  await eventually(async () => assert.equal(await page.locator(".table-body .table-row").count(), 1));
  await close(page);
});

test("one schedule: the next run is the server's, a year has its changes of the clocks, runs say what became of them", async () => {
  const page = await open(browser, server, `/schedules/${ids.night}`, { timezoneId: "Europe/Berlin" });
  const next = page.getByRole("list", { name: "Next runs" }).locator("time").first();
  await next.waitFor();
  const { nextRunAt } = await server.call("GET", `/api/schedules/${ids.night}`);
  assert.equal(Date.parse(await next.getAttribute("datetime")), Date.parse(nextRunAt));
  await page.getByText("1 h forward").waitFor();
  await page.getByText("1 h back").waitFor();
  await page.getByRole("img", { name: "365 runs on 365 of 365 days" }).waitFor();
  await live(page);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("button", { name: "Show it" }).waitFor();
  await page.getByRole("table", { name: "Runs" }).getByText("completed").waitFor();
  await page.locator(".toast").waitFor({ state: "detached" });
  await looksOf(page, "schedule");
  await resize(page, NARROW);
  await accessible(page, "a schedule at 360 px");
  await shot(page, "schedule-narrow");
  await resize(page, WINDOW);

  await follow(page, `/schedules/${ids.bad}`);
  await page.getByText("no success in 3 runs").waitFor();
  await eventually(async () =>
    assert.equal(await page.getByRole("table", { name: "Runs" }).getByText("failed").count(), 3),
  );
  await shot(page, "schedule-failing");
  // The run in progress is named where another one cannot start.
  await follow(page, `/schedules/${ids.slow}`);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText("It was not started").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  assert.equal((await server.call("GET", `/api/schedules/${ids.slow}`)).enabled, true);
  await close(page);
});

test("a schedule is created with the form, changed, and deleted", async () => {
  const page = await open(browser, server, "/schedules/new", { timezoneId: "Europe/Vienna" });
  assert.equal(await page.getByLabel("Time zone").inputValue(), "Europe/Vienna");
  await page.getByLabel("Name").fill("Weekly letter");
  await page.getByLabel("Cron expression").fill("0 8 * * 9");
  await page.getByText("not an expression of five fields").waitFor();
  await page.getByRole("button", { name: "every Monday" }).click();
  await page.getByText("At 08:00, only on Monday").waitFor();
  await page.getByLabel("Template").selectOption("digest-v1");
  await page.getByLabel("topic (required)").waitFor();
  await page.getByRole("button", { name: "Create" }).click();
  // The server names what is missing of the input.
  await page.getByText("It was not saved").waitFor();
  await page.getByLabel("topic (required)").fill("the week before {{meta.scheduledDate}}");
  await loaded(page);
  await looksOf(page, "schedule-new");
  await resize(page, NARROW);
  await accessible(page, "the form at 360 px");
  await shot(page, "schedule-new-narrow");
  await resize(page, WINDOW);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Weekly letter" }).waitFor();
  const all = await server.call("GET", "/api/schedules?limit=100");
  const made = all.find(({ name }) => name === "Weekly letter");
  const { target, cron, timezone } = await server.call("GET", `/api/schedules/${made.id}`);
  assert.deepEqual([cron, timezone], ["0 8 * * MON", "Europe/Vienna"]);
  assert.equal(target.input.topic, "the week before {{meta.scheduledDate}}");

  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByLabel("If an earlier run goes on, a run").selectOption("queue");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("waits for its end").waitFor();
  const changed = await server.call("GET", `/api/schedules/${made.id}`);
  assert.deepEqual([changed.overlap, changed.cron], ["queue", "0 8 * * MON"]);

  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Schedules" }).waitFor();
  await eventually(async () => assert.equal(await page.getByText("Weekly letter").count(), 0));
  await close(page);
});

test("a viewer reads schedules and is offered nothing that changes them", async () => {
  const user = await server.user("viewer");
  const page = await open(browser, server, `/schedules/${ids.night}`, { user });
  await page.getByText("1 h forward").waitFor();
  for (const name of ["Run now", "Pause", "Delete"])
    assert.equal(await page.getByRole("button", { name }).count(), 0);
  await follow(page, "/schedules/new");
  await page.getByText("You may not change schedules").waitFor();
  await close(page);
});
