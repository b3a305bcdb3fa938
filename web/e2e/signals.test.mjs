// Steps that wait for signals: for which and until when, the form of the payload, and what came early.
import assert from "node:assert/strict";
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
import { startWorker } from "./support/worker.mjs";

const NARROW = { width: 360, height: 800 };
let server;
let browser;
let worker;
const PLAN = {
  name: "Order",
  steps: [
    { id: "invoice", prompt: JSON.stringify({ hold: true, say: "an invoice" }) },
    {
      id: "paid",
      type: "wait",
      signal: "payment",
      timeoutMs: 3_600_000,
      schema: {
        type: "object",
        required: ["amount"],
        properties: { amount: { type: "number", minimum: 1 }, reference: { type: "string" } },
      },
    },
    { id: "shipped", type: "wait", signal: "shipping", schema: { type: "string" }, dependsOn: ["invoice"] },
    {
      id: "thanks",
      prompt: "Paid: {{paid.output}}, sent: {{shipped.output}}",
      dependsOn: ["paid", "shipped"],
    },
  ],
};
const start = async () => {
  const { id } = await server.call("POST", "/api/plans", PLAN);
  return (await server.call("POST", `/api/plans/${id}/execute`, {})).id;
};
const stepOf = async (id, step) => (await server.call("GET", `/api/plans/executions/${id}`)).steps[step];

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

test("a signal is sent with the form of its schema from the drawer, and one that comes early is shown", async () => {
  const id = await start();
  await server.until(async () => (await stepOf(id, "paid"))?.waitingFor === "signal", "the wait");
  const page = await open(browser, server, `/executions/${id}`);
  const node = (step) => page.locator(`.executions-node[data-step="${step}"]`);
  await node("paid").getByText("waits for payment").click();
  const drawer = page.getByRole("complementary", { name: "Step paid" });
  await drawer.getByText(/It waits for payment until .* \(in \d+ min\), and fails/).waitFor();
  assert.ok(await drawer.getByRole("button", { name: "Send the signal" }).isDisabled());
  await drawer.getByLabel("amount (required)").fill("0");
  await drawer.getByRole("button", { name: "Send the signal" }).click();
  // The server's words stand at the field.
  await drawer.locator('[data-field="amount"] .fault').waitFor();
  await looksOf(page, "signal");
  await resize(page, NARROW);
  await accessible(page, "the form of a signal at 360 px");
  await shot(page, "signal-narrow");
  await resize(page, WINDOW);
  await drawer.getByLabel("amount (required)").fill("12");
  await drawer.getByRole("button", { name: "Send the signal" }).click();
  await drawer.getByText(/payment came .*Its payload is the output/).waitFor();
  assert.deepEqual(JSON.parse((await stepOf(id, "paid")).output), { amount: 12 });

  // The step before still runs, so this one comes early; it may be replaced until it is used.
  await node("shipped").click();
  const other = page.getByRole("complementary", { name: "Step shipped" });
  await other.getByText("It will wait for shipping").waitFor();
  await other.getByLabel("payload").fill("by mail");
  await other.getByRole("button", { name: "Send the signal" }).click();
  await other.getByText("shipping came early").waitFor();
  await looksOf(page, "signal-early");
  await other.getByText("Send another one in its place").click();
  await other.getByLabel("payload").fill("by boat");
  // The notice of the first one may still be there: the answer to the second one counts.
  const replaced = page.waitForResponse(
    (answer) => answer.request().method() === "POST" && answer.url().includes("/signals"),
  );
  await other.getByRole("button", { name: "Replace the signal" }).click();
  assert.ok((await replaced).ok());
  worker.release("invoice");
  await other.getByText(/shipping came .*Its payload is the output/).waitFor();
  assert.equal((await stepOf(id, "shipped")).output, "by boat");
  await close(page);
});

test("a viewer sees for what a step waits, and is not offered to send it", async () => {
  const id = await start();
  const user = await server.user("viewer");
  const page = await open(browser, server, "/executions", { user });
  await follow(page, `/executions/${id}?step=paid`);
  await page.getByText("It waits for payment").waitFor();
  assert.equal(await page.getByRole("button", { name: "Send the signal" }).count(), 0);
  await close(page);
});
