// What else the server can do: retry and erase a task, choose and retire versions, pause everything.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, follow, launch, live, open, resize, shot, WINDOW } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { eventually } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

const NARROW = { width: 360, height: 800 };
let server;
let browser;
let worker;
before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server);
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const failed = async () => {
  const { id } = await server.call("POST", "/api/tasks", {
    prompt: JSON.stringify({ fail: "a secret word" }),
    retry: { maxAttempts: 1 },
  });
  await server.until(
    async () => (await server.call("GET", `/api/tasks/${id}`)).status === "failed",
    "a failure",
  );
  return id;
};

test("a failed task is tried again as a new one, and its texts are erased with a reason", async () => {
  const id = await failed();
  const page = await open(browser, server, `/tasks/${id}`);
  await live(page);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByText("It is tried again, as a new task.").waitFor();
  const made = new URL(page.url()).pathname.split("/").at(-1);
  assert.notEqual(made, id);
  assert.equal((await server.call("GET", `/api/tasks/${made}`)).retryOf, id);
  await follow(page, `/tasks/${id}`);
  await page.getByRole("button", { name: "Erase texts" }).click();
  const dialog = page.getByRole("dialog");
  assert.ok(await dialog.getByRole("button", { name: "Erase" }).isDisabled());
  await dialog.getByLabel("Reason").fill("the customer asked");
  await accessible(page, "the erasure of texts");
  await shot(page, "erase");
  await dialog.getByRole("button", { name: "Erase" }).click();
  await page.getByText("The texts are erased.").waitFor();
  await eventually(async () => assert.equal(await page.getByText("a secret word").count(), 0));
  const task = await server.call("GET", `/api/tasks/${id}`);
  assert.ok(task.erasedAt && !JSON.stringify(task).includes("secret"));
  const [entry] = await server.call("GET", "/api/audit?limit=1&action=task.texts_erased");
  assert.equal(entry?.details?.reason, "the customer asked");
  await close(page);
});

test("a version is made the latest and retired, and deploys follow", async () => {
  const version = (number) => ({
    name: "Letter",
    version: number,
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties: {} },
    steps: [{ id: "write", prompt: `Write ${number}.` }],
  });
  for (const number of ["1.0.0", "1.1.0"]) await server.call("POST", "/api/templates", version(number));
  const page = await open(browser, server, "/templates/letter-v1?tab=versions");
  const row = (number) => page.getByRole("row", { name: new RegExp(`^${number.replaceAll(".", "\\.")}`) });
  await row("1.0.0").getByRole("button", { name: "Make it the latest" }).click();
  await row("1.0.0").getByText("latest, as chosen").waitFor();
  assert.equal((await server.call("GET", "/api/templates/letter-v1")).version, "1.0.0");
  await row("1.0.0").getByRole("button", { name: "Follow the highest" }).click();
  await row("1.1.0").getByText("latest", { exact: true }).waitFor();
  await row("1.1.0").getByRole("button", { name: "Retire" }).click();
  await row("1.1.0").getByText("retired").waitFor();
  assert.equal((await server.call("GET", "/api/templates/letter-v1")).version, "1.0.0");
  await accessible(page, "versions");
  await shot(page, "versions");
  await resize(page, NARROW);
  await accessible(page, "versions at 360 px");
  await resize(page, WINDOW);
  await row("1.1.0").getByRole("button", { name: "Restore" }).click();
  await row("1.1.0").getByText("latest", { exact: true }).waitFor();
  await close(page);
});

test("everything is paused with a reason that every page shows, and goes on", async () => {
  const page = await open(browser, server, "/queues");
  await page.getByRole("button", { name: "Pause everything" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("costs run away");
  await accessible(page, "the pause of everything");
  await dialog.getByRole("button", { name: "Pause" }).click();
  await page.locator("[data-paused]").getByText("costs run away").waitFor();
  assert.equal((await server.call("GET", "/api/system/pause")).paused, true);
  await shot(page, "paused");
  await accessible(page, "the page while everything is paused");
  await page.getByRole("button", { name: "Resume everything" }).click();
  await page.locator("[data-paused]").waitFor({ state: "detached" });
  assert.equal((await server.call("GET", "/api/system/pause")).paused, false);
  await close(page);
});

test("the page of a thing that does not exist has a title and a way back", async () => {
  const page = await open(browser, server, "/tasks/dt_task_none");
  await page.getByRole("link", { name: "To all tasks" }).click();
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.goto("/no/such/page");
  await page.getByRole("heading", { name: "No such page" }).waitFor();
  assert.equal(await page.title(), "No such page · Callboard");
  await page.getByRole("link", { name: "To the start" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await close(page);
});

test("the executions of a template begin with their last outcomes, each a link", async () => {
  const template = {
    name: "Outcome",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", required: ["order"], properties: { order: { type: "string" } } },
    steps: [{ id: "one", prompt: "{{input.order}}", retry: { maxAttempts: 1 } }],
  };
  await server.call("POST", "/api/templates", template);
  const ids = [];
  for (const order of ["fine", JSON.stringify({ fail: "no" }), "fine"]) {
    const { id } = await server.call("POST", "/api/templates/outcome-v1/deploy", { input: { order } });
    ids.push(id);
    const isOver = async () => (await server.call("GET", `/api/plans/executions/${id}`)).status !== "running";
    await server.until(isOver, "the end of a run");
  }
  const page = await open(browser, server, "/executions?templateId=outcome-v1");
  const list = page.getByRole("list", { name: "The last 3 outcomes" });
  await list.waitFor();
  const outcomes = (await list.getByRole("link").allInnerTexts()).map((text) => text.split(" ")[0]);
  assert.deepEqual(outcomes, ["completed", "failed", "completed"]);
  await page.getByText("67 % of the last 3 completed").waitFor();
  await accessible(page, "outcomes");
  await shot(page, "outcomes");
  await resize(page, NARROW);
  await accessible(page, "outcomes at 360 px");
  await resize(page, WINDOW);
  await list.getByRole("link").nth(1).click();
  await page.waitForURL(new RegExp(ids[1]));
  await close(page);
});
