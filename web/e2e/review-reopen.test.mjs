// A wrong click that is found among the decided outputs, and put right: taken back, or corrected where it was used.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessibleInThemes, close, open } from "./support/browser.mjs";
import { approve, approveEdit, armed, stage, title, undoEnds } from "./support/review.mjs";

const on = stage();
const SAY = (say) => JSON.stringify({ say, confidence: 0.7 });

/** Two letters that wait for a reviewer, and a step that waits for both. */
async function twoLetters() {
  const held = { requiresApproval: true };
  const steps = [
    { id: "one", prompt: SAY("Dear Ann."), ...held },
    { id: "two", prompt: SAY("Dear Bob."), ...held },
    { id: "both", prompt: "{{one.output}} {{two.output}}", dependsOn: ["one", "two"] },
  ];
  const plan = await on.server.call("POST", "/api/plans", { name: "letters", steps });
  const { id } = await on.server.call("POST", `/api/plans/${plan.id}/execute`, {});
  const run = () => on.server.call("GET", `/api/plans/executions/${id}`);
  const held2 = async () => {
    const { steps } = await run();
    return steps.one.awaitingApproval && steps.two.awaitingApproval && steps;
  };
  const found = await on.server.until(held2, "both letters wait");
  await Promise.all([on.waits(found.one.taskId), on.waits(found.two.taskId)]);
  return { run, one: found.one.taskId, two: found.two.taskId };
}

test("a wrong click is found among the decided ones after ten seconds, and taken back", async () => {
  await on.clear();
  const { run, one, two } = await twoLetters();
  const page = await open(on.browser, on.server, `/review/${one}`, { clock: true });
  await title(page, "Dear Ann.");
  await approve(page);
  await undoEnds(page);
  assert.equal((await on.decided(one)).status, "approved");
  await page.clock.fastForward(10_000);
  await page.getByRole("link", { name: "Decided" }).click();
  await page.getByLabel("By me").check();
  await page.getByRole("link", { name: "Dear Ann." }).click();
  await page.getByRole("button", { name: /^Reopen…/ }).waitFor();
  await page.keyboard.press("o");
  const dialog = page.getByRole("dialog", { name: "Take the decision back?" });
  await accessibleInThemes(page, "review-reopen");
  await dialog.getByRole("button", { name: "Reopen" }).click();
  await page.getByText("It waits for you again.").waitFor();
  await page.getByText(/^Taken back by/).waitFor();
  await armed(page);
  await page.keyboard.press("e");
  const edit = page.getByRole("textbox", { name: "Edited output" });
  await edit.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("Dear Anna.");
  await approveEdit(page);
  await undoEnds(page);
  await on.server.until(async () => (await on.item(one)).decision?.wasModified, "the right decision");
  await on.server.call("POST", `/api/hitl/${two}/approve`);
  const ended = await on.server.until(async () => {
    const now = await run();
    return now.status === "completed" && now;
  }, "the end");
  assert.equal(ended.steps.both.output, "Dear Anna. Dear Bob.");
  await close(page);
});

test("what used the output is said, and a correction stands beside the decision", async () => {
  await on.clear();
  const id = await on.held("A letter that was sent.");
  await on.server.call("POST", `/api/hitl/${id}/approve`, { comment: "a slip" });
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "A letter that was sent.");
  await page.getByRole("button", { name: /^Reopen…/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reopen" }).click();
  const dialog = page.getByRole("dialog", { name: "The decision stays" });
  await dialog.getByText(/^The task has ended, and whoever submitted it has the output/).waitFor();
  await accessibleInThemes(page, "review-used");
  await dialog.getByRole("button", { name: "Correct it" }).click();
  const beside = page.locator("[data-corrects]");
  await beside.getByText("a slip").waitFor();
  await armed(page);
  await page.keyboard.press("e");
  const edit = page.getByRole("textbox", { name: "Edited output" });
  await edit.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("The letter as it should be.");
  await approveEdit(page);
  await undoEnds(page);
  await on.server.until(async () => (await on.item(id)).decision, "the correction");
  await page.goto(`${on.server.url}/tasks/${id}`);
  const correction = page.locator('[data-correction="approved"]');
  await correction.getByText("The letter as it should be.").waitFor();
  const task = await on.server.call("GET", `/api/tasks/${id}`);
  assert.deepEqual([task.status, task.output], ["completed", "A letter that was sent."]);
  await accessibleInThemes(page, "task-corrected");
  await close(page);
});
