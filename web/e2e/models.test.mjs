// Models: use beside limits, who runs them, prices, fall-backs, and a provider that refuses.
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
import { eventually } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

const NARROW = { width: 360, height: 800 };
const MODEL = "gpt-4o-mini";
const OWN = "our-own-model";
let server;
let browser;
let worker;
/** The model whose provider refuses calls for a minute. */
let refused;
const REFUSAL = { fail: "too many", code: "PROVIDER_RATE_LIMITED", retryable: true, retryAfterMs: 60_000 };

const run = async (body) => {
  const { id } = await server.call("POST", "/api/tasks", { retry: { maxAttempts: 1 }, ...body });
  const isOver = async () =>
    !["pending", "running"].includes((await server.call("GET", `/api/tasks/${id}`)).status);
  await server.until(isOver, "a result");
  return id;
};

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server, {
    answer: ({ model }) => {
      if (model === "gpt-4.1") return { fail: "it is down", code: "PROVIDER_UNAVAILABLE", retryable: true };
      if (model === refused) return REFUSAL;
      return { say: "done" };
    },
  });
  await server.call("PUT", `/api/models/${MODEL}/limits`, { requestsPerMinute: 4, concurrent: 2 });
  await server.call("PUT", "/api/models/gpt-4.1/limits", { requestsPerMinute: 100 });
  await run({ prompt: "one", model: MODEL });
  await run({ prompt: "two", model: MODEL });
  await run({ prompt: "three", model: OWN });
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("the list has the use beside the limits, prices, and the models without one", async () => {
  const page = await open(browser, server, "/models");
  const row = (name) =>
    page.locator(".table-body .table-row", { has: page.getByText(name, { exact: true }) });
  await row(MODEL).getByText("2 of 4").waitFor();
  await row(MODEL).getByText("$0.15 · $0.60").waitFor();
  const unpriced = page.locator(".panel", { hasText: "Models without a price" });
  await unpriced.getByRole("row", { name: new RegExp(OWN) }).waitFor();
  await looksOf(page, "models");
  await resize(page, NARROW);
  await accessible(page, "models at 360 px");
  await shot(page, "models-narrow");
  await resize(page, WINDOW);
  await close(page);
});

test("one model: who runs it, its prices, and limits that are set", async () => {
  const page = await open(browser, server, "/models");
  await page.getByRole("link", { name: MODEL, exact: true }).click();
  await page.getByRole("heading", { name: MODEL }).waitFor();
  // By its pattern, though it does not announce the name.
  await page.getByRole("row", { name: /scenario/ }).waitFor();
  await page.getByText("2 of 4").waitFor();
  await page.getByText("None went on to another model.").waitFor();
  await looksOf(page, "model");
  await resize(page, NARROW);
  await accessible(page, "a model at 360 px");
  await shot(page, "model-narrow");
  await resize(page, WINDOW);
  await page.getByRole("button", { name: "Limits" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Requests in any minute").inputValue(), "4");
  await dialog.getByLabel("Requests in any minute").fill("8");
  await dialog.getByLabel("Calls at the same time").fill("");
  await accessible(page, "the limits of a model");
  await dialog.getByRole("button", { name: "Set" }).click();
  await page.getByText("2 of 8").waitFor();
  const [model] = (await server.call("GET", "/api/models?limit=100")).filter(({ name }) => name === MODEL);
  assert.deepEqual(model.limits, { requestsPerMinute: 8 });
  await close(page);
});

test("a fall-back is counted at the model that it began with", async () => {
  const id = await run({ prompt: "four", models: ["gpt-4.1", MODEL], fallbackOn: ["unavailable"] });
  const task = await server.call("GET", `/api/tasks/${id}`);
  assert.deepEqual([task.status, task.fallbackReason], ["completed", "unavailable"]);
  const page = await open(browser, server, null);
  await page.goto("/models?model=gpt-4.1");
  await page.getByText(/1 task went on to gpt-4o-mini/).waitFor();
  await shot(page, "model-fallback");
  await close(page);
});

test("a model that is closed says why and until when, and is opened", async () => {
  const page = await open(browser, server, "/models");
  await page.getByText(MODEL, { exact: true }).waitFor();
  refused = OWN;
  await server.call("POST", "/api/tasks", { prompt: "five", model: OWN });
  await page.getByText("closed", { exact: true }).waitFor();
  await shot(page, "models-closed");
  await follow(page, `/models?model=${OWN}`);
  await page.getByText(/Its provider refused a call; the next call begins in/).waitFor();
  await accessible(page, "a closed model");
  refused = undefined;
  await page.getByRole("button", { name: "Call it now" }).click();
  await eventually(async () => assert.equal(await page.getByText("It is closed").count(), 0));
  await close(page);
});

test("a viewer reads models and is offered no change", async () => {
  const user = await server.user("viewer");
  const page = await open(browser, server, `/models?model=${MODEL}`, { user });
  await page.getByText("Who can run it").waitFor();
  assert.equal(await page.getByRole("button", { name: "Limits" }).count(), 0);
  await close(page);
});
