// Deciding without a slip: quick keys, one message, reasons at hand, what is left to do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessibleInThemes, close, loaded, open, PHONE, resize, stopClock } from "./support/browser.mjs";
import { approve, armed, stage, title, undoEnds } from "./support/review.mjs";

const on = stage();

test("a key or a click that comes just after an item has appeared does not decide it", async () => {
  await on.clear();
  const ids = [await on.held("The first."), await on.held("The second."), await on.held("The third.")];
  const page = await open(on.browser, on.server, `/review/${ids[0]}`, { clock: true });
  await title(page, "The first.");
  await page.keyboard.press("j");
  await title(page, "The second.");
  await page.keyboard.press("k");
  await title(page, "The first.");
  await armed(page);
  // The page's clock stands, so that an item has just appeared for as long as the scenario looks.
  await stopClock(page);
  await approve(page);
  await title(page, "The second.");
  await page.evaluate(() => {
    for (let press = 0; press < 2; press++)
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", code: "KeyA", bubbles: true }));
  });
  await page.locator('[data-armed="true"]').waitFor({ state: "detached" });
  await page.getByRole("button", { name: /^Approve/ }).click();
  await page.getByText("Not decided: it had only just appeared.").waitFor();
  assert.match(page.url(), new RegExp(ids[1]));
  await page.clock.fastForward(300);
  await approve(page);
  await page.waitForURL(new RegExp(ids[2]));
  await page.clock.resume();
  await undoEnds(page);
  for (const id of ids.slice(0, 2)) assert.equal((await on.decided(id)).status, "approved");
  assert.equal((await on.item(ids[2])).decision, undefined);
  await close(page);
});

test("decisions in a row are one message, and the last is taken back", async () => {
  await on.clear();
  const ids = [];
  for (const name of ["one", "two", "three", "four"]) ids.push(await on.held(`Letter ${name}.`));
  const page = await open(on.browser, on.server, `/review/${ids[0]}`, { clock: true });
  for (const name of ["one", "two", "three"]) {
    await title(page, `Letter ${name}.`);
    await approve(page);
  }
  await page.getByText(/3 approved\. The last is sent in/).waitFor();
  assert.equal(await page.locator(".toast").count(), 1);
  await page.getByRole("button", { name: "Undo last" }).click();
  await title(page, "Letter three.");
  await page.getByText("Taken back: nothing was sent. 2 approved before it.").waitFor();
  assert.equal(await page.locator(".toast").count(), 1);
  await undoEnds(page);
  for (const id of ids.slice(0, 2)) assert.equal((await on.decided(id)).status, "approved");
  assert.equal((await on.item(ids[2])).decision, undefined);
  await close(page);
});

test("a rejection stands beside the output, with the reasons of before at hand", async () => {
  await on.clear();
  const [one, two] = [await on.held("A letter without a name."), await on.held("Another one.")];
  const page = await open(on.browser, on.server, `/review/${one}`, { clock: true });
  await title(page, "A letter without a name.");
  await armed(page);
  await page.keyboard.press("r");
  const panel = page.getByRole("dialog", { name: "Reject the output" });
  await page.keyboard.type("The name is missing.");
  const [text, side] = await Promise.all([page.locator(".review-panel").boundingBox(), panel.boundingBox()]);
  assert.ok(text.x + text.width <= side.x, "the output is not covered");
  await panel.getByRole("button", { name: "Reject Ctrl ↵" }).waitFor();
  await page.keyboard.press("Control+Enter");
  await title(page, "Another one.");
  await armed(page);
  await page.keyboard.press("r");
  // A letter on a button of the panel decides nothing.
  await panel.getByRole("button", { name: "The name is missing." }).focus();
  await page.keyboard.press("a");
  await loaded(page);
  assert.match(page.url(), new RegExp(two));
  await page.keyboard.press("Enter");
  assert.equal(await panel.getByRole("textbox", { name: "Reason" }).inputValue(), "The name is missing.");
  await accessibleInThemes(page, "review-reject");
  await resize(page, PHONE);
  await accessibleInThemes(page, "review-reject-phone");
  await panel.getByRole("button", { name: "Reject Ctrl ↵" }).click();
  await undoEnds(page);
  assert.equal((await on.decided(two)).comment, "The name is missing.");
  await close(page);
});

test("whose an item is stands in a sentence, and an empty list says what is done and what waits for others", async () => {
  await on.clear();
  const carl = await on.server.user("operator", "carl@example.com");
  const ids = [await on.held("For one."), await on.held("For the other.")];
  const { user } = await on.server.call("GET", "/api/auth/session", undefined, await on.server.token(carl));
  const items = await Promise.all(ids.map(on.item));
  const mine = items.find(({ assignedTo }) => assignedTo === user.id).taskId;
  const other = ids.find((id) => id !== mine);
  const page = await open(on.browser, on.server, `/review/${other}`, { user: carl, clock: true });
  await page
    .getByText(/^The caller asked for a review\. Held .* Assigned to ada .*; you may decide it too\./)
    .waitFor();
  await page.goto(`/review/${mine}?mine=1`);
  await page.getByText(/Assigned to you .*ago\./).waitFor();
  await approve(page);
  await undoEnds(page);
  await on.decided(mine);
  await page.getByText("All done: 1 output today").waitFor();
  await page.getByText("1 output waits for others. You may decide it too.").waitFor();
  assert.equal(await page.getByText("callboard tasks submit").count(), 0);
  await accessibleInThemes(page, "review-done");
  await page.getByRole("button", { name: "Show what waits for others" }).click();
  await title(page, other === ids[0] ? "For one." : "For the other.");
  await close(page);
});

test("on a phone a comment stands behind a button, and the buttons are whole", async () => {
  await on.clear();
  const id = await on.held("A letter to comment on.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true, phone: true });
  await title(page, "A letter to comment on.");
  await page.getByRole("button", { name: "Comment" }).click();
  await page.getByRole("textbox", { name: "Comment" }).fill("Well said.");
  await accessibleInThemes(page, "review-comment-phone");
  for (const name of ["Skip", "Reject…", "Approve"]) {
    const cut = await page
      .getByRole("button", { name })
      .evaluate((it) => it.scrollWidth > it.clientWidth || it.getBoundingClientRect().right > innerWidth);
    assert.equal(cut, false, name);
  }
  await armed(page);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  assert.equal((await on.decided(id)).comment, "Well said.");
  await close(page);
});
