// Budgets: the list, one, the forms; and what was spent, stacked by group.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import {
  accessible,
  close,
  follow,
  launch,
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
const MODEL = "gpt-4o-mini";
let server;
let browser;
let worker;
const ids = {};

const run = async (tags, model, output) => {
  const { id } = await server.call("POST", "/api/tasks", {
    prompt: `Say ${output}.`,
    model,
    tags,
    maxTokens: 10,
  });
  await server.until(
    async () => (await server.call("GET", `/api/tasks/${id}`)).status === "completed",
    "a result",
  );
};

before(async () => {
  server = await startServer();
  browser = await launch();
  // 0.15 and 0.60 USD for a million tokens: a result costs 0.75 USD.
  worker = await startWorker(server, {
    answer: () => ({ say: "done", usage: { input: 1_000_000, output: 1_000_000 } }),
  });
  const create = (body) => server.call("POST", "/api/budgets", body);
  ids.team = (await create({ match: { tags: ["team:search"] }, limit: 3, period: "total" })).id;
  ids.all = (await create({ match: {}, limit: 500, period: "month", onExceed: "alert" })).id;
  ids.zero = (await create({ match: { model: "gpt-4o" }, limit: 0, period: "day", onExceed: "reject" })).id;
  await run(["team:search", "customer:a"], MODEL, "one");
  await run(["team:search", "customer:b"], MODEL, "two");
  await run(["team:mail"], "gpt-4.1-mini", "three");
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("the list says what is spent and left of each budget, and when it runs out", async () => {
  const page = await open(browser, server, "/budgets");
  const row = (name) => page.locator(".table-body .table-row", { hasText: name });
  const { spent } = await server.call("GET", `/api/budgets/${ids.team}`);
  assert.equal(spent, 1.5);
  await row("team:search").getByText("$1.50").first().waitFor();
  // 1.50 USD in the last 24 hours, and as much is left: tomorrow.
  const tomorrow = await page.evaluate(() =>
    new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" }).format(
      Date.now() + 86_400_000,
    ),
  );
  await row("team:search").getByText(`on ${tomorrow}`).waitFor();
  await row("every task").getByText("not in this period").waitFor();
  await row("gpt-4o").getByText("nothing is left").waitFor();
  await looksOf(page, "budgets");
  await resize(page, NARROW);
  await accessible(page, "budgets at 360 px");
  await shot(page, "budgets-narrow");
  await resize(page, WINDOW);
  // A result is followed without a reload.
  await run(["team:search"], MODEL, "four");
  await row("team:search").getByText("$2.25").waitFor();
  await row("team:search").getByRole("link", { name: "$3.00 in all" }).click();
  await page.getByRole("heading", { name: "$3.00 in all" }).waitFor();
  await page.getByRole("img", { name: /\$2\.25 spent/ }).waitFor();
  await looksOf(page, "budget");
  await resize(page, NARROW);
  await accessible(page, "a budget at 360 px");
  await shot(page, "budget-narrow");
  await resize(page, WINDOW);
  await close(page);
});

test("a budget is created, changed and deleted; a refusal stands at its field", async () => {
  const page = await open(browser, server, "/budgets");
  await page.getByRole("button", { name: "New budget" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Limit, in USD").fill("20");
  await dialog.getByLabel("Tags").fill("team:mail");
  await dialog.getByLabel("Time zone").fill("Europe/Nowhere");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.locator(".fault").waitFor();
  await accessible(page, "the form of a budget");
  await shot(page, "budget-new");
  await resize(page, NARROW);
  await accessible(page, "the form of a budget at 360 px");
  await shot(page, "budget-new-narrow");
  await resize(page, WINDOW);
  await dialog.getByLabel("Time zone").fill("Europe/Vienna");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "$20.00 a month" }).waitFor();
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const made = await server.call("GET", `/api/budgets/${id}`);
  assert.deepEqual(
    [made.match.tags, made.alertAt, made.timezone],
    [["team:mail"], [0.5, 0.8], "Europe/Vienna"],
  );
  await page.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Limit, in USD").fill("25");
  await dialog.getByLabel("Alerts, in % of the limit").fill("90");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "$25.00 a month" }).waitFor();
  const changed = await server.call("GET", `/api/budgets/${id}`);
  assert.deepEqual([changed.limit, changed.alertAt], [25, [0.9]]);
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Budgets" }).waitFor();
  await eventually(async () => assert.equal(await page.getByText("$25.00 a month").count(), 0));
  await close(page);
});

test("what was spent is stacked by tag, and the table of it can be kept", async () => {
  const page = await open(browser, server, "/insights?tab=cost");
  await page.getByRole("heading", { name: "Cost by day and model" }).waitFor();
  await page.getByLabel("Stacked by").selectOption("tag");
  const panel = page.locator(".panel", {
    has: page.getByRole("heading", { name: "Cost by day and tag", exact: true }),
  });
  await panel.getByRole("row", { name: /team:search/ }).waitFor();
  await looksOf(page, "cost-stacked");
  await resize(page, NARROW);
  await accessible(page, "the cost at 360 px");
  await shot(page, "cost-stacked-narrow");
  await resize(page, WINDOW);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    panel.getByRole("button", { name: "CSV" }).click(),
  ]);
  const csv = await readFile(await file.path(), "utf8");
  const lines = csv.trim().split("\n");
  assert.equal(lines[0], "from,tag,tasks,input,output,costUsd");
  const search = lines.filter((line) => line.includes(",team:search,"));
  const { spent } = await server.call("GET", `/api/budgets/${ids.team}`);
  assert.equal(search.length, 1);
  assert.equal(Number(search[0].split(",").at(-1)), spent);
  await page.getByLabel("Days").selectOption("90");
  await page.getByRole("heading", { name: "Cost by week and tag" }).waitFor();
  await panel.waitFor({ state: "detached" });
  await close(page);
});

test("a viewer reads budgets and is offered no change", async () => {
  const user = await server.user("viewer");
  const page = await open(browser, server, "/budgets", { user });
  await page.getByText("every task").waitFor();
  assert.equal(await page.getByRole("button", { name: "New budget" }).count(), 0);
  await follow(page, `/budgets/${ids.all}`);
  await page.getByText("As it stands").waitFor();
  assert.equal(await page.getByRole("button", { name: /Edit|Delete/ }).count(), 0);
  await close(page);
});
