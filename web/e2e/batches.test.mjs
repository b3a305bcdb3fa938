// Batches: created from a file, progress to the end, filters, export, retry, a long table.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import {
  accessible,
  accessibleInThemes,
  close,
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

let server;
let browser;
let worker;
/** True once the provider answers what it refused before. */
let healed = false;
const TEMPLATE = "classify-mail-v1";
const NARROW = { width: 360, height: 800 };

const template = (queue, more = {}) => ({
  name: "Classify mail",
  description: "Puts a mail into a category.",
  version: "1.0.0",
  industry: "custom",
  tags: ["mail"],
  visibility: "organization",
  inputSchema: {
    type: "object",
    required: ["subject"],
    properties: { subject: { type: "string" }, pages: { type: "integer", minimum: 1 } },
  },
  outputSchema: {
    type: "object",
    required: ["category", "urgent"],
    properties: { category: { type: "string" }, urgent: { type: "boolean" } },
  },
  steps: [{ id: "classify", prompt: "Mail: {{input.subject}}", queue, retry: { maxAttempts: 1 } }],
  ...more,
});

/** The answer for a mail: its number is in its subject. */
function answer({ prompt }) {
  const number = Number(/\d+/.exec(prompt)?.[0] ?? 0);
  if (/refused/.test(prompt) && !healed) return { fail: "the provider is out of ink" };
  const category = number % 3 === 0 ? "complaint" : "question";
  return {
    say: JSON.stringify({ category, urgent: number % 2 === 0 }),
    confidence: ((number * 7) % 100) / 100,
    hold: /hold/.test(prompt),
  };
}

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server, { answer });
  await server.call("POST", "/api/templates", template("default"));
  await server.call("POST", "/api/templates", template("nobody", { name: "Nobody runs it" }));
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const batch = (id) => server.call("GET", `/api/batches/${id}`);
const rows = async (id, query = "") =>
  (await server.call("GET", `/api/batches/${id}/rows?limit=100&${query}`)).rows;
const idOf = (page) => new URL(page.url()).pathname.split("/").at(-1);
const csv = (name, lines) => ({ name, mimeType: "text/csv", buffer: Buffer.from(`${lines.join("\n")}\n`) });
const create = (of, items, more = {}) =>
  server.call("POST", "/api/batches", {
    templateId: of,
    rows: items.map((subject, at) => ({ key: `k${at + 1}`, input: { subject } })),
    ...more,
  });
const shownKeys = (page) =>
  page.$$eval('.table-body [data-column="key"]', (all) => all.map((it) => it.innerText.trim()));
const pill = (page, word) => page.getByRole("button", { name: new RegExp(`^${word} [\\d,]+$`) });

// 60 mails: each tenth is refused by the provider, the seventh has no number of pages, the last is there twice.
const MAILS = [
  "id,subject,pages",
  ...Array.from({ length: 60 }, (_, at) => {
    const number = at + 1;
    const subject = number % 10 === 0 ? `hold ${number} refused` : `"hold ${number}, a parcel"`;
    return `m${number},${subject},${number === 7 ? "seven" : number}`;
  }),
  "m60,again,1",
];

test("an empty list teaches, and a file becomes a batch whose progress moves to its end", async () => {
  const page = await open(browser, server, "/batches");
  await page.getByText("No batch was created yet").waitFor();
  await accessibleInThemes(page, "batches-empty");
  await page.getByRole("link", { name: "Choose a file" }).click();
  await page.getByText("Drop a file here").waitFor();
  await looksOf(page, "batch-new-empty");
  await page.getByLabel("Template", { exact: true }).selectOption("Classify mail");
  await page.getByLabel("File").setInputFiles(csv("mails.csv", MAILS));
  await page.getByText("61 rows", { exact: true }).waitFor();
  // Without a key column the id is no field of the input, and the last row has no other fault.
  await page.getByText("id not declared").waitFor();
  await page.getByLabel("Key column").selectOption("id");
  const faults = page.getByRole("list", { name: "Faults" });
  await faults.getByText("An earlier row has the key m60.").waitFor();
  const said = await faults.getByRole("listitem").allInnerTexts();
  assert.deepEqual(
    said.map((text) => text.replace(/\s+/g, " ")),
    ['line 8 m7 pages must be of type integer, not "seven".', "line 62 m60 An earlier row has the key m60."],
  );
  await looksOf(page, "batch-new");
  assert.equal(await page.getByLabel("Name").inputValue(), "mails");
  await page.getByLabel("Name").fill("Mails of November");
  await page.getByLabel("Tags").fill("november");
  await page.getByLabel("Rows at a time").fill("25");
  await page.getByLabel("Most cost, in USD").fill("5");
  await page.getByRole("button", { name: "Upload 61 rows" }).click();
  await page.waitForURL(/\/batches\/bat_/);
  const id = idOf(page);
  await page.locator('[data-batch-status="running"]').waitFor();
  await live(page);
  await eventually(async () => assert.equal((await batch(id)).progress.running, 25));
  await pill(page, "running").waitFor();
  await pill(page, "invalid").waitFor();
  // The pointer shows no tip.
  await page.mouse.move(0, 0);
  await loaded(page);
  await looksOf(page, "batch-running");
  // What it is said to have at each moment is what the server says, without a reload.
  worker.release("classify");
  await page.locator('[data-batch-status="completed"]').waitFor();
  const { progress, cost, rows: number } = await batch(id);
  assert.deepEqual([number, progress.completed, progress.failed, progress.invalid], [61, 53, 6, 2]);
  await eventually(async () => {
    const pills = await page.locator(".batches-counts button").allInnerTexts();
    assert.deepEqual(
      pills.map((text) => text.replace(/\s+/g, " ").trim()),
      ["completed 53", "failed 6", "invalid 2"],
    );
  });
  await page.getByText(/% used$/).waitFor();
  assert.equal(cost.max, 5);
  // The rows are read again a moment after the batch has ended.
  await eventually(async () => {
    const heads = await page.locator('.table-head [role="columnheader"]').allInnerTexts();
    assert.deepEqual(heads, ["Key", "Status", "category", "urgent", "Confidence", "Cost", "Fault"]);
  });
  const [first] = await rows(id);
  const shown = await page.locator('.table-body [data-index="0"]').innerText();
  for (const text of [first.key, first.output.category, String(first.output.urgent)])
    assert.ok(shown.includes(text), `${text} in ${shown}`);
  await looksOf(page, "batch-ended");
  await resize(page, NARROW);
  await accessible(page, "a batch at 360 px");
  await shot(page, "batch-ended-narrow");
  await resize(page, WINDOW);
  await page.goto("/batches");
  await page.getByRole("link", { name: "Mails of November" }).waitFor();
  await looksOf(page, "batches");
  await resize(page, NARROW);
  await accessible(page, "the batches at 360 px");
  await shot(page, "batches-narrow");
  await resize(page, WINDOW);
  await close(page);
});

const mails = async () => (await server.call("GET", "/api/batches?tags=november"))[0].id;

test("rows are filtered by status, the filter is in the address, and the export has what is shown", async () => {
  const id = await mails();
  const page = await open(browser, server, `/batches/${id}`);
  await pill(page, "failed").click();
  await page.waitForURL(/status=failed/);
  await page.getByText("6 rows of 61").waitFor();
  const wanted = (await rows(id, "status=failed")).map(({ key }) => key);
  assert.deepEqual(await shownKeys(page), wanted);
  await page.reload();
  await page.getByText("6 rows of 61").waitFor();
  const failed = await download(page, "CSV");
  assert.deepEqual(keysOf(failed), wanted);
  await pill(page, "invalid").click();
  await page.getByText("8 rows of 61").waitFor();
  await page.getByText('must be of type integer, not "seven"').waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("61 rows", { exact: true }).waitFor();
  const all = await download(page, "CSV");
  assert.equal(all.split(/\r?\n/)[0], "key,status,output.category,output.urgent,cost,error.code,executionId");
  assert.equal(keysOf(all).length, 61);
  const lines = (await download(page, "JSON lines"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ key, output }) => [key, output]),
    (await rows(id)).map(({ key, output }) => [key, output]),
  );
  await close(page);
});

async function download(page, name) {
  const begun = page.waitForEvent("download");
  await page.getByRole("link", { name, exact: true }).click();
  const file = await begun;
  assert.match(file.suggestedFilename(), /\.(csv|jsonl)$/);
  return readFile(await file.path(), "utf8");
}

const keysOf = (text) =>
  text
    .trim()
    .split(/\r?\n/)
    .slice(1)
    .map((line) => line.split(",")[0]);

test("failed rows run again after a question, and a row leads to its execution and back", async () => {
  const id = await mails();
  const page = await open(browser, server, `/batches/${id}`);
  await live(page);
  await page.getByRole("button", { name: "Retry failed" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("6 rows have failed.").waitFor();
  await accessible(page, "the question about a retry");
  await shot(page, "batch-retry");
  await dialog.getByRole("button", { name: "Leave them" }).click();
  assert.equal((await batch(id)).progress.failed, 6, "nothing happens before it is said");
  healed = true;
  await page.getByRole("button", { name: "Retry failed" }).click();
  await dialog.getByRole("button", { name: "Retry 6 rows" }).click();
  await page.getByText("6 rows run again.").waitFor();
  await eventually(async () => {
    const pills = await page.locator(".batches-counts button").allInnerTexts();
    assert.deepEqual(
      pills.map((text) => text.replace(/\s+/g, " ").trim()),
      ["completed 59", "invalid 2"],
    );
  });
  await page.locator('[data-batch-status="completed"]').waitFor();
  const tenth = page.locator('.table-body [data-index="9"]');
  await tenth.getByText("completed").waitFor();
  await tenth.getByRole("link", { name: "m10" }).click();
  await page.waitForURL(/\/executions\/dt_exec_/);
  await page.getByRole("link", { name: "row m10 of a batch" }).click();
  await page.waitForURL(`**/batches/${id}`);
  await close(page);
});

test("confidences of all rows are counted in bars", async () => {
  const id = await mails();
  const page = await open(browser, server, `/batches/${id}`);
  const bars = page.locator(".batches-bars button");
  await bars.first().waitFor();
  const wanted = Array.from({ length: 10 }, () => 0);
  for (const { steps } of await rows(id)) {
    if (!steps?.classify) continue;
    wanted[Math.min(9, Math.floor(steps.classify.confidence * 10 + 1e-9))] += 1;
  }
  const said = await bars.evaluateAll((all) => all.map((it) => Number(/: (\d+) row/.exec(it.ariaLabel)[1])));
  assert.deepEqual(said, wanted);
  assert.equal(
    said.reduce((sum, number) => sum + number, 0),
    59,
  );
  await page.getByText("2 rows have none.").waitFor();
  await close(page);
});

test("a batch is paused, resumed and cancelled, and one who may only read is offered none of it", async () => {
  const { id } = await create(
    "nobody-runs-it-v1",
    Array.from({ length: 30 }, (_, at) => `mail ${at}`),
    { concurrency: 5 },
  );
  const page = await open(browser, server, `/batches/${id}`);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator('[data-batch-status="paused"]').waitFor();
  assert.equal((await batch(id)).status, "paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator('[data-batch-status="running"]').waitFor();
  const reader = await open(browser, server, `/batches/${id}`, { user: await server.user("viewer") });
  await reader.locator('[data-batch-status="running"]').waitFor();
  await loaded(reader);
  assert.equal(await reader.getByRole("button", { name: /Pause|Cancel|Retry|Delete/ }).count(), 0);
  await reader.goto("/batches/new");
  await reader.getByText("You may not create batches").waitFor();
  await reader.goto("/batches");
  await loaded(reader);
  assert.equal(await reader.getByRole("link", { name: "New batch" }).count(), 0);
  await close(reader);
  await page.getByRole("button", { name: "Cancel" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("30 rows have not ended.").waitFor();
  await accessible(page, "the question about a cancellation");
  assert.equal((await batch(id)).status, "running");
  await dialog.getByRole("button", { name: "Cancel 30 rows" }).click();
  await page.locator('[data-batch-status="cancelled"]').waitFor();
  await server.until(async () => (await batch(id)).progress.cancelled === 30, "30 cancelled rows");
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete 30 rows" }).click();
  await page.waitForURL(/\/batches$/);
  assert.equal((await server.answer("GET", `/api/batches/${id}`)).success, false);
  await close(page);
});

test("a file that cannot be used says why, and a refused one says its line", async () => {
  const page = await open(browser, server, `/batches/new?template=${TEMPLATE}`);
  const file = page.getByLabel("File");
  await file.setInputFiles(csv("excel.csv", ["id;subject", "1;a"]));
  await page.getByText("The columns are separated by semicolons").waitFor();
  await accessible(page, "a file with semicolons");
  await file.setInputFiles({
    name: "latin.csv",
    mimeType: "text/csv",
    buffer: Buffer.from([97, 10, 0xe4, 10]),
  });
  await page.getByText("The file is not UTF-8").waitFor();
  await file.setInputFiles({ name: "list.json", mimeType: "application/json", buffer: Buffer.from("[1]") });
  await page.getByText("This is a list in JSON.").waitFor();
  const upload = page.getByRole("button", { name: "Upload" });
  assert.ok(await upload.isDisabled());
  const lines = [
    '{"key": "a", "input": {"subject": "one\\ntwo"}}',
    "",
    '{"key": "b", "input": {"subject": 7}}',
    "no",
  ];
  await file.setInputFiles(csv("mails.jsonl", lines));
  const faults = page.getByRole("list", { name: "Faults" });
  await faults.getByText("line 4", { exact: true }).waitFor();
  assert.match(
    (await faults.getByRole("listitem").allInnerTexts()).join("\n"),
    /line 3\s+b subject: this must be string/,
  );
  await page.getByLabel("Rows with a fault").selectOption("refuse the whole file");
  await page.getByLabel("Rows at a time").fill("0");
  await page.getByRole("button", { name: "Upload 3 rows" }).click();
  await page.locator(".fault").waitFor();
  await page.getByLabel("Rows at a time").fill("10");
  await page.getByRole("button", { name: "Upload 3 rows" }).click();
  await page.getByText(/line 3, .*row 2: .*nothing is kept/).waitFor();
  await accessible(page, "a refused file");
  await shot(page, "batch-new-refused");
  assert.equal((await server.call("GET", "/api/batches?tags=none")).length, 0);
  await page.getByLabel("Rows with a fault").selectOption("are kept, the others run");
  await page.getByRole("button", { name: "Upload 3 rows" }).click();
  await page.waitForURL(/\/batches\/bat_/);
  await eventually(async () => {
    const { progress } = await batch(idOf(page));
    assert.deepEqual([progress.completed, progress.invalid], [1, 2]);
  });
  await close(page);
});

test("20,000 rows are one table: any place of it is read when it is looked at", async () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `{"input":{"subject":"mail ${at + 1}"}}`);
  const page = await open(browser, server, "/batches/new?template=nobody-runs-it-v1");
  await page.getByLabel("File").setInputFiles(csv("many.jsonl", lines));
  await page.getByRole("button", { name: "Upload 20,000 rows" }).click();
  await page.waitForURL(/\/batches\/bat_/);
  const id = idOf(page);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator('[data-batch-status="paused"]').waitFor();
  await page.locator('.table-body [data-index="0"]').waitFor();
  await loaded(page);
  let reads = 0;
  page.on("request", (request) => {
    if (/\/rows\?/.test(request.url())) reads += 1;
  });
  const scroll = (to) =>
    page.locator(".table-scroll").evaluate((it, to) => it.scrollTo({ top: to * it.scrollHeight }), to);
  await scroll(1);
  await page.getByText("20000", { exact: true }).waitFor();
  await loaded(page);
  assert.ok(reads <= 4, `${reads} pages of rows are read for the last ones`);
  await scroll(0.5);
  await eventually(async () => assert.ok((await shownKeys(page)).includes("10000")));
  assert.equal(await page.getByRole("table", { name: "Rows" }).getAttribute("aria-rowcount"), "20001");
  await server.call("POST", `/api/batches/${id}/cancel`);
  await page.locator('[data-batch-status="cancelled"]').waitFor();
  await close(page);
});
