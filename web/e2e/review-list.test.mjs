// The list and the open item: what is open is marked, or cannot be decided.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, accessibleInThemes, close, loaded, open, shot } from "./support/browser.mjs";
import { approve, stage, title, undoEnds } from "./support/review.mjs";

const on = stage();
const armed = (page, is = true) => page.locator(`[data-armed="${is}"]`).waitFor();

test("a search that hides the open item takes its actions away, and says so", async () => {
  await on.clear();
  const [wrong, meant] = [await on.held("The letter to Ann."), await on.held("The letter to Bob.")];
  const page = await open(on.browser, on.server, `/review/${wrong}`, { clock: true });
  await title(page, "The letter to Ann.");
  await armed(page);
  await page.getByRole("searchbox", { name: "Search" }).fill("bob");
  await armed(page, false);
  await page.getByText("This output is not in the list").waitFor();
  await accessibleInThemes(page, "review-unlisted");
  for (const name of ["Approve", "Reject"])
    assert.equal(await page.getByRole("button", { name }).first().isDisabled(), true, name);
  await page.locator(".review-title").click();
  for (const key of ["a", "r"]) await page.keyboard.press(key);
  await loaded(page);
  assert.equal(await page.getByRole("dialog").count(), 0);
  await undoEnds(page);
  assert.equal((await on.item(wrong)).decision, undefined);
  // Enter in the search opens what was found.
  await page.getByRole("searchbox", { name: "Search" }).press("Enter");
  await title(page, "The letter to Bob.");
  await page.locator(`[data-task="${meant}"][data-current="true"]`).waitFor();
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  assert.equal((await on.decided(meant)).status, "approved");
  assert.equal((await on.item(wrong)).decision, undefined);
  await close(page);
});

test("so does a list of one's own items, until its filter is cleared", async () => {
  await on.clear();
  // The next item is the other reviewer's: the one with the fewest has it.
  await on.server.user("operator", "carl@example.com");
  const ids = [await on.held("One."), await on.held("Two.")];
  const { user } = await on.server.call("GET", "/api/auth/session");
  const others = (await Promise.all(ids.map(on.item))).find(({ assignedTo }) => assignedTo !== user.id);
  const page = await open(on.browser, on.server, `/review/${others.taskId}`, { clock: true });
  await armed(page);
  await page.getByLabel("Assigned to me").check();
  await page.getByText("This output is not in the list").waitFor();
  await armed(page, false);
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.locator(`[data-task="${others.taskId}"][data-current="true"]`).waitFor();
  await armed(page);
  await page.getByLabel("Assigned to me").check();
  await page.getByRole("button", { name: "Open the first of the list" }).click();
  await armed(page);
  assert.doesNotMatch(page.url(), new RegExp(others.taskId));
  await close(page);
});

test("an output is decided only once the list is there, which says what comes next", async () => {
  await on.clear();
  const [oldest, letter, next] = [
    await on.held("The oldest."),
    await on.held("A letter."),
    await on.held("Then this."),
  ];
  const page = await open(on.browser, on.server, null, { clock: true });
  let give;
  const given = new Promise((done) => {
    give = done;
  });
  await page.route(/\/api\/hitl\/pending\?.*limit=100/, async (route) => {
    await given;
    await route.continue();
  });
  await page.goto(`/review/${letter}`);
  await page.locator(".review-panel").getByText("A letter.").first().waitFor();
  await page.clock.fastForward(300);
  await armed(page, false);
  await page.keyboard.press("a");
  give();
  await approve(page);
  await page.waitForURL(new RegExp(next));
  await title(page, "Then this.");
  await undoEnds(page);
  assert.equal((await on.decided(letter)).status, "approved");
  assert.equal((await on.item(oldest)).decision, undefined);
  await close(page);
});

test("outputs that a filter hides are not approved together with those that are shown", async () => {
  await on.clear();
  const steps = ["Ann", "Bob", "Cleo"].map((who) => ({
    id: `to-${who}`.toLowerCase(),
    prompt: JSON.stringify({ say: `A letter to ${who}.`, confidence: 0.5 }),
    requiresApproval: true,
  }));
  const plan = await on.server.call("POST", "/api/plans", { name: "letters", steps });
  await on.server.call("POST", `/api/plans/${plan.id}/execute`, {});
  await on.server.until(async () => (await on.server.call("GET", "/api/hitl/pending")).length === 3);
  const page = await open(on.browser, on.server, "/review", { clock: true });
  await page.locator(".review-item").nth(2).waitFor();
  for (const box of await page.locator(".review-item input").all()) await box.check();
  await page.getByText("3 selected", { exact: true }).waitFor();
  await page.getByRole("searchbox", { name: "Search" }).fill("bob");
  await page.getByText("1 selected, 2 more hidden").waitFor();
  await page.getByRole("button", { name: "Approve 1…" }).waitFor();
  await close(page);
});

test("what was decided is found by its decider, its decision and its words", async () => {
  await on.clear();
  const [one, two] = [await on.held("A parcel for Ann."), await on.held("A letter for Bob.")];
  const other = await on.server.user("reviewer");
  const page = await open(on.browser, on.server, `/review/${one}`, { user: other, clock: true });
  await title(page, "A parcel for Ann.");
  await approve(page);
  await undoEnds(page);
  await on.decided(one);
  await on.server.call("POST", `/api/hitl/${two}/reject`, { reason: "The address is old." });
  await page.getByRole("link", { name: "Decided" }).click();
  await page.getByRole("heading", { name: "Decided" }).waitFor();
  const rows = page.getByRole("table", { name: "Decided outputs" }).getByRole("row");
  const row = (text) => rows.filter({ hasText: text });
  await row("A letter for Bob.").waitFor();
  await row("A parcel for Ann.").filter({ hasText: "you" }).waitFor();
  // The latest decision comes first, whenever it was held.
  assert.match(await rows.nth(1).innerText(), /A letter for Bob\./);
  await accessible(page);
  await shot(page, "review-decided");
  await page.getByLabel("By me").check();
  await row("A letter for Bob.").waitFor({ state: "detached" });
  await row("A parcel for Ann.").waitFor();
  await page.getByLabel("By me").uncheck();
  await page.getByLabel("Search").fill("address is old");
  await row("A parcel for Ann.").waitFor({ state: "detached" });
  await row("A letter for Bob.").click();
  await page.waitForURL(new RegExp(two));
  await page.getByText("The address is old.").first().waitFor();
  await close(page);
});

test("an old decision is found by its tag, which the server searches, and an open output gets more time", async () => {
  await on.clear();
  const tagged = await on.held("Seen once.", { tags: ["harbour-17"] });
  await on.server.call("POST", `/api/hitl/${tagged}/approve`);
  await on.decided(tagged);
  const waits = await on.held("It needs a lawyer.");
  const page = await open(on.browser, on.server, "/review/decided");
  const answered = page.waitForResponse(
    (it) => new URL(it.url()).searchParams.get("search") === "harbour-17",
  );
  await page.getByLabel("Search").fill("harbour-17");
  const { data } = await (await answered).json();
  assert.deepEqual(
    data.map(({ taskId }) => taskId),
    [tagged],
  );
  const rows = page.getByRole("table", { name: "Decided outputs" }).getByRole("row");
  await rows.filter({ hasText: "Seen once." }).waitFor();
  assert.equal(await rows.count(), 2, "the head, and the one that is found");
  await page.goto(`/review/${waits}`);
  await title(page, "It needs a lawyer.");
  await page.getByRole("button", { name: "Extend" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Time from now on").selectOption("3 days");
  await dialog.getByLabel("Reason").fill("The lawyer is away.");
  await accessible(page, "the question about more time");
  await shot(page, "review-extend");
  await dialog.getByRole("button", { name: "Extend" }).click();
  await page.getByText("It is due in").waitFor();
  const { timeoutAt } = await on.item(waits);
  const hours = (Date.parse(timeoutAt) - Date.now()) / 3_600_000;
  assert.ok(hours > 71 && hours <= 72, `${hours} h`);
  await page.getByText("The lawyer is away.").first().waitFor();
  await close(page);
});
