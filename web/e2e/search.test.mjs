// Everything is found from one place, by keys and on a phone, and filters are kept as views that a team shares.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, launch, loaded, looksOf, open, resize, shot } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

const LAPTOP = { width: 1366, height: 768 };
const rows = (page) => page.locator("[role=row][data-key]");
let server;
let browser;
let worker;
before(async () => {
  server = await startServer();
  browser = await launch();
  const answer = (task) => ({
    say: `${task.prompt} Your reference is Aquamarine 77, as agreed on the phone.`,
  });
  worker = await startWorker(server, { answer });
  await server.call("POST", "/api/templates", {
    name: "Claim letters",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties: { who: { type: "string" } }, required: ["who"] },
    steps: [{ id: "letter", prompt: "Write to {{input.who}} about the damage." }],
  });
  for (const who of ["Anna Müller", "Ben Okafor"])
    await server.call("POST", "/api/templates/claim-letters-v1/deploy", {
      input: { who },
      title: `Claim of ${who}`,
      tags: [`customer:${who.split(" ")[0]}`],
    });
  await server.call("POST", "/api/tasks", {
    prompt: "Sum up what Müller wrote.",
    title: "Summary",
    queue: "night",
  });
  await server.until(
    async () => (await server.call("GET", "/api/search?q=aquamarine")).hits.length === 2,
    "two outputs",
  );
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

test("names and texts are found from one place, by keys alone, and on a phone", async () => {
  const page = await open(browser, server, "/executions");
  await resize(page, LAPTOP);
  await rows(page).nth(1).waitFor();
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog", { name: "Search everything" });
  const field = dialog.getByRole("searchbox");
  await field.fill("müll");
  const executions = dialog.getByRole("region", { name: "Executions" });
  await executions.getByRole("link", { name: /Claim of Anna Müller/ }).waitFor();
  const texts = dialog.getByRole("region", { name: "In texts" });
  await texts.locator("mark", { hasText: "Müll" }).nth(1).waitFor();
  await texts.getByText(/Searched back to/).waitFor();
  await accessible(page, "the search of everything");
  await looksOf(page, "search-everything");
  // Enter opens the first result; the arrows lead to the others.
  await field.press("ArrowDown");
  await field.press("ArrowDown");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("Control+k");
  await field.fill("aquamarine okafor");
  await texts.locator("mark", { hasText: "Aquamarine" }).first().waitFor();
  await field.press("Enter");
  await page.waitForURL(/\/executions\/dt_exec_\w+\?step=letter/);
  await page.getByText("Aquamarine 77").first().waitFor();
  await page.keyboard.press("/");
  await field.fill("zirconium");
  await dialog.getByText("No text has all of these words.").waitFor();
  await page.keyboard.press("Escape");
  await close(page);

  const phone = await open(browser, server, "/tasks", { phone: true });
  await phone.getByRole("button", { name: "Search everything" }).first().click();
  await phone.getByRole("searchbox", { name: "Search everything" }).fill("müller");
  await phone.locator("mark").first().waitFor();
  await accessible(phone, "the search of everything on a phone");
  await shot(phone, "search-everything-phone");
  await phone
    .getByRole("dialog")
    .getByRole("link", { name: /Summary/ })
    .first()
    .click();
  await phone.waitForURL(/\/tasks\/dt_task_/);
  await close(phone);
});

test("filters are chips that can be taken away, and a view keeps them for the team", async () => {
  const page = await open(browser, server, "/executions?status=completed,failed&tags=customer:Anna");
  await resize(page, LAPTOP);
  await page.getByText("1 execution", { exact: true }).waitFor();
  const chips = page.getByRole("list", { name: "Filters that are set" }).getByRole("button");
  assert.equal(await chips.count(), 3);
  const top = async () => (await rows(page).first().boundingBox()).y;
  const before = await top();
  await page.getByRole("button", { name: "Take away the filter Status failed" }).click();
  await page.waitForURL(/status=completed&/);
  assert.equal(await chips.count(), 2);
  await page.getByRole("button", { name: "Save view…" }).click();
  const save = page.getByRole("dialog", { name: "Save this view" });
  await save.getByRole("textbox", { name: "Name" }).fill("Claims of Anna");
  await save.getByRole("checkbox").check();
  await accessible(page, "a view that is saved");
  await shot(page, "view-save");
  await save.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Claims of Anna" }).waitFor();
  await accessible(page, "a list with chips and a view");
  await looksOf(page, "view-chips");
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.getByText("2 executions", { exact: true }).waitFor();
  await loaded(page);
  assert.equal(await top(), before, "the list stays where it is");
  await close(page);

  // Another one of the team opens it, and cannot change it.
  const viewer = await server.user("viewer");
  const theirs = await open(browser, server, "/executions", { user: viewer });
  await rows(theirs).nth(1).waitFor();
  await theirs.getByRole("button", { name: "Views" }).click();
  const views = theirs.getByRole("dialog", { name: "Views" });
  await views.getByText("shared").waitFor();
  assert.equal(await views.getByRole("button", { name: /Delete/ }).count(), 0);
  await views.getByRole("link", { name: /Claims of Anna/ }).click();
  await theirs.getByText("1 execution", { exact: true }).waitFor();
  await close(theirs);

  const own = await open(browser, server, "/executions?status=failed");
  await own.getByRole("button", { name: "Views" }).click();
  await own.getByRole("button", { name: "Make Claims of Anna private" }).click();
  await own.getByRole("button", { name: "Share Claims of Anna" }).waitFor();
  await own.getByRole("button", { name: "Rename Claims of Anna" }).click();
  const field = own.getByRole("textbox", { name: "Name of Claims of Anna" });
  await field.press("Escape");
  await own.getByRole("button", { name: "Rename Claims of Anna" }).click();
  await accessible(own, "a view that is renamed");
  await looksOf(own, "view-rename");
  await field.fill("Anna's claims");
  await field.press("Enter");
  await own.getByRole("link", { name: "Anna's claims" }).waitFor();
  await accessible(own, "the views of a list");
  await shot(own, "views");
  await own.getByRole("button", { name: "Delete Anna's claims" }).click();
  await own.getByText("No view of this list is saved yet.").waitFor();
  await close(own);
});

test("each list that has filters has chips and views", async () => {
  const lists = [
    ["/templates?search=claim&industry=custom&visibility=organization", 3],
    ["/plans?search=claim", 1],
    ["/schedules?state=paused", 1],
    ["/batches?status=running", 1],
    ["/review/decided?q=anna&verdict=approved&mine=1", 3],
    ["/admin/deliveries?status=dead", 1],
    ["/admin/audit?action=key.created&since=2026-01-01&until=2999-12-31", 3],
  ];
  const page = await open(browser, server, "/templates");
  await resize(page, LAPTOP);
  for (const [path, count] of lists) {
    await page.goto(`${server.url}${path}`);
    const chips = page.getByRole("list", { name: "Filters that are set" }).getByRole("button");
    await chips.nth(count - 1).waitFor();
    assert.equal(await chips.count(), count, path);
    await loaded(page);
    const name = path.slice(1).split("?")[0].replace("/", "-");
    await accessible(page, `${name} with chips`);
    await looksOf(page, `chips-${name}`);
    await page.getByRole("button", { name: "Save view…" }).click();
    await page
      .getByRole("dialog")
      .getByRole("textbox", { name: "Name" })
      .fill(`View of ${path.slice(0, 9)}`);
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await chips.first().waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Views" }).click();
    await page.getByRole("dialog").getByRole("link").click();
    await chips.nth(count - 1).waitFor();
  }
  await close(page);
});
