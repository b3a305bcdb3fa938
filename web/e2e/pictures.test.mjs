// The pictures of README and docs, of work as people have it. CALLBOARD_PICTURES=../docs/images keeps them;
// otherwise the scenario shows that the pages which they are of can be filled and read. FAKETIME_LIB names the library
// of libfaketime, which moves the server's clock: with it there is a week of work before today.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, live, loaded, open } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;

const CUSTOMERS = [
  ["Nordwind Logistics", "warehouse services in Rostock", 0.91],
  ["Helios Print", "three large-format printers", 0.62],
  ["Atelier Brandt", "the fit-out of two shops", 0.78],
  ["Vela Software", "support for the booking system", 0.88],
  ["Kestrel Foods", "weekly deliveries to four canteens", 0.55],
  ["Meridian Labs", "calibration of lab equipment", 0.83],
  ["Osprey Rail", "maintenance of the signalling", 0.71],
];

const TEMPLATE = {
  name: "Supplier Contract",
  version: "1.0.0",
  industry: "legal",
  visibility: "organization",
  inputSchema: {
    type: "object",
    required: ["supplier", "subject"],
    properties: { supplier: { type: "string" }, subject: { type: "string" } },
  },
  defaults: { model: "gpt-4o-mini" },
  hitl: { requiredFor: ["summary"] },
  steps: [
    {
      id: "parties",
      prompt: "Name the parties of the contract with {{input.supplier}} about {{input.subject}}.",
    },
    { id: "terms", prompt: "List the terms of payment and their dates.", dependsOn: ["parties"] },
    { id: "liability", prompt: "What limits the liability of either side?", dependsOn: ["parties"] },
    { id: "exit", prompt: "How does either side end the contract?", dependsOn: ["parties"] },
    {
      id: "risks",
      prompt: "Which of these terms are unusual?\n{{terms.output}}\n{{liability.output}}\n{{exit.output}}",
      dependsOn: ["terms", "liability", "exit"],
    },
    {
      id: "summary",
      prompt:
        "Write a summary of the contract with {{input.supplier}} for the purchasing team.\n{{risks.output}}",
      dependsOn: ["risks"],
    },
    {
      id: "letter",
      prompt: "Draft the answer to {{input.supplier}}.\n{{summary.output}}",
      dependsOn: ["summary"],
    },
  ],
};

const SUMMARY = (supplier, subject) =>
  `The contract with ${supplier} is about ${subject}. It runs for 24 months and renews itself by 12 months unless either side gives notice 90 days before.\n\nPayment is due within 30 days; late payment costs 8 points above the base rate.\n\nUnusual: liability is capped at one month's fee, and the cap also covers gross negligence. We should ask for a cap of one year's fees and for the exception of gross negligence.`;

const ANSWERS = {
  parties: "Buyer: Callisto Retail GmbH, Hamburg. Supplier: as named, with its seat in Rostock.",
  terms: "30 days net; 2 % discount within 10 days; interest of 8 points above the base rate.",
  liability: "Capped at the fee of one month, for any cause.",
  exit: "90 days before the end of a term, in writing; at once for cause.",
  risks: "The cap on liability covers gross negligence, which is unusual.",
};

/** Executions that ended, by the days before today: the confidence of the summary and what a reviewer decided. */
const WEEK = {
  6: [0.96, 0.91, 0.88, 0.74],
  5: [0.93, 0.66, 0.87, 0.98, 0.81, 0.58],
  4: [0.95, 0.97, 0.72, 0.84, 0.92, 0.89, 0.63, 0.9],
  3: [0.78, 0.94, 0.86, 0.96, 0.91],
  2: [0.92, 0.69, 0.97, 0.83, 0.88, 0.95, 0.76],
  1: [0.9, 0.54, 0.93],
};
const TODAY = [0.92, 0.62, 0.78, 0.88, 0.96, 0.83, 0.71, 0.94];
const REJECTED = new Set([0.54, 0.58, 0.63, 0.72, 0.81, 0.62]);
const EDITED = new Set([0.66, 0.74, 0.83, 0.78]);

/** The confidence of the next summary, in place of the customer's. */
let confidence;

/** The order for a task of the template, by its prompt. */
function answer({ prompt }) {
  const usage = { input: 180 + prompt.length, output: 240 };
  const customer = CUSTOMERS.find(([name]) => prompt.includes(name));
  if (prompt.startsWith("Write a summary"))
    return { say: SUMMARY(customer[0], customer[1]), confidence: confidence ?? customer[2], usage };
  if (prompt.startsWith("Name the parties")) {
    if (prompt.includes("Kestrel")) return { fail: "the provider refused: the input is over its limit" };
    return { say: ANSWERS.parties, usage };
  }
  const found = TEMPLATE.steps.find((step) => step.prompt.slice(0, 20) === prompt.slice(0, 20));
  return { say: ANSWERS[found?.id] ?? "Done.", usage };
}

const FAKETIME_LIB = process.env.FAKETIME_LIB;

/** The clock of a server, so many days before today. */
const daysAgo = (days) => ({
  LD_PRELOAD: FAKETIME_LIB,
  FAKETIME: `-${days}d`,
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
});

before(async () => {
  server = await startServer({}, { env: FAKETIME_LIB ? daysAgo(6) : {} });
  browser = await launch();
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const connect = async () => {
  worker = await startWorker(server, { name: "worker-1", concurrency: 8, answer });
};

async function picture(page, name) {
  await loaded(page);
  const directory = process.env.CALLBOARD_PICTURES;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: join(directory, `${name}.png`), animations: "disabled" });
}

/** Starts the server again, at another time. */
async function restart(env) {
  worker.stop();
  await server.kill();
  server.env = env;
  server.tokens = undefined;
  await server.start();
  await connect();
}

const waiting = async () => (await server.answer("GET", "/api/hitl/pending?limit=20")).data;

test("a server with work on it is shown as it is in the documentation", async () => {
  const { id } = await server.call("POST", "/api/templates", TEMPLATE);
  const deploy = ([supplier, subject]) =>
    server.call("POST", `/api/templates/${id}/deploy`, { input: { supplier, subject } });
  const customers = CUSTOMERS.filter(([name]) => !name.startsWith("Kestrel"));
  let number = 0;
  /** Runs the template to its end, with this confidence of the summary. */
  const decided = async (value) => {
    confidence = value;
    const run = await deploy(customers[number++ % customers.length]);
    const item = await server.until(
      async () => (await waiting()).find((it) => it.planExecutionId === run.id),
      "a review",
    );
    const verb = REJECTED.has(value) ? "reject" : "approve";
    const edit = EDITED.has(value) && { modifiedOutput: `${item.output}\n\nTo be asked: the notice period.` };
    const body = verb === "reject" ? { reason: "The fee is missing." } : { ...edit };
    await server.call("POST", `/api/hitl/${item.taskId}/${verb}`, body);
    const ended = verb === "reject" ? "failed" : "completed";
    await server.until(
      async () => (await server.call("GET", `/api/plans/executions/${run.id}`)).status === ended,
      `the end of ${run.id}`,
    );
  };
  await connect();
  for (const [days, values] of FAKETIME_LIB ? Object.entries(WEEK).reverse() : []) {
    await restart(daysAgo(days));
    for (const value of values) await decided(value);
  }
  if (FAKETIME_LIB) await restart({});
  for (const value of TODAY) await decided(value);
  confidence = undefined;
  const runs = [];
  for (const customer of CUSTOMERS) runs.push(await deploy(customer));
  await server.until(async () => (await waiting()).length === CUSTOMERS.length - 1, "six reviews");

  const page = await open(browser, server, "/");
  await page.getByText("rejected in review").first().waitFor();
  await page.getByText("6", { exact: true }).first().waitFor();
  await live(page);
  await picture(page, "overview");

  await page.goto("/review");
  await page.waitForURL(/\/review\/dt_task_/);
  await page.locator('[data-chain="ok"]').waitFor();
  await page.locator(".review-item").nth(5).waitFor();
  await picture(page, "review");
  const phone = await open(browser, server, new URL(page.url()).pathname, { phone: true });
  await phone.locator('[data-chain="ok"]').waitFor();
  await picture(phone, "review-phone");
  await close(phone);

  const run = runs[0].id;
  await page.goto(`/executions/${run}?step=summary`);
  await page.locator('.executions-node[data-step="summary"]').waitFor();
  await page.getByText("Its output waits for a reviewer.").waitFor();
  await picture(page, "execution");

  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto("/insights");
  await page.locator(".uplot canvas").nth(1).waitFor();
  await picture(page, "insights-dark");
  assert.equal((await waiting()).length, CUSTOMERS.length - 1);
  await close(page);
});
