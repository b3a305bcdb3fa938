// Deciding: by keyboard, with undo, edits, drafts, races, in bulk.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  accessible,
  accessibleInThemes,
  close,
  live,
  loaded,
  open,
  PHONE,
  resize,
  shot,
  stopClock,
  WINDOW,
} from "./support/browser.mjs";
import { approve, approveEdit, stage, title, undoEnds } from "./support/review.mjs";
import { allowed, eventually } from "./support/wait.mjs";

const on = stage();
const { held, item, waits, decided, clear } = on;

test("three outputs are decided by keyboard alone, one after the other", async () => {
  await clear();
  const ids = [
    await held("The first answer."),
    await held("The second answer."),
    await held("The third answer."),
  ];
  const page = await open(on.browser, on.server, "/review", { clock: true });
  await title(page, "The first answer.");
  // The oldest is open, and the address says which.
  await page.waitForURL(new RegExp(ids[0]));
  await live(page);
  await approve(page);
  await title(page, "The second answer.");
  await page.keyboard.press("j");
  await title(page, "The third answer.");
  await page.keyboard.press("k");
  await title(page, "The second answer.");
  await page.keyboard.press("r");
  await page.keyboard.type("arses and keys: not good enough");
  assert.equal((await item(ids[1])).decision, undefined);
  await page.keyboard.press("Control+Enter");
  await title(page, "The third answer.");
  await page.keyboard.press("s");
  await undoEnds(page);
  assert.equal((await decided(ids[0])).status, "approved");
  const rejection = await decided(ids[1]);
  assert.equal(rejection.status, "rejected");
  assert.equal(rejection.comment, "arses and keys: not good enough");
  assert.equal((await item(ids[2])).decision, undefined, "a skip decides nothing");
  await close(page);
});

test("a decision is undone within five seconds, and nothing was sent", async () => {
  await clear();
  const [one, two] = [await held("To be kept."), await held("Another.")];
  const page = await open(on.browser, on.server, `/review/${one}`, { clock: true });
  const sent = [];
  page.on("request", (request) => /\/(approve|reject)$/.test(request.url()) && sent.push(request.url()));
  await title(page, "To be kept.");
  await stopClock(page);
  await approve(page);
  await page.waitForURL(new RegExp(two));
  await page.keyboard.press("z");
  await page.waitForURL(new RegExp(one));
  const taken = page.getByText("Taken back: nothing was sent.");
  await taken.waitFor();
  await undoEnds(page);
  await taken.waitFor({ state: "detached" });
  await page.clock.resume();
  await title(page, "To be kept.");
  await loaded(page);
  assert.deepEqual(sent, []);
  assert.equal((await item(one)).decision, undefined);
  const history = await on.server.call("GET", `/api/hitl/${one}/history`);
  assert.deepEqual(
    history.filter(({ action }) => /approved|rejected/.test(action)),
    [],
  );
  await stopClock(page);
  await approve(page);
  const left = page.locator(".toast [aria-hidden]");
  await left.getByText("5 s", { exact: true }).waitFor();
  await page.clock.fastForward(2_000);
  await left.getByText("3 s", { exact: true }).waitFor();
  assert.deepEqual(sent, []);
  await undoEnds(page);
  await decided(one);
  assert.equal(sent.length, 1);
  assert.equal((await item(two)).decision, undefined);
  await close(page);
});

test("a page that is left sends what waits", async () => {
  await clear();
  const id = await held("Sent at once.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Sent at once.");
  await loaded(page);
  // The time to undo does not end.
  await stopClock(page);
  await approve(page);
  await page.getByText("It is sent in 5 s").waitFor();
  assert.equal((await item(id)).decision, undefined);
  await page.goto("about:blank");
  assert.equal((await decided(id)).status, "approved");
  await close(page);
});

test("a decision that is refused is told on any page, and a sign-out sends what waits as its own user's", async () => {
  await clear();
  const [refused, sent] = [await held("Decided elsewhere."), await held("Decided by a leaver.")];
  const user = await on.server.user("operator", "leaver@example.com");
  const page = await open(on.browser, on.server, `/review/${refused}`, { user, clock: true });
  await title(page, "Decided elsewhere.");
  await live(page);
  await page.route("**/approve", (route) =>
    route.fulfill({
      status: 403,
      json: { success: false, error: { code: "FORBIDDEN", message: "four eyes" } },
    }),
  );
  await stopClock(page);
  await approve(page);
  await page.getByRole("link", { name: "Overview", exact: true }).click();
  await page.waitForURL(({ pathname }) => pathname === "/");
  await undoEnds(page);
  await page.clock.resume();
  await page.getByText("was not decided: four eyes").waitFor();
  await page.unroute("**/approve");
  await page.goto(`/review/${sent}`);
  await title(page, "Decided by a leaver.");
  await live(page);
  await approve(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("E-mail").waitFor();
  const { user: who } = await on.server.call("GET", "/api/auth/session", undefined, await fresh(user));
  assert.equal((await decided(sent)).by, who.id);
  await close(page);
});

/** A token of a user whose earlier session has ended. */
function fresh(user) {
  on.server.tokens.delete(user.email);
  return on.server.token(user);
}

test("a draft is its own user's, and nobody else of the browser sees it", async () => {
  await clear();
  const id = await held("A text to comment on.");
  const [ann, ben] = [
    await on.server.user("operator", "ann@example.com"),
    await on.server.user("operator", "ben@example.com"),
  ];
  const page = await open(on.browser, on.server, `/review/${id}`, { user: ann });
  await title(page, "A text to comment on.");
  await live(page);
  await page.keyboard.press("r");
  await page.keyboard.type("a reason of Ann's");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Sign out" }).click();
  for (const [user, reason] of [
    [ben, ""],
    [ann, "a reason of Ann's"],
  ]) {
    await page.getByLabel("E-mail").fill(user.email);
    await page.getByLabel("Password").fill(user.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await title(page, "A text to comment on.");
    await live(page);
    await page.keyboard.press("r");
    assert.equal(await page.getByRole("dialog").getByRole("textbox").first().inputValue(), reason);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Sign out" }).click();
  }
  await page.getByLabel("E-mail").waitFor();
  await close(page);
});

test("an edit survives a reload, and flows downstream once approved", async () => {
  await clear();
  const steps = [
    { id: "draft", prompt: '{"say": "a draft with an eror", "confidence": 0.4}', requiresApproval: true },
    { id: "use", prompt: "Use: {{draft.output}}", dependsOn: ["draft"] },
  ];
  const plan = await on.server.call("POST", "/api/plans", { name: "edits", steps });
  const execution = await on.server.call("POST", `/api/plans/${plan.id}/execute`, {});
  const path = `/api/plans/executions/${execution.executionId ?? execution.id}`;
  const { taskId } = await on.server.until(async () => {
    const step = (await on.server.call("GET", path)).steps.draft;
    return step?.awaitingApproval && step;
  });
  await waits(taskId);
  const page = await open(on.browser, on.server, `/review/${taskId}`, { clock: true });
  await title(page, "a draft with an eror");
  await page.getByRole("list", { name: "After" }).getByText("use").waitFor();
  await page.locator('[data-chain="ok"]').waitFor();
  await page.keyboard.press("e");
  const editor = page.getByRole("textbox", { name: "Edited output" });
  await editor.waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("a draft without an error, also with j and a");
  await page.reload();
  await page.getByRole("tab", { name: "Edit (changed)" }).click();
  await page
    .getByRole("textbox", { name: "Edited output" })
    .getByText("a draft without an error, also with j and a")
    .waitFor();
  await page.keyboard.press("Escape");
  await title(page, "a draft with an eror");
  await page.keyboard.press("d");
  await page.locator(".cm-merge-b").getByRole("textbox", { name: "Edited output" }).waitFor();
  await shot(page, "review-diff");
  await accessible(page);
  await approveEdit(page);
  await page.getByText("Approved with the edit").waitFor();
  await undoEnds(page);
  const after = await on.server.until(async () => {
    const found = await on.server.call("GET", path);
    return found.status === "completed" && found;
  }, "the end");
  assert.equal(after.steps.draft.output, "a draft without an error, also with j and a");
  assert.equal(after.steps.use.output, "Use: a draft without an error, also with j and a");
  await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.includes("draft.")));
  await close(page);
});

test("a rejection with retry makes a task that has the reason in its prompt", async () => {
  await clear();
  const id = await held("Too short.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Too short.");
  await page.keyboard.press("r");
  await page.getByRole("textbox", { name: "Reason" }).fill("Write more.");
  await page.getByRole("checkbox", { name: "Try again" }).check();
  await accessible(page);
  await shot(page, "review-reject");
  await page.getByRole("button", { name: "Reject and try again" }).click();
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  const { retryTaskId } = await decided(id);
  const task = await on.server.call("GET", `/api/tasks/${retryTaskId}`);
  assert.match(task.prompt, /Feedback:\nWrite more\.$/);
  await page.goto(`/review/${id}`);
  await page.getByText("A new task tries again").waitFor();
  await page.getByText("Write more.").first().waitFor();
  await close(page);
});

test("of two reviewers one wins, and the other hears who it was and goes on", async () => {
  await clear();
  const [one, two] = [await held("Contested."), await held("What comes next.")];
  const bob = await on.server.user("operator", "bob@example.com");
  const [page, other] = [
    await open(on.browser, on.server, `/review/${one}`, { clock: true }),
    await open(on.browser, on.server, `/review/${one}`, { user: bob }),
  ];
  await title(page, "Contested.");
  await title(other, "Contested.");
  await live(other);
  await stopClock(page);
  await approve(page);
  await page.waitForURL(new RegExp(two));
  await on.server.call("POST", `/api/hitl/${one}/reject`, { reason: "first" }, await on.server.token(bob));
  await other.locator('[data-decided="rejected"]').getByText("by you").waitFor();
  await undoEnds(page);
  await page.clock.resume();
  await page.getByText(/was decided already, by operator/).waitFor();
  await title(page, "What comes next.");
  assert.equal((await item(two)).decision, undefined);
  await close(page);
  await close(other);
});

test("an item that another decides is told at once, and the list follows without a reload", async () => {
  await clear();
  const id = await held("Decided elsewhere.");
  const page = await open(on.browser, on.server, `/review/${id}`);
  await title(page, "Decided elsewhere.");
  await live(page);
  await on.server.call("POST", `/api/hitl/${id}/approve`, { comment: "fine" });
  await page.locator('[data-decided="approved"]').getByText("fine").waitFor();
  const later = await held("Came while the page was open.");
  await page.locator(`[data-task="${later}"]`).waitFor();
  await close(page);
});

test("outputs of one step are approved together only after three were opened, and are marked", async () => {
  await clear();
  const template = {
    name: "Bulk letters",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties: { who: { type: "string" } }, required: ["who"] },
    steps: [{ id: "letter", prompt: '{"say": "Dear {{input.who}}", "confidence": 0.8}' }],
    hitl: { requiredFor: ["letter"] },
  };
  const { id } = await on.server.call("POST", "/api/templates", template);
  for (const who of ["Ann", "Ben", "Cleo", "Dan"])
    await on.server.call("POST", `/api/templates/${id}/deploy`, { input: { who } });
  const stray = await held("Of no step.");
  const waiting = await on.server.until(async () => {
    const found = await on.server.call("GET", "/api/hitl/pending");
    return found.length === 5 && found;
  });
  const letters = waiting.filter((each) => each.stepId === "letter").map((each) => each.taskId);
  const page = await open(on.browser, on.server, "/review", { clock: true });
  await page.locator(".review-item").nth(4).waitFor();
  for (const taskId of [...letters, stray]) await page.locator(`[data-task="${taskId}"] input`).check();
  await page.getByRole("button", { name: "Approve 5…" }).click();
  await page.getByText("Only outputs of one step of one template").waitFor();
  await page.locator(`[data-task="${stray}"] input`).uncheck();
  await page.goto(`/review/${stray}`);
  for (const taskId of letters) await page.locator(`[data-task="${taskId}"] input`).check();
  await page.getByRole("button", { name: "Approve 4…" }).click();
  await page.getByText("Open at least 3 of them first").waitFor();
  for (const taskId of letters.slice(0, 3)) {
    await page.locator(`[data-task="${taskId}"] a`).click();
    await page.locator(`[data-task="${taskId}"][data-current="true"]`).waitFor();
  }
  await page.getByRole("button", { name: "Approve 4…" }).click();
  await page.getByRole("button", { name: "Approve 4", exact: true }).waitFor();
  await accessible(page);
  await shot(page, "review-bulk");
  await page.getByRole("button", { name: "Approve 4", exact: true }).click();
  await page.getByText("Approved 4 outputs.").waitFor();
  await undoEnds(page);
  for (const taskId of letters) {
    assert.equal((await decided(taskId)).status, "approved");
    const history = await on.server.call("GET", `/api/hitl/${taskId}/history`);
    assert.equal(history.find((entry) => entry.action === "approved").details.bulk, 4);
  }
  assert.equal((await item(stray)).decision, undefined);
  await page.goto(`/review/${letters[0]}`);
  await page.getByText("in bulk, one of 4").waitFor();
  await page.locator('[data-chain="ok"]').waitFor();
  await close(page);
});

test("a viewer sees everything and may decide nothing", async () => {
  await clear();
  const id = await held("Look, do not touch.");
  const viewer = await on.server.user("viewer");
  const page = await open(on.browser, on.server, `/review/${id}`, { user: viewer, clock: true });
  await title(page, "Look, do not touch.");
  await page.keyboard.press("a");
  await page.keyboard.press("r");
  await undoEnds(page);
  await loaded(page);
  assert.equal(await page.locator(".toast").count(), 0);
  // What one may not do is not offered.
  for (const name of [/^Approve/, /^Reject/, "Comment", /^Select/])
    assert.equal(await page.getByRole("button", { name }).count(), 0, String(name));
  assert.equal(await page.getByRole("tab", { name: "Edit" }).count(), 0);
  assert.equal(await page.getByRole("textbox", { name: "Comment" }).count(), 0);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("Skip to the next").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve: a, change" }).count(), 0);
  await shot(page, "review-viewer");
  assert.equal((await item(id)).decision, undefined);
  await close(page);
});

test("a reviewer has the review and the own account, decides, and nothing that is refused is asked for", async () => {
  await clear();
  const id = await held("Only for reviewers.");
  const reviewer = await on.server.user("reviewer");
  const page = await open(on.browser, on.server, "/", { user: reviewer, clock: true });
  const refused = [];
  page.on("response", (answer) => answer.status() === 403 && refused.push(answer.url()));
  await title(page, "Only for reviewers.");
  assert.deepEqual(await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts(), [
    "Review\n1",
    "Account",
  ]);
  await accessible(page);
  await shot(page, "review-reviewer");
  assert.equal(await page.locator('main a[href^="/tasks/"], main a[href^="/executions/"]').count(), 0);
  await approve(page);
  await undoEnds(page);
  assert.equal((await decided(id)).status, "approved");
  await page.getByRole("link", { name: "Account" }).click();
  await page.getByRole("heading", { name: "Account" }).waitFor();
  await page.getByRole("heading", { name: "Change your password" }).waitFor();
  await loaded(page);
  assert.deepEqual(refused, []);
  await close(page);
});

test("what a hostile model writes is text, however long", async () => {
  await clear();
  const nasty = [
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    "[click](javascript:window.hacked=1) ![x](http://127.0.0.1:1/x.png)",
    "\u001b[31mred\u001b[0m\u0007 \u202egnp.exe \u200bhidden",
    "‏מימין לשמאל",
  ].join("\n");
  const id = await held(nasty);
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, '<img src=x onerror="window.hacked=1">');
  await title(page, "␛[31mred␛[0m␇ ‹U+202E›gnp.exe ‹U+200B›hidden");
  await loaded(page);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator(".review-detail img, .review-detail script, .review-panel a").count(), 0);
  await page.keyboard.press("e");
  await page.getByRole("textbox", { name: "Edited output" }).waitFor();
  await page.keyboard.press("Escape");
  const long = await held(`{"say":"${"x".repeat(10)}"}${"long line ".repeat(100_000)}`);
  const began = Date.now();
  await page.goto(`/review/${long}`);
  await title(page, "long line");
  assert.ok(Date.now() - began < allowed(5_000), `${Date.now() - began} ms`);
  await page.locator(".review-panel").getByRole("button", { name: "Show all" }).click();
  await page
    .locator(".review-panel")
    .getByRole("button", { name: "Show all" })
    .waitFor({ state: "detached" });
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  assert.equal((await decided(long)).status, "approved");
  await close(page);
});

test("keys are changed and turned off, and never act in a field", async () => {
  await clear();
  const id = await held("Keys.");
  await held("Others.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Keys.");
  await page.keyboard.press("/");
  await page.keyboard.type("a");
  await eventually(async () => assert.equal(await page.getByLabel("Search").inputValue(), "a"));
  await page.getByLabel("Search").fill("");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await accessible(page);
  await shot(page, "keys");
  await page.getByRole("button", { name: "Approve: a, change" }).click();
  await page.keyboard.press("y");
  await page.getByRole("button", { name: "Approve: y, change" }).waitFor();
  const ignored = async (key) => {
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press(key);
    await loaded(page);
    assert.equal(await page.locator(".toast").count(), 0);
  };
  await ignored("a");
  await page.keyboard.press("?");
  await page.getByLabel("Single keys act on the page").uncheck();
  await ignored("y");
  await undoEnds(page);
  await loaded(page);
  assert.equal((await item(id)).decision, undefined);
  await close(page);
});

test("a killed server is told of, and what was missed is there when it is back", async () => {
  await clear();
  const id = await held("Before the crash.");
  const page = await open(on.browser, on.server, `/review/${id}`);
  await title(page, "Before the crash.");
  await live(page);
  on.worker.stop();
  await on.server.kill();
  await page.locator('[data-live="reconnecting"]:visible').waitFor();
  await on.server.start();
  await on.worker.connect();
  const later = await held("After the crash.");
  await page.locator(`[data-task="${later}"]`).waitFor();
  await live(page);
  await close(page);
});

test("reviewing is usable and accessible in both themes, on a phone, with 500 items, empty and refused", async () => {
  await clear();
  const empty = await open(on.browser, on.server, "/review");
  await empty.getByText("Nothing waits", { exact: true }).waitFor();
  await accessible(empty, "empty");
  await shot(empty, "review-empty");
  await empty.getByRole("button", { name: "Run an example" }).click();
  await empty.locator(".review-item").waitFor();
  await close(empty);
  await clear();
  for (let batch = 0; batch < 5; batch++) {
    const tasks = Array.from({ length: 100 }, (_, index) => ({
      prompt: JSON.stringify({
        say: `Dear customer ${batch * 100 + index}, thank you for your message. Your order left our warehouse on Monday and should reach you within two working days.`,
        confidence: 0.4 + ((index * 7) % 50) / 100,
      }),
      hitl: { required: true },
      tags: ["support"],
    }));
    await on.server.call("POST", "/api/tasks/batch", { tasks });
  }
  await on.server.until(
    async () => (await on.server.answer("GET", "/api/hitl/pending?limit=1")).pagination.total === 500,
    "500",
  );
  const page = await open(on.browser, on.server, "/review");
  await page.locator(".review-item").nth(5).waitFor();
  await page.locator('[data-chain="ok"]').waitFor();
  await page.getByText("500", { exact: true }).first().waitFor();
  await loaded(page);
  assert.ok((await page.locator(".review-item").count()) < 60, "only rows in view are in the document");
  await accessibleInThemes(page, "review");
  await resize(page, { width: 680, height: 430 });
  await accessibleInThemes(page, "review-zoomed", "at 200 %");
  await resize(page, PHONE);
  await accessibleInThemes(page, "review-phone", "on a phone, open,");
  await page.getByRole("link", { name: "Back to the list" }).click();
  await page.locator(".review-item").nth(3).waitFor();
  await accessibleInThemes(page, "review-phone-list", "on a phone");
  await page.locator(".review-item a").first().click();
  await resize(page, WINDOW);
  await page.locator('[data-chain="ok"]').waitFor();
  await close(page);
  // Beyond that the oldest are listed, not the latest.
  const newer = Array.from({ length: 130 }, () => ({
    prompt: '{"say": "Newer."}',
    hitl: { required: true },
  }));
  await on.server.call("POST", "/api/tasks/batch", { tasks: newer.slice(0, 100) });
  await on.server.call("POST", "/api/tasks/batch", { tasks: newer.slice(100) });
  const oldest = await open(on.browser, on.server, "/review");
  await oldest.getByText(/oldest of 6[0-3]\d/).waitFor();
  await oldest.locator(".review-item").getByText("Dear customer").first().waitFor();
  await loaded(oldest);
  assert.equal(await oldest.locator(".review-item").getByText("Newer.").count(), 0);
  await close(oldest);
  const missing = await open(on.browser, on.server, "/review/dt_task_nothing");
  await missing.getByText("It does not exist").waitFor();
  await accessible(missing, "missing");
  await shot(missing, "review-missing");
  await close(missing);
});
