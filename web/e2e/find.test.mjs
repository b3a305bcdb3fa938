// All runs of one customer, what is stuck, what it cost, and an output that is given to somebody else.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, launch, loaded, looksOf, open, resize, shot } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

const LAPTOP = { width: 1366, height: 768 };
const rows = (page) => page.locator("[role=row][data-key]");
let server;
let browser;
let worker;
let template;
before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server, { answer: () => ({ say: "Dear customer" }) });
  template = await server.call("POST", "/api/templates", {
    name: "Claim letters",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties: { who: { type: "string" } }, required: ["who"] },
    steps: [{ id: "letter", prompt: "Write to {{input.who}}", requiresApproval: true }],
  });
  for (const [number, who] of [
    ["K-10241", "Anna Müller"],
    ["K-10242", "Ben Okafor"],
  ])
    await server.call("POST", `/api/templates/${template.id}/deploy`, {
      input: { who },
      title: `Claim ${number} of ${who}`,
      tags: [`customer:${number}`],
    });
  await server.call("POST", "/api/tasks", {
    prompt: "Sum up the day",
    title: "Nightly summary",
    idempotencyKey: "night-2026-11-28",
    concurrencyKey: "mailbox",
    tags: ["team:claims"],
    queue: "night",
  });
  await server.until(
    async () => (await server.call("GET", "/api/hitl/pending")).length === 2,
    "two outputs that wait",
  );
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("the runs of a customer are found by any word of title, tag or key, and show all three", async () => {
  const page = await open(browser, server, "/executions");
  await resize(page, LAPTOP);
  await rows(page).nth(1).waitFor();
  const search = page.getByRole("textbox", { name: "Search title, tag, key, id" });
  await search.fill("k-10241");
  await search.press("Enter");
  await page.getByText("1 execution", { exact: true }).waitFor();
  await page.getByRole("link", { name: /Claim K-10241 of Anna Müller/ }).waitFor();
  assert.match(await rows(page).first().textContent(), /Claim letters/);
  await page.getByText("waits for a reviewer").waitFor();
  await accessible(page, "executions that were searched");
  await shot(page, "find-executions");
  await search.fill("");
  await search.press("Enter");
  await page.getByRole("link", { name: "customer:K-10242" }).click();
  await page.getByText("1 execution", { exact: true }).waitFor();
  assert.match(page.url(), /tags=customer/);
  await page.goto("/tasks?search=mailbox");
  await page.getByRole("link", { name: /Nightly summary/ }).waitFor();
  await page.getByRole("link", { name: "night-2026-11-28" }).waitFor();
  assert.equal(await rows(page).count(), 1);
  // A bulk job has no search: it would act on more than is shown.
  assert.equal(await page.getByRole("button", { name: "Cancel all that match" }).isDisabled(), true);
  await looksOf(page, "find-tasks");
  await close(page);
});

test("what is stuck says for what and since when, and a line warns of what nobody can run", async () => {
  const page = await open(browser, server, "/executions/stuck");
  await resize(page, LAPTOP);
  await rows(page).nth(2).waitFor();
  assert.equal(await rows(page).count(), 3);
  await page.getByText("waits for a worker").waitFor();
  assert.equal(await page.getByText("waits for a reviewer").count(), 2);
  await page.getByText(/No worker runs .* in queue night/).waitFor();
  await looksOf(page, "stuck");
  await page.goto("/");
  await page.getByText(/No worker runs .* in queue night/).waitFor();
  await page.getByRole("link", { name: "1 task waits" }).click();
  await page.getByRole("link", { name: /Nightly summary/ }).waitFor();
  await close(page);
});

test("held outputs have cost what they cost, by day, by tag key, and as a table to keep", async () => {
  const page = await open(browser, server, "/insights?tab=cost&tagKey=customer");
  await resize(page, LAPTOP);
  await page.getByRole("heading", { name: "By customer" }).waitFor();
  const panel = page.locator("section.panel").filter({ hasText: "By customer" });
  for (const value of ["K-10241", "K-10242"]) await panel.getByRole("link", { name: value }).waitFor();
  await page.getByText(/in the 7 days before/).waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    panel.getByRole("button", { name: "CSV" }).click(),
  ]);
  assert.equal(file.suggestedFilename(), "callboard-cost-customer.csv");
  await looksOf(page, "cost");
  await close(page);
});

test("an output is given to somebody else from where it is read", async () => {
  const other = await server.user("operator", "ben@example.com");
  const [{ taskId }] = await server.call("GET", "/api/hitl/pending");
  const page = await open(browser, server, `/review/${taskId}`);
  await resize(page, LAPTOP);
  const give = page.getByRole("combobox", { name: "Give it to another reviewer" });
  await give.waitFor();
  await shot(page, "reassign");
  const { assignedTo } = await server.call("GET", `/api/hitl/${taskId}`);
  const reviewers = await server.call("GET", "/api/hitl/reviewers");
  const to = reviewers.find(({ id }) => id !== assignedTo);
  await give.selectOption(to.id);
  await page.getByText(`Given to ${to.name}.`).waitFor();
  await page
    .locator(".review-reason")
    .getByText(new RegExp(`Assigned to ${to.name}`))
    .waitFor();
  assert.equal((await server.call("GET", `/api/hitl/${taskId}`)).assignedTo, to.id);
  await accessible(page, "an output that was given on");
  await loaded(page);
  assert.ok(other);
  await close(page);
});
