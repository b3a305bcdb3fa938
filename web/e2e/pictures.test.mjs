// The pictures of README and docs, of work as people have it. CALLBOARD_PICTURES=../docs/images keeps them;
// otherwise the scenario shows that the pages which they are of can be filled and read.
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

/** The order for a task of the template, by its prompt. */
function answer({ prompt }) {
  const usage = { input: 180 + prompt.length, output: 240 };
  const customer = CUSTOMERS.find(([name]) => prompt.includes(name));
  if (prompt.startsWith("Write a summary"))
    return { say: SUMMARY(customer[0], customer[1]), confidence: customer[2], usage };
  if (prompt.startsWith("Draft")) return { hang: true };
  if (prompt.startsWith("Name the parties")) {
    if (prompt.includes("Kestrel")) return { fail: "the provider refused: the input is over its limit" };
    return { say: ANSWERS.parties, usage };
  }
  const found = TEMPLATE.steps.find((step) => step.prompt.slice(0, 20) === prompt.slice(0, 20));
  return { say: ANSWERS[found?.id] ?? "Done.", usage };
}

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server, { name: "worker-1", concurrency: 8, answer });
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

async function picture(page, name) {
  await loaded(page);
  const directory = process.env.CALLBOARD_PICTURES;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: join(directory, `${name}.png`), animations: "disabled" });
}

const waiting = async () => (await server.answer("GET", "/api/hitl/pending?limit=20")).data;

test("a server with work on it is shown as it is in the documentation", async () => {
  const { id } = await server.call("POST", "/api/templates", TEMPLATE);
  const deploy = ([supplier, subject]) =>
    server.call("POST", `/api/templates/${id}/deploy`, { input: { supplier, subject } });
  const runs = [];
  for (const customer of CUSTOMERS) runs.push(await deploy(customer));
  await server.until(async () => (await waiting()).length === CUSTOMERS.length - 1, "six reviews");
  // Some were decided before, so that there is a record of such outputs.
  for (const [index, customer] of CUSTOMERS.entries()) {
    if (customer[0].startsWith("Kestrel")) continue;
    const run = await deploy(customer);
    const item = await server.until(
      async () => (await waiting()).find((it) => it.planExecutionId === run.id),
      "a review",
    );
    const verb = index === 2 ? "reject" : "approve";
    const body = verb === "reject" ? { reason: "The fee is missing." } : {};
    await server.call("POST", `/api/hitl/${item.taskId}/${verb}`, body);
  }

  const page = await open(browser, server, "/");
  await page.getByText("1 rejected in review").first().waitFor();
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
