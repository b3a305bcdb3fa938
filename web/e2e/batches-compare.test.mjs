// Two batches side by side, and the rows by confidence: what the server reads of whole batches.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  accessible,
  close,
  follow,
  launch,
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

let server;
let browser;
let worker;
const TEMPLATE = "sort-mail-v1";
const version = (number, prompt) => ({
  name: "Sort mail",
  description: "Puts a mail into a category.",
  version: number,
  industry: "custom",
  tags: [],
  visibility: "organization",
  inputSchema: { type: "object", required: ["subject"], properties: { subject: { type: "string" } } },
  outputSchema: {
    type: "object",
    required: ["category", "urgent"],
    properties: { category: { type: "string" }, urgent: { type: "boolean" } },
  },
  steps: [{ id: "sort", prompt, retry: { maxAttempts: 1 } }],
});

/** The second version calls each fourth mail an order, and the provider refuses the mail 5 of the first. */
function answer({ prompt }) {
  const number = Number(/\d+/.exec(prompt)?.[0] ?? 0);
  const isSecond = prompt.startsWith("Letter");
  if (number === 5 && !isSecond) return { fail: "the provider is out of ink" };
  const category = isSecond && number % 4 === 0 ? "order" : number % 2 === 0 ? "question" : "complaint";
  return { say: JSON.stringify({ category, urgent: number > 30 }), confidence: number / 50 };
}

const rowsOf = (from, to) =>
  Array.from({ length: to - from + 1 }, (_, at) => ({
    key: `k${from + at}`,
    input: { subject: `mail ${from + at}` },
  }));
const ids = {};
before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server, { answer });
  await server.call("POST", "/api/templates", version("1.0.0", "Mail: {{input.subject}}"));
  await server.call("POST", "/api/templates", version("1.1.0", "Letter: {{input.subject}}"));
  const create = (name, version, rows) =>
    server.call("POST", "/api/batches", { templateId: TEMPLATE, version, name, rows });
  ids.a = (await create("First prompt", "1.0.0", rowsOf(1, 40))).id;
  ids.b = (await create("Second prompt", "1.1.0", rowsOf(3, 42))).id;
  for (const id of Object.values(ids)) {
    const isOver = async () => (await server.call("GET", `/api/batches/${id}`)).status === "completed";
    await server.until(isOver, `the end of ${id}`);
  }
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const keys = (page) =>
  page.$$eval('.table-body [data-column="key"]', (all) => all.map((it) => it.innerText.trim()));

test("two batches are compared by field and by row, with what differs marked", async () => {
  const page = await open(browser, server, "/executions");
  await follow(page, `/batches/compare?a=${ids.a}`);
  await page.getByText("Choose two batches").waitFor();
  await page.getByLabel("Batch B").selectOption(ids.b);
  // Each fourth of the keys 3 to 40, but for the one that failed.
  await page.getByText("10 of 37 outputs differ").waitFor();
  const fourth = Array.from({ length: 10 }, (_, at) => `k${4 * (at + 1)}`);
  assert.deepEqual(await keys(page), fourth);
  const first = page.locator('.table-body [data-index="0"]');
  const marked = await first.locator('[data-differs="true"]').allInnerTexts();
  assert.deepEqual(
    marked.map((text) => text.replace(/\s+/g, " ").trim()),
    ["category differs question", "category differs order"],
  );
  await loaded(page);
  await looksOf(page, "batches-compare");
  await resize(page, { width: 360, height: 800 });
  await accessible(page, "the comparison at 360 px");
  await shot(page, "batches-compare-narrow");
  await resize(page, WINDOW);
  // Compared by the other field alone, none differs.
  await page.getByRole("checkbox", { name: "category" }).uncheck();
  await page.getByText("The outputs of 37 rows are equal.").waitFor();
  await page.getByRole("button", { name: /^only in B/ }).click();
  await eventually(async () => assert.deepEqual(await keys(page), ["k41", "k42"]));
  await close(page);
});

test("a bar of the confidence chooses its rows, the least certain first", async () => {
  const page = await open(browser, server, "/executions");
  await follow(page, `/batches/${ids.b}`);
  await page.getByRole("button", { name: "0.10 to 0.20: 5 rows" }).click();
  await page.getByText("5 rows of 40").waitFor();
  assert.deepEqual(await keys(page), ["k5", "k6", "k7", "k8", "k9"]);
  await page.getByLabel("Order").selectOption("most certain first");
  await eventually(async () => assert.deepEqual(await keys(page), ["k9", "k8", "k7", "k6", "k5"]));
  await shot(page, "batch-confidence");
  await accessible(page, "rows of one bar");
  await close(page);
});
