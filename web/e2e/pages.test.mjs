// Templates and plans, workers and queues, insights, administration, documentation.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { accessible, close, follow, launch, live, loaded, looks, open, shot } from "./support/browser.mjs";
import { ADMIN, startServer } from "./support/server.mjs";
import { eventually } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;
const HOSTILE = "<img src=x onerror=alert(1)>\u202e\u001b[31m";

const template = (version, steps) => ({
  name: "Parcel Reply",
  description: `Answers a customer. ${HOSTILE}`,
  version,
  industry: "custom",
  tags: ["support", "mail"],
  visibility: "organization",
  inputSchema: {
    type: "object",
    required: ["question"],
    properties: {
      question: { type: "string", description: "What the customer asks." },
      tone: { type: "string", enum: ["formal", "warm"], default: "warm" },
      limit: { type: "integer", minimum: 1, maximum: 9 },
      products: { type: "array", items: { type: "string" } },
      extra: { type: "object" },
    },
  },
  hitl: { requiredFor: ["reply"] },
  steps,
});

before(async () => {
  server = await startServer({ WEBHOOKS__ALLOW: "127.0.0.1/32" });
  browser = await launch();
  worker = await startWorker(server, { name: "scenario-1", queues: ["default", "fast"] });
  await server.call(
    "POST",
    "/api/templates",
    template("1.0.0", [
      { id: "facts", prompt: "Facts of {{input.question}}" },
      { id: "reply", prompt: "Reply with {{facts.output}}", dependsOn: ["facts"] },
    ]),
  );
  await server.call(
    "POST",
    "/api/templates",
    template("1.1.0", [
      { id: "facts", prompt: "The facts of {{input.question}}", model: "gpt-4o-mini" },
      { id: "check", prompt: "Check {{facts.output}}", dependsOn: ["facts"] },
      { id: "reply", prompt: "Reply with {{facts.output}} {{check.output}}", dependsOn: ["facts", "check"] },
    ]),
  );
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("templates are searched, and the search stands in the address", async () => {
  const page = await open(browser, server, "/templates");
  await page.getByRole("link", { name: "Due Diligence" }).waitFor();
  await page.getByLabel("Search templates").fill("support");
  await page.getByText("1 found").waitFor();
  await page.waitForURL((url) => url.searchParams.get("search") === "support");
  await page.reload();
  await page.getByText("1 found").waitFor();
  const searched = page.getByLabel("Search templates");
  await eventually(async () => assert.equal(await searched.inputValue(), "support"));
  await page.getByLabel("Search templates").fill("nothing like it");
  await page.getByText("No template matches").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("link", { name: "Due Diligence" }).waitFor();
  await close(page);
  await looks(
    browser,
    server,
    "/templates",
    (it) => it.getByRole("link", { name: "Parcel Reply" }).waitFor(),
    "templates",
  );
});

test("two versions are compared by step and by line", async () => {
  const page = await open(browser, server, "/templates/parcel-reply-v1?tab=versions");
  await page.getByRole("heading", { name: "1.0.0 → 1.1.0" }).waitFor();
  const changes = page.locator(".templates-changes");
  await changes.getByText("step check").waitFor();
  assert.match(await changes.innerText(), /added\s+step check/);
  assert.match(await changes.innerText(), /changed\s+step facts\s+prompt, model/);
  await page.locator(".cm-merge-b").getByText("The facts of").first().waitFor();
  await page.getByLabel("From version").selectOption("1.1.0");
  await page.getByText("They are the same.").waitFor();
  await close(page);
  const ready = (it) => it.getByText("step check").waitFor();
  await looks(browser, server, "/templates/parcel-reply-v1?tab=versions", ready, "template-versions");
  const steps = (it) => it.getByText("always reviewed").waitFor();
  await looks(browser, server, "/templates/parcel-reply-v1", steps, "template-steps");
});

test("a template is deployed from its form, after a dry run that says the cost and the critical path", async () => {
  const page = await open(browser, server, "/templates/parcel-reply-v1?tab=deploy");
  await page.getByText("Still needed: question").waitFor();
  // No deploy before a dry run.
  const noDeploy = page.getByRole("button", { name: /^Deploy/, disabled: true });
  await noDeploy.waitFor();
  await page.getByLabel("limit").fill("99");
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText(/input.limit/).waitFor();
  await page.getByLabel("limit").fill("3");
  await page.getByLabel("question (required)").fill("Where is my parcel?");
  await page.getByLabel("tone").selectOption("formal");
  await page.getByLabel("products").fill("Box\nBag");
  await page.getByText("Model and queue of each step").click();
  await page.getByLabel("Model of check").fill("gpt-4o");
  await page.getByLabel("Queue of check").fill("fast");
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByRole("heading", { name: "Critical path" }).waitFor();
  assert.deepEqual(await page.locator(".definition-path li").allInnerTexts(), ["facts", "check", "reply"]);
  const rows = page.getByRole("row").filter({ hasText: "gpt-4o" });
  await rows.filter({ hasText: "fast" }).waitFor();
  await accessible(page, "dry run");
  await shot(page, "deploy-dry-run");
  // A change makes the dry run old, and the button waits for another.
  await page.getByLabel("tone").selectOption("warm");
  await page.getByText("It was changed since the dry run.").waitFor();
  await noDeploy.waitFor();
  // The form and the JSON are the same input; a reload keeps it.
  await page.getByRole("button", { name: "As JSON" }).click();
  const json = JSON.parse(await page.getByLabel("Input as JSON").inputValue());
  const input = { limit: 3, question: "Where is my parcel?", tone: "warm", products: ["Box", "Bag"] };
  assert.deepEqual(json, input);
  await page.reload();
  const question = page.getByLabel("question (required)");
  await eventually(async () => assert.equal(await question.inputValue(), input.question));
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByRole("button", { name: /^Deploy ·/ }).click();
  await page.waitForURL(/\/executions\/dt_exec_/);
  const id = page.url().split("/").at(-1);
  const execution = await server.call("GET", `/api/plans/executions/${id}`);
  assert.deepEqual(execution.input, input);
  assert.equal(execution.templateVersion, "1.1.0");
  await close(page);
  const ready = (it) => it.getByLabel("question (required)").waitFor();
  await looks(browser, server, "/templates/parcel-reply-v1?tab=deploy", ready, "deploy");
});

test("the editor shows the server's faults at their lines, and publishes without one", async () => {
  const page = await open(browser, server, "/templates/parcel-reply-v1?tab=edit");
  const editor = page.getByRole("textbox", { name: "Definition" });
  await editor.waitFor();
  const faulty = [
    "name: Parcel Reply",
    'version: "1.2"',
    "industry: custom",
    "inputSchema: {type: object}",
    "steps:",
    "  - id: one",
    '    prompt: "{{input.b}}"',
    "    dependsOn: [gone]",
    "  - id: one",
    "    prompt: x",
  ];
  const write = async (lines) => {
    await editor.click();
    await page.keyboard.press("Control+a");
    // As a paste: what Chromium itself makes of inserted lines has styles, which the policy refuses.
    await editor.evaluate((element, text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, lines.join("\n"));
  };
  await write(["name: [a", "b: c: d"]);
  await page.getByText(/1 fault|2 faults/).waitFor();
  await page.getByRole("button", { name: "Publish", disabled: true }).waitFor();
  await write(faulty);
  await page.getByText("the text is valid YAML").waitFor();
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("MISSING_DEPENDENCY").waitFor();
  await loaded(page);
  const lines = await page.locator(".definition-fault").allInnerTexts();
  for (const fault of [/line 2\b[\s\S]*version/, /line 8\b[\s\S]*gone/, /line 9\b[\s\S]*DUPLICATE/])
    assert.ok(
      lines.some((text) => fault.test(text)),
      `${fault}: ${lines.join("\n")}`,
    );
  assert.ok((await page.locator(".definition-fault-line").count()) >= 3);
  await accessible(page, "editor with faults");
  await shot(page, "editor-faults");
  // Faults move with their fields.
  await write(["# a comment", ...faulty]);
  await page.getByText("line 9").first().waitFor();
  await write([
    ...faulty.slice(0, 1),
    'version: "1.2.0"',
    ...faulty.slice(2, 6),
    "    prompt: x",
    "  - id: two",
    "    prompt: y",
    "visibility: organization",
  ]);
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published: parcel-reply-v1 1.2.0").waitFor();
  await page.getByText("Versions · 3").waitFor();
  await close(page);
  const versions = await server.call("GET", "/api/templates/parcel-reply-v1/versions");
  assert.deepEqual(
    versions.map(({ version }) => version),
    ["1.2.0", "1.1.0", "1.0.0"],
  );
});

test("a plan is written, run, and listed", async () => {
  const page = await open(browser, server, "/plans/new");
  await page.getByRole("textbox", { name: "Definition" }).waitFor();
  await page.getByRole("button", { name: "Create" }).click();
  await page.waitForURL(/\/plans\/dt_plan_/);
  await page.getByRole("link", { name: "Run" }).click();
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByRole("button", { name: /^Run ·/ }).click();
  await page.waitForURL(/\/executions\/dt_exec_/);
  await close(page);
  await looks(
    browser,
    server,
    "/plans",
    (it) => it.getByRole("link", { name: "My plan" }).waitFor(),
    "plans",
  );
});

test("a dry run marks the prompts of which it shows only the beginning", async () => {
  const long = "{{input.x}}".repeat(90);
  const steps = [
    { id: "one", prompt: long },
    { id: "two", prompt: long },
    { id: "three", prompt: long },
    { id: "short", prompt: "{{input.x}}" },
  ];
  const { id } = await server.call("POST", "/api/plans", { name: "Long prompts", steps });
  const page = await open(browser, server, `/plans/${id}?tab=run`);
  await page.getByLabel("Input as JSON").fill(JSON.stringify({ x: "word ".repeat(2_000) }));
  await page.getByRole("button", { name: "Dry run" }).click();
  const row = (name) => page.getByRole("row").filter({ has: page.getByRole("rowheader", { name }) });
  await row("three")
    .getByText(/^The first [\d,]+ characters; the run has the whole prompt\.$/)
    .waitFor();
  await loaded(page);
  assert.equal(await page.locator("[data-cut]").count(), 3);
  assert.equal(await row("short").locator("[data-cut]").count(), 0);
  await accessible(page, "dry run with cut prompts");
  await shot(page, "dry-run-cut");
  await close(page);
});

test("workers are there while they are, and drain", async () => {
  const second = await startWorker(server, { name: "scenario-2", queues: ["slow"], concurrency: 2 });
  await server.call("POST", "/api/tasks", { prompt: JSON.stringify({ hang: true }), queue: "slow" });
  const ready = (it) => it.getByRole("table", { name: "Running tasks" }).getByText("scenario-2").waitFor();
  await looks(browser, server, "/workers", ready, "workers");
  const page = await open(browser, server, "/workers");
  const row = page.getByRole("row").filter({ hasText: "scenario-2" }).first();
  await row.getByText("1 of 2").waitFor();
  await row.getByRole("button", { name: "Drain" }).click();
  const confirm = page.getByRole("dialog").getByRole("button", { name: "Drain" });
  await confirm.waitFor();
  await accessible(page, "drain");
  await confirm.click();
  await row.getByText("draining").waitFor();
  await close(page);
  second.stop();
});

test("queues show their depth as it changes", async () => {
  const page = await open(browser, server, "/queues");
  await page.getByRole("table", { name: "Queues" }).waitFor();
  await live(page);
  for (const _ of [1, 2, 3]) await server.call("POST", "/api/tasks", { prompt: "x", queue: "unserved" });
  const row = page.getByRole("row").filter({ hasText: "unserved" });
  await row.getByText("no worker").waitFor();
  await row.getByRole("cell").nth(2).getByText("3", { exact: true }).waitFor();
  await close(page);
  await looks(browser, server, "/queues", (it) => it.getByText("unserved").waitFor(), "queues");
});

test("a queue is paused, goes on, and is limited; a viewer may do none of it", async () => {
  const queue = async () =>
    (await server.call("GET", "/api/queues?limit=100")).find(({ name }) => name === "settings");
  await server.call("POST", "/api/tasks", { prompt: "x", queue: "settings" });
  const page = await open(browser, server, "/queues");
  await live(page);
  const row = page.getByRole("row").filter({ hasText: "settings" });
  await row.getByRole("button", { name: "Pause" }).click();
  await page.getByText("settings gives out no task. What runs goes on.").waitFor();
  await row.getByText("paused").waitFor();
  assert.equal((await queue()).paused, true);
  // A worker that comes gets nothing while the queue is paused.
  const helper = await startWorker(server, { name: "helper", queues: ["settings"] });
  await row.getByRole("cell").nth(5).getByText("1", { exact: true }).waitFor();
  assert.equal(helper.asked.length, 0);
  await row.getByRole("button", { name: "Resume" }).click();
  await server.until(() => helper.asked.length === 1, "the task of a queue that goes on");

  await row.getByRole("button", { name: "Limits" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Most tasks that run at once").fill("3");
  await dialog.getByLabel("Most tasks that begin in a minute").fill("2000000");
  await dialog.getByRole("button", { name: "Set" }).click();
  await dialog.getByText(/requestsPerMinute must be a whole number/).waitFor();
  await dialog.getByLabel("Most tasks that begin in a minute").fill("120");
  await accessible(page, "limits of a queue");
  await shot(page, "queue-limits");
  await dialog.getByRole("button", { name: "Set" }).click();
  await row.getByText("3 at once, 120 a minute").waitFor();
  const { concurrent, requestsPerMinute } = await queue();
  assert.deepEqual([concurrent, requestsPerMinute], [3, 120]);
  await row.getByRole("button", { name: "Limits" }).click();
  await dialog.getByLabel("Most tasks that run at once").fill("");
  await dialog.getByLabel("Most tasks that begin in a minute").fill("");
  await dialog.getByRole("button", { name: "Set" }).click();
  await row.getByText("no limit").waitFor();
  await close(page);
  helper.stop();
  const viewer = await open(browser, server, "/queues", {
    user: await server.user("viewer", "queues@example.com"),
  });
  await viewer.getByRole("row").filter({ hasText: "default" }).waitFor();
  await loaded(viewer);
  assert.equal(await viewer.getByRole("button", { name: "Pause" }).count(), 0);
  await close(viewer);
});

test("insights tell nothing where nothing is known, and what a threshold would have done", async () => {
  const ready = (it) => it.getByRole("heading", { name: "Insights" }).waitFor();
  await looks(
    browser,
    server,
    "/insights",
    async (it) => {
      await ready(it);
      await it.getByText("Decided", { exact: true }).waitFor();
    },
    "insights-first",
  );
  // One that waits is counted once.
  const first = JSON.stringify({ say: "the first", confidence: 0.5 });
  const { id: waiting } = await server.call("POST", "/api/tasks", {
    prompt: first,
    hitl: { required: true },
  });
  await server.until(async () => (await server.call("GET", `/api/tasks/${waiting}`)).awaitingApproval);
  const one = await open(browser, server, "/insights");
  const { total } = (await server.answer("GET", "/api/hitl/pending?limit=1")).pagination;
  await one.getByText(new RegExp(`^${total} outputs? met a gate, and none was decided on yet`)).waitFor();
  await close(one);
  await server.call("DELETE", `/api/tasks/${waiting}`);
  const outputs = [0.15, 0.35, 0.55, 0.62, 0.72, 0.78, 0.83, 0.91, 0.94, 0.97];
  for (const [index, confidence] of outputs.entries()) {
    const prompt = JSON.stringify({ say: `output ${index}`, confidence });
    const { id } = await server.call("POST", "/api/tasks", { prompt, hitl: { required: true } });
    await server.until(async () => (await server.call("GET", `/api/tasks/${id}`)).awaitingApproval);
    const verb = index % 3 === 0 ? "reject" : "approve";
    await server.call("POST", `/api/hitl/${id}/${verb}`, verb === "reject" ? { reason: "wrong" } : {});
  }
  const page = await open(browser, server, "/insights?threshold=0.80");
  const result = page.locator(".insights-result");
  await result.waitFor();
  await loaded(page);
  const { thresholds } = await server.call("GET", "/api/hitl/calibration");
  const at = thresholds.find(({ threshold }) => Math.abs(threshold - 0.8) < 0.001);
  const figures = await result.locator("dd:nth-of-type(1)").allInnerTexts();
  assert.deepEqual(figures.slice(0, 2), [String(at.reviewsSaved), String(at.rejectionsMissed)]);
  await page.getByRole("slider").press("ArrowRight");
  await page.waitForURL(/threshold=0.85/);
  await close(page);
  const charted = (it) => it.locator(".uplot canvas").first().waitFor();
  const drawn = async (it) => {
    await charted(it);
    await it.locator(".uplot canvas").nth(1).waitFor();
  };
  await looks(browser, server, "/insights", drawn, "insights");
  await looks(browser, server, "/insights?tab=latency", drawn, "insights-latency");
  const { id } = await server.call("POST", "/api/plans", {
    name: "Counted",
    steps: [{ id: "one", prompt: "x" }],
  });
  await server.call("POST", `/api/plans/${id}/execute`, {});
  await looks(browser, server, "/insights?tab=cost", charted, "insights-cost");
});

test("a key is shown once, and its use ends when it is revoked", async () => {
  const page = await open(browser, server, "/admin/keys");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("nightly");
  await accessible(page, "new key");
  await page.getByRole("button", { name: "Create" }).click();
  const key = await page.getByRole("dialog").locator(".command code").innerText();
  await shot(page, "key-once");
  assert.equal((await server.answer("GET", "/api/tasks", undefined, key)).success, true);
  await page.getByRole("button", { name: "I have copied it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await loaded(page);
  assert.ok(!(await page.content()).includes(key), "the key is gone from the page");
  await page.reload();
  const row = page.getByRole("row").filter({ hasText: "nightly" });
  await row.waitFor();
  await loaded(page);
  assert.ok(!(await page.content()).includes(key));
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.getByText("revoked").waitFor();
  assert.equal((await server.answer("GET", "/api/tasks", undefined, key)).success, false);
  await close(page);
  await looks(browser, server, "/admin/keys", (it) => it.getByText("nightly").waitFor(), "admin-keys");
});

test("a person who is invited makes the own account, once", async () => {
  const page = await open(browser, server, "/admin/users");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("E-mail").fill("ira@example.com");
  await accessible(page, "the invitation");
  await page.getByRole("button", { name: "Make the link" }).click();
  const link = await page.getByRole("dialog").locator("code").innerText();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Open invitations" }).click();
  await page.getByRole("dialog").getByText("ira@example.com").waitFor();
  await accessible(page, "the open invitations");
  await close(page);
  const path = link.slice(link.indexOf("/sign-in"));
  const other = await open(browser, server, path, { user: null });
  await other.getByRole("heading", { name: "Make your account" }).waitFor();
  await other.getByLabel("Password").fill("12345678");
  await accessible(other, "an invitation");
  await other.getByRole("button", { name: "Make my account" }).click();
  await other.getByRole("alert").waitFor();
  await other.getByLabel("Password").fill("another horse, another staple");
  await other.getByRole("button", { name: "Make my account" }).click();
  await other.getByRole("heading", { name: "Review" }).waitFor();
  await close(other);
  const late = await open(browser, server, path, { user: null });
  await late.getByText("This link was used before").waitFor();
  await close(late);
});

test("a user is made, changed and deleted; the audit log says so", async () => {
  const page = await open(browser, server, "/admin/users");
  await page.getByRole("button", { name: "New user" }).click();
  await page.getByLabel("E-mail").fill("grace@example.com");
  await page.getByLabel("First password").fill("short");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("at least 8 characters").waitFor();
  await page.getByLabel("First password").fill("another horse, another staple");
  await page.getByRole("button", { name: "Create" }).click();
  const role = page.getByLabel("Role of grace@example.com");
  await role.selectOption("viewer");
  const question = page.getByRole("dialog", { name: "Make grace@example.com viewer" });
  await question.getByRole("button", { name: "Leave it" }).click();
  assert.equal(await role.inputValue(), "operator");
  await role.selectOption("viewer");
  await question.getByRole("button", { name: "Make viewer" }).click();
  await page.getByText("grace@example.com is viewer from now on.").waitFor();
  const row = page.getByRole("row").filter({ hasText: "grace@example.com" });
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await row.waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Audit log" }).click();
  await page.getByText("user.deleted").first().waitFor();
  await page.getByLabel("Action, such as").fill("user.changed");
  await page.getByText("role: viewer").first().waitFor();
  await close(page);
  await looks(
    browser,
    server,
    "/admin/users",
    (it) => it.getByText("ada@example.com").first().waitFor(),
    "admin-users",
  );
  await looks(
    browser,
    server,
    "/admin/audit",
    (it) => it.getByText("user.deleted").first().waitFor(),
    "admin-audit",
  );
});

test("sessions, settings and storage are as the server has them", async () => {
  await looks(
    browser,
    server,
    "/admin/sessions",
    (it) => it.getByText("this one").waitFor(),
    "admin-sessions",
  );
  const other = await server.user("viewer", "sessions@example.com");
  await server.token(other);
  const page = await open(browser, server, "/admin/sessions");
  const rows = page.getByRole("table", { name: "Sessions" });
  const user = page.getByRole("combobox", { name: "User" });
  await rows.getByText(other.email).first().waitFor();
  await eventually(async () => assert.equal(await user.locator("option:checked").textContent(), "everybody"));
  await user.selectOption({ label: ADMIN.email });
  await rows.getByText(other.email).waitFor({ state: "detached" });
  await rows.getByText("this one").waitFor();
  await close(page);
  await looks(
    browser,
    server,
    "/admin/settings",
    (it) => it.getByText("password_min_length").waitFor(),
    "admin-settings",
  );
  await looks(
    browser,
    server,
    "/admin/storage",
    (it) => it.getByText("Open files and sockets").waitFor(),
    "admin-storage",
  );
});

test("a webhook that was not taken is sent again", async () => {
  await looks(
    browser,
    server,
    "/admin/deliveries",
    (it) => it.getByText("Nothing was sent yet").waitFor(),
    "deliveries-empty",
  );
  let answer = 410;
  const receiver = createServer((_, response) => response.writeHead(answer).end());
  receiver.unref();
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const callbackUrl = `http://127.0.0.1:${receiver.address().port}/hook`;
  await server.call("POST", "/api/tasks", { prompt: "x", callbackUrl });
  const page = await open(browser, server, "/admin/deliveries");
  const row = page.getByRole("row").filter({ hasText: "task.completed" });
  await row.getByText("dead").waitFor();
  await looks(
    browser,
    server,
    "/admin/deliveries",
    (it) => it.getByRole("cell").getByText("dead").waitFor(),
    "deliveries",
  );
  answer = 200;
  await row.getByRole("button", { name: "Send again" }).click();
  await row.getByText("delivered").waitFor();
  receiver.close();
  await close(page);
});

test("roles see what they may", async () => {
  const viewer = await server.user("viewer");
  const page = await open(browser, server, "/templates/parcel-reply-v1", { user: viewer });
  await page.getByRole("link", { name: /^Versions/ }).waitFor();
  await loaded(page);
  assert.equal(await page.getByRole("link", { name: "Deploy" }).count(), 0);
  assert.equal(await page.getByRole("link", { name: "Edit" }).count(), 0);
  await page.goto("/admin");
  await page.getByRole("link", { name: "Sessions" }).waitFor();
  await loaded(page);
  for (const name of ["Users", "Keys", "Audit log", "Settings"])
    assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);
  await page.goto("/admin/users");
  await page.getByText("Your role may not see this").waitFor();
  await page.goto("/workers");
  await page.getByText("scenario-1").first().waitFor();
  await loaded(page);
  assert.equal(await page.getByRole("button", { name: "Drain" }).count(), 0);
  await page.goto("/admin/deliveries");
  await page.getByText("task.completed").first().waitFor();
  await loaded(page);
  assert.equal(await page.getByRole("button", { name: "Send again" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Show the signing secret" }).count(), 0);
  await close(page);
  const operator = await server.user("operator");
  const second = await open(browser, server, "/admin", { user: operator });
  await second.getByRole("heading", { name: "Open sessions" }).waitFor();
  await close(second);
});

test("a key that ends soon is announced above every page, to those who can replace it", async () => {
  const key = { name: "backup-cron", role: "viewer", expiresIn: "5d" };
  const { id } = await server.call("POST", "/api/auth/keys", key);
  const page = await open(browser, server, "/tasks");
  const notice = page.locator("[data-key-ends]");
  await notice.getByText("backup-cron").waitFor();
  await notice.getByRole("link", { name: "Rotate it" }).click();
  await page.waitForURL(/\/admin\/keys$/);
  await page.getByRole("button", { name: "Rotate" }).first().waitFor();
  await close(page);
  const viewer = await open(browser, server, "/tasks", {
    user: await server.user("viewer", "keyless@example.com"),
  });
  await loaded(viewer);
  assert.equal(await viewer.locator("[data-key-ends]").count(), 0);
  await close(viewer);
  await server.call("DELETE", `/api/auth/keys/${id}`);
});

test("the documentation is whole without a network, and links within itself", async () => {
  const page = await open(browser, server, "/docs");
  await page
    .getByRole("heading", { name: "Documentation", level: 2 })
    .or(page.locator("article h1"))
    .first()
    .waitFor();
  await page.locator("article").getByRole("link", { name: "Choose a confidence threshold" }).click();
  await page.waitForURL(/\/docs\/how-to\/threshold$/);
  await page.getByText("Past reviews show how many of each to expect.").waitFor();
  await page.locator("article").getByRole("link", { name: "Confidence", exact: true }).first().click();
  await page.waitForURL(/\/docs\/explanation\/confidence$/);
  await page.goto("/docs/reference/templates#faults-of-a-definition");
  await page.getByText("UNDECLARED_DEPENDENCY").waitFor();
  await page.goto("/docs/api");
  await page.getByLabel("Search operations").fill("templates_deploy");
  await page.getByText(/^1 of/).waitFor();
  await page.getByText("/api/templates/{id}/deploy").click();
  await page.getByText("modelOverrides").waitFor();
  await page.waitForURL(/operation=templates_deploy/);
  await accessible(page, "an operation");
  await shot(page, "docs-operation");
  await close(page);
  await looks(browser, server, "/docs", (it) => it.locator("article h2").first().waitFor(), "docs");
  await looks(
    browser,
    server,
    "/docs/reference/tasks",
    (it) => it.locator("article table").first().waitFor(),
    "docs-guide",
  );
  await looks(
    browser,
    server,
    "/docs/api",
    (it) => it.getByText("/api/audit", { exact: true }).waitFor(),
    "docs-api",
  );
});

test("every guide is free of faults of axe, and leads to no page that is missing", async () => {
  const page = await open(browser, server, "/docs");
  const links = page.locator(".docs-nav a");
  await links.nth(5).waitFor();
  const addresses = await links.evaluateAll((all) => all.map((each) => each.getAttribute("href")));
  for (const address of addresses) {
    await follow(page, address);
    await page.locator("article h1").first().waitFor();
    const inner = await page
      .locator('article a[href^="/docs"]')
      .evaluateAll((all) => all.map((each) => each.getAttribute("href")));
    for (const href of inner) {
      const path = href.split("#")[0].replace(/\/$/, "");
      assert.ok(
        path === "/docs" || addresses.includes(path) || /\/docs\/(adr|notes)\//.test(path),
        `${address}: ${href}`,
      );
    }
  }
  await close(page);
});

test("many templates are listed, and a server that refuses is quoted", async () => {
  const one = { ...template("1.0.0", [{ id: "one", prompt: "x" }]), hitl: undefined };
  await Promise.all(
    Array.from({ length: 120 }, (_, number) =>
      server.call("POST", "/api/templates", { ...one, name: `Many ${number}` }),
    ),
  );
  const page = await open(browser, server, "/templates");
  await page.getByText(/^12\d found/).waitFor();
  await shot(page, "templates-many");
  await close(page);
  const failing = await open(browser, server, null);
  await failing.route("**/api/templates?**", (route) =>
    route.fulfill({
      status: 503,
      json: {
        success: false,
        error: { code: "STORAGE", message: "the disk is full", retryable: false },
        meta: {},
      },
    }),
  );
  await failing.goto("/templates");
  await failing.getByText("the disk is full").waitFor();
  await shot(failing, "templates-error");
  await close(failing);
});
