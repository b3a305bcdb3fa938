// Decisions that the server does not answer: kept by the browser, said on every page, sent once it is back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessibleInThemes, close, live, open } from "./support/browser.mjs";
import { approve, approveEdit, armed, stage, title, undoEnds } from "./support/review.mjs";

const on = stage();
const waits = (page, many) => page.locator(`[data-outbox="${many}"]`).waitFor();
const sent = (page) => page.locator("[data-outbox]").waitFor({ state: "detached" });

test("what is decided without a network is kept, said, and sent when it is back; an edit that came late is kept", async () => {
  await on.clear();
  const bob = await on.server.user("operator", "bob@example.com");
  const ids = [await on.held("Letter one."), await on.held("Letter two."), await on.held("Letter three.")];
  const page = await open(on.browser, on.server, "/", { clock: true });
  await page.getByText("Waiting for a reviewer").waitFor();
  await page
    .getByRole("link", { name: /^Review/ })
    .first()
    .click();
  // Each was read before, and the editor too.
  await title(page, "Letter one.");
  await armed(page);
  for (const [key, name] of Object.entries({ 1: "two", 2: "three" })) {
    await page.keyboard.press("j");
    await title(page, `Letter ${name}.`);
    assert.ok(page.url().includes(ids[key]));
  }
  await page.keyboard.press("e");
  await page.getByRole("textbox", { name: "Edited output" }).waitFor();
  await page.keyboard.press("Escape");
  await page.goBack();
  await page.goBack();
  await title(page, "Letter one.");
  await live(page);
  await page.context().setOffline(true);
  // The page says at once that it is cut off.
  await page.locator('[data-live="live"]').waitFor({ state: "detached" });
  await approve(page);
  await title(page, "Letter two.");
  await page.keyboard.press("e");
  await page.getByRole("textbox", { name: "Edited output" }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Letter two, by Ada.");
  await approveEdit(page);
  await undoEnds(page);
  await waits(page, 2);
  await title(page, "Letter three.");
  await accessibleInThemes(page, "review-outbox");
  // Somebody else decides one of them meanwhile.
  const token = await on.server.token(bob);
  await on.server.call("POST", `/api/hitl/${ids[1]}/reject`, { reason: "Bob was first." }, token);
  await page.getByRole("link", { name: "Overview" }).click();
  await waits(page, 2);
  await page.context().setOffline(false);
  await sent(page);
  assert.equal((await on.decided(ids[0])).status, "approved");
  assert.equal((await on.decided(ids[1])).comment, "Bob was first.");
  assert.equal((await on.item(ids[2])).decision, undefined);
  await page.goto(`/review/${ids[1]}`);
  await page.getByText("Your edit was not used").waitFor();
  await page.locator("[data-unused]").getByText("Letter two, by Ada.").waitFor();
  await page.getByRole("button", { name: "Copy" }).waitFor();
  await accessibleInThemes(page, "review-unused");
  await page.getByRole("button", { name: "Discard", exact: true }).click();
  await page.getByText("Your edit was not used").waitFor({ state: "detached" });
  await close(page);
});

test("what is decided after the session has ended is sent once its user is back, and by nobody else", async () => {
  await on.clear();
  const [ann, ben] = [
    await on.server.user("operator", "ann@example.com"),
    await on.server.user("operator", "ben@example.com"),
  ];
  const id = await on.held("Decided too late.");
  const page = await open(on.browser, on.server, `/review/${id}`, { user: ann, clock: true });
  await title(page, "Decided too late.");
  await armed(page);
  // The cookie is gone; the page does not know it yet.
  await page.context().clearCookies();
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  for (const user of [ben, ann]) {
    await page.getByLabel("E-mail").fill(user.email);
    await page.getByLabel("Password").fill(user.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    if (user === ann) break;
    await title(page, "Decided too late.");
    await live(page);
    assert.equal((await on.item(id)).decision, undefined);
    await page.getByRole("button", { name: "Sign out" }).click();
  }
  const { user: who } = await on.server.call(
    "GET",
    "/api/auth/session",
    undefined,
    await on.server.token(ann),
  );
  assert.equal((await on.decided(id)).by, who.id);
  await sent(page);
  await close(page);
});

test("what was kept outlives the page, and is sent when the dashboard is opened again", async () => {
  await on.clear();
  const id = await on.held("Closed too early.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Closed too early.");
  await page.route("**/approve", (route) => route.abort());
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  await waits(page, 1);
  await page.goto("about:blank");
  assert.equal((await on.item(id)).decision, undefined);
  await page.unroute("**/approve");
  await page.goto("/");
  assert.equal((await on.decided(id)).status, "approved");
  await sent(page);
  await close(page);
});

test("a decision that arrived, but whose answer was lost, counts once and is no surprise", async () => {
  await on.clear();
  const id = await on.held("Answered into the void.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Answered into the void.");
  let tries = 0;
  await page.route("**/approve", async (route) => {
    tries++;
    if (tries > 1) return route.continue();
    await route.fetch();
    await route.abort();
  });
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  await on.decided(id);
  await waits(page, 1);
  await page.getByRole("button", { name: "Send now" }).click();
  await sent(page);
  assert.equal(tries, 2);
  assert.equal(await page.getByText("was decided already").count(), 0);
  const history = await on.server.call("GET", `/api/hitl/${id}/history`);
  assert.equal(history.filter(({ action }) => action === "approved").length, 1);
  await close(page);
});
