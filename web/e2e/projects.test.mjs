// Projects: one switches between them, each sees its own work only, and what one may do follows the role in it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { accessible, close, launch, live, loaded, looksOf, open, resize, shot } from "./support/browser.mjs";
import { approve, title, undoEnds } from "./support/review.mjs";
import { startServer } from "./support/server.mjs";
import { eventually, until } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

const LAPTOP = { width: 1366, height: 768 };
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let server;
let browser;
const workers = [];
let legal;
before(async () => {
  server = await startServer();
  browser = await launch();
});
after(async () => {
  for (const worker of workers) worker.stop();
  await browser?.close();
  await server?.stop();
});

const inLegal = (path) => `${path}${path.includes("?") ? "&" : "?"}project=${legal.id}`;
const call = (method, path, body) => server.call(method, inLegal(path), body);
const button = (page) => page.locator("[data-project]:visible");
const rows = (page, name) => page.getByRole("table", { name }).locator('[role="row"][aria-rowindex]');
const member = (email, role) => server.call("PUT", `/api/projects/${legal.id}/members/${email}`, { role });

/** The paths of the API that a page asks for without the project of its address. */
function astrayOf(page) {
  const astray = [];
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (!pathname.startsWith("/api/") || /^\/api\/auth\/(?!session|keys)/.test(pathname)) return;
    const named = request.headers()["callboard-project"] ?? searchParams.get("project");
    if (named !== legal.id) astray.push(pathname);
  });
  return astray;
}

/** A task of the project, or of `default`, whose output waits. */
async function held(say, project) {
  const of = project ? `?project=${project}` : "";
  const prompt = JSON.stringify({ say, confidence: 0.7 });
  const { id } = await server.call("POST", `/api/tasks${of}`, { prompt, hitl: { required: true } });
  await server.until(async () => (await server.answer("GET", `/api/hitl/${id}${of}`)).success, id);
  return id;
}

test("a server with one project shows none; an admin makes a second one, and then switches by the keyboard", async () => {
  const page = await open(browser, server, "/tasks");
  await resize(page, LAPTOP);
  await loaded(page);
  assert.equal(await page.locator("[data-project]").count(), 0);
  await page.keyboard.press("p");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await page.getByRole("link", { name: "Admin" }).click();
  await page.getByRole("link", { name: "Projects" }).click();
  await page.getByRole("button", { name: "New project" }).click();
  await page.getByLabel("Name").fill("Legal");
  await page.getByLabel("Description").fill("Contracts and claims of the legal department.");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Legal takes work. You are its first admin.").waitFor();
  legal = (await server.call("GET", "/api/projects")).find(({ name }) => name === "Legal");
  workers.push(await startWorker(server), await startWorker(server, { project: legal.id }));
  await button(page).getByText("default").waitFor();

  // Nothing but keys: open, down, in.
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
  await page.keyboard.press("p");
  const dialog = page.getByRole("dialog", { name: "Switch to another project" });
  await dialog.waitFor();
  await eventually(async () =>
    assert.match(await page.evaluate(() => document.activeElement.textContent), /default/),
  );
  await accessible(page, "the list of projects");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/admin?project=${legal.id}`);
  await button(page).getByText("Legal").waitFor();
  await live(page);
  assert.match(await page.title(), /Legal · Callboard$/);
  await close(page);
});

test("a task of one project is not in the other, and what happens is shown in its own only", async () => {
  const ofLegal = await open(browser, server, null);
  const sockets = [];
  const astray = astrayOf(ofLegal);
  ofLegal.on("websocket", (socket) => sockets.push(socket.url()));
  await ofLegal.goto(inLegal("/tasks"));
  const ofDefault = await open(browser, server, "/tasks");
  await Promise.all([live(ofLegal), live(ofDefault), loaded(ofLegal), loaded(ofDefault)]);
  assert.deepEqual(sockets, [`${server.url.replace("http", "ws")}/ws?project=${legal.id}`]);
  await call("POST", "/api/tasks", { title: "Claim 4711", prompt: "Read the claim." });
  await server.call("POST", "/api/tasks", { title: "Parcel 12", prompt: "Where is it?" });
  await ofLegal.getByRole("link", { name: "Claim 4711" }).waitFor();
  await ofDefault.getByRole("link", { name: "Parcel 12" }).waitFor();
  // An event of the other one would have come before that of a third task of its own.
  await call("POST", "/api/tasks", { title: "Claim 4712", prompt: "Read the claim." });
  await ofLegal.getByRole("link", { name: "Claim 4712" }).waitFor();
  for (const [page, foreign] of [
    [ofLegal, "Parcel 12"],
    [ofDefault, "Claim 4711"],
  ]) {
    assert.equal(await page.getByText(foreign).count(), 0);
    await page.reload();
    await loaded(page);
    assert.equal(await page.getByText(foreign).count(), 0);
  }

  // Through pages, filters and back, everything is asked for in the project that the address names.
  await ofLegal.getByRole("link", { name: "Claim 4711" }).click();
  await ofLegal.waitForURL(`**/tasks/*project=${legal.id}`);
  await ofLegal.goBack();
  await ofLegal.getByRole("combobox", { name: "Order" }).selectOption({ index: 1 });
  await ofLegal.waitForURL((url) => url.searchParams.size > 1);
  assert.equal(new URL(ofLegal.url()).searchParams.get("project"), legal.id);
  for (const name of [
    "Overview",
    "Review",
    "Executions",
    "Batches",
    "Workers",
    "Queues",
    "Models",
    "Insights",
  ]) {
    await ofLegal.getByRole("link", { name, exact: false }).first().click();
    await loaded(ofLegal);
    assert.equal(new URL(ofLegal.url()).searchParams.get("project"), legal.id, name);
  }
  assert.equal(await ofLegal.getByRole("button", { name: "Pause everything" }).count(), 0);
  assert.deepEqual(astray, []);
  await close(ofLegal);
  await close(ofDefault);
});

test("files and the stream of a task are read in their project", async () => {
  const upload = await fetch(`${server.url}${inLegal("/api/files?name=scan.png")}`, {
    method: "POST",
    headers: { authorization: `Bearer ${await server.token()}`, "content-type": "image/png" },
    body: Buffer.from(PNG, "base64"),
  });
  const { data: file } = await upload.json();
  const prompt = JSON.stringify({ hang: true });
  const { id } = await call("POST", "/api/tasks", { prompt, files: [file.id] });
  const page = await open(browser, server, null);
  const [stream] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname.endsWith("/stream")),
    page.goto(inLegal(`/tasks/${id}`)),
  ]);
  assert.equal(stream.status(), 200);
  const image = page.getByRole("img", { name: "scan.png" });
  await image.waitFor();
  await page.waitForFunction(() => document.querySelector(".file-picture")?.naturalWidth === 1);
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "scan.png" }).click(),
  ]);
  assert.equal(await saved.failure(), null);
  await call("DELETE", `/api/tasks/${id}`);
  await close(page);
});

test("a file becomes a batch of its project, and the exports are those of the project", async () => {
  await call("POST", "/api/templates", {
    name: "Read a claim",
    version: "1.0.0",
    industry: "legal",
    visibility: "organization",
    inputSchema: { type: "object", required: ["claim"], properties: { claim: { type: "string" } } },
    steps: [{ id: "read", prompt: "{{input.claim}}" }],
  });
  const page = await open(browser, server, null);
  const astray = astrayOf(page);
  await page.goto(inLegal("/batches/new"));
  await page.getByLabel("Template", { exact: true }).selectOption("Read a claim");
  const buffer = Buffer.from("claim\nAn umbrella.\nA broken window.\n");
  await page.getByLabel("File").setInputFiles({ name: "claims.csv", mimeType: "text/csv", buffer });
  await page.getByRole("button", { name: "Upload 2 rows" }).click();
  await page.waitForURL(new RegExp(`/batches/bat_.*project=${legal.id}`));
  await live(page);
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "CSV" }).click(),
  ]);
  assert.match(await readFile(await saved.path(), "utf8"), /A broken window/);
  await loaded(page);
  assert.deepEqual(astray, []);
  assert.equal((await server.call("GET", "/api/batches")).length, 0);
  await close(page);
});

test("an address that was copied opens the same project, after a sign-in too, and nothing to those outside of it", async () => {
  const eve = await server.user("operator", "eve@example.com");
  const { id } = await call("POST", "/api/tasks", { title: "Claim 4713", prompt: "Read the claim." });
  const page = await open(browser, server, inLegal(`/tasks/${id}`), { user: null });
  await page.getByLabel("E-mail").fill(eve.email);
  await page.getByLabel("Password").fill(eve.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "You have no role in this project" }).waitFor();
  assert.equal(await page.getByText("Claim 4713").count(), 0);
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await looksOf(page, "projects-none");
  await member(eve.email, "viewer");
  await page.reload();
  await page.getByRole("heading", { name: "Claim 4713" }).waitFor();
  await button(page).getByText("Legal").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("E-mail").fill(eve.email);
  await page.getByLabel("Password").fill(eve.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Claim 4713" }).waitFor();
  await close(page);
});

test("a decision is sent to the project of its output: after a lost network, from a page of another one, and at once", async () => {
  const late = await held("A claim that is decided without a network.", legal.id);
  const own = await held("A letter of the other project.");
  const page = await open(browser, server, inLegal(`/review/${late}`), { clock: true });
  await title(page, "A claim that is decided without a network.");
  assert.equal(await page.getByText("A letter of the other project.").count(), 0);
  await page.route("**/approve", (route) => route.abort());
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  const banner = page.locator('[data-outbox="1"]');
  await banner.waitFor();
  // Over to the other project: what waits goes along, and is sent from there.
  await button(page).click();
  await page.getByRole("dialog").getByRole("link", { name: "default" }).click();
  await page.waitForURL((url) => url.search === "");
  await title(page, "A letter of the other project.");
  await banner.waitFor();
  await page.unroute("**/approve");
  const [request] = await Promise.all([
    page.waitForRequest("**/approve"),
    page.getByRole("button", { name: "Send now" }).click(),
  ]);
  assert.equal(request.headers()["callboard-project"], legal.id);
  await banner.waitFor({ state: "detached" });
  assert.equal((await call("GET", `/api/hitl/${late}`)).decision.action ?? "approved", "approved");
  assert.equal((await server.call("GET", `/api/hitl/${own}`)).decision, undefined);

  // A page that is left sends what could still be undone.
  await approve(page);
  await page.getByText("It is sent in").waitFor();
  await button(page).click();
  await page.getByRole("dialog").getByRole("link", { name: "Legal" }).click();
  await page.waitForURL(`**/review*project=${legal.id}`);
  await server.until(async () => (await server.call("GET", `/api/hitl/${own}`)).decision, "the decision");
  await close(page);
});

test("drafts stay in their project", async () => {
  const page = await open(browser, server, inLegal("/tasks?submit=1"));
  await page.getByLabel("Prompt", { exact: true }).fill("A secret of the legal department.");
  await page.goto("/tasks?submit=1");
  await page.getByLabel("Prompt", { exact: true }).waitFor();
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "");
  await page.goto(inLegal("/tasks?submit=1"));
  await page.getByLabel("Prompt", { exact: true }).waitFor();
  assert.match(await page.getByLabel("Prompt", { exact: true }).inputValue(), /secret/);
  await close(page);
});

test("what one may do follows the role in the project; its admin gives roles, and takes them away", async () => {
  const bob = await server.user("viewer", "bob@example.com");
  const mia = await server.user("viewer", "mia@example.com");
  await member(bob.email, "admin");
  const page = await open(browser, server, "/tasks", { user: bob });
  await resize(page, LAPTOP);
  await loaded(page);
  assert.equal(await page.getByRole("button", { name: "Submit a task" }).count(), 0);
  await page.goto(inLegal("/tasks"));
  await page.getByRole("button", { name: "Submit" }).first().waitFor();
  await page.locator(".who").getByText("admin").waitFor();
  await page.getByRole("link", { name: "Admin" }).click();
  await loaded(page);
  const tabs = page.getByRole("navigation", { name: "Parts of the administration" });
  assert.deepEqual(await tabs.getByRole("link").allTextContents(), [
    "Projects",
    "Keys",
    "Sessions",
    "Deliveries",
  ]);
  await tabs.getByRole("link", { name: "Projects" }).click();
  assert.equal(await page.getByRole("button", { name: "New project" }).count(), 0);
  await page.getByRole("link", { name: "Legal" }).click();
  await page.getByRole("heading", { name: "Legal" }).waitFor();
  await page.getByRole("button", { name: "Add a member" }).click();
  await page.getByLabel("E-mail").fill("nobody@example.com");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("Nobody has an account with this e-mail.").waitFor();
  await page.getByLabel("E-mail").fill(mia.email);
  await page.getByLabel("Role", { exact: true }).selectOption("reviewer");
  await accessible(page, "adding a member");
  await shot(page, "projects-add");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("mia@example.com is reviewer of Legal from now on.").waitFor();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByLabel("Role of mia@example.com").selectOption("operator");
  await page.getByRole("button", { name: "Make operator" }).click();
  await page.getByText("mia@example.com is operator of Legal from now on.").waitFor();

  // Mia works in it, while her role is taken away.
  const other = await open(browser, server, inLegal("/tasks"), { user: mia });
  await live(other);
  await other.getByRole("button", { name: "Submit" }).first().waitFor();
  const row = rows(page, "Members").filter({ hasText: "mia@example.com" });
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByText("Keys of the project that the user answers for are revoked.").waitFor();
  await accessible(page, "removing a member");
  await shot(page, "projects-remove");
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByText("mia@example.com has no role in Legal any more.").waitFor();
  await other.getByRole("heading", { name: "You have no role in this project" }).waitFor();
  await other.getByRole("link", { name: "default" }).click();
  await other.waitForURL((url) => url.search === "");
  await other.getByRole("heading", { name: "Overview" }).waitFor();
  await loaded(other);
  assert.equal(await other.locator("[data-project]").count(), 0);
  await close(other);

  // A role that ends is no longer offered anything, without a reload.
  await member(bob.email, "viewer");
  await page.goto(inLegal("/tasks"));
  await loaded(page);
  assert.equal(await page.getByRole("button", { name: "Submit" }).count(), 0);
  await close(page);
});

test("an admin of the server without a role sees names, members and figures, and cannot open a project", async () => {
  const dan = await server.user("admin", "dan@example.com");
  const page = await open(browser, server, "/admin/projects", { user: dan });
  await resize(page, LAPTOP);
  await loaded(page);
  const row = rows(page, "Projects").filter({ hasText: "Contracts and claims" });
  assert.equal(await row.getByRole("link", { name: "Open" }).count(), 0);
  const own = rows(page, "Projects").filter({ hasText: "default" });
  for (const one of [row, own])
    await until(
      async () => (await one.locator('[data-column="tasks"]').textContent()) !== "–",
      "its figures",
    );
  // No project to switch to: the list is not offered.
  assert.equal(await page.locator("[data-project]").count(), 0);
  await page.getByRole("link", { name: "Legal" }).click();
  await page.getByText("ada@example.com").waitFor();
  await page.getByRole("button", { name: "Add a member" }).waitFor();
  await close(page);
});

test("a project is renamed and archived; its pages say so, and it takes no work", async () => {
  const page = await open(browser, server, "/admin/projects");
  const row = rows(page, "Projects").filter({ hasText: "Contracts and claims" });
  await row.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Name").fill("Legal department");
  await page.getByRole("button", { name: "Change" }).click();
  await page.getByRole("link", { name: "Legal department" }).waitFor();
  await row.getByRole("button", { name: "Archive" }).click();
  await page.getByText("It takes no new work: submissions are refused").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Archive" }).click();
  await page.getByText("Legal department is in the archive.").waitFor();
  await page.goto(inLegal("/tasks"));
  await page.locator("[data-archived]").waitFor();
  await looksOf(page, "projects-archived");
  await page.goto("/admin/projects");
  await row.getByRole("button", { name: "Take out" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Take it out" }).click();
  await page.getByText("Legal department takes work again.").waitFor();
  await close(page);
});

test("more than ten projects are searched", async () => {
  for (const name of [
    "Accounting",
    "Claims",
    "Fleet",
    "Harbour",
    "Imports",
    "Kitchen",
    "Labs",
    "Press",
    "Sales",
  ])
    await server.call("POST", "/api/projects", { name, description: `Work of ${name.toLowerCase()}.` });
  const page = await open(browser, server, "/tasks");
  await resize(page, LAPTOP);
  await button(page).waitFor();
  await page.keyboard.press("p");
  const search = page.getByRole("searchbox");
  await search.fill("harb work");
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.locator(".project-list a").count(), 1);
  await search.fill("nothing like it");
  await dialog.getByText("No project has all of these words.").waitFor();
  await search.fill("");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /default/);
  await looksOf(page, "projects-switch", "the list of projects");
  await search.fill("harbour");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/tasks\?project=/);
  await button(page).getByText("Harbour").waitFor();
  await close(page);
});

for (const locale of ["en-US", "de-DE"])
  test(`the pages of projects: light, dark, on a phone, at 200 %, at 360 px: ${locale}`, async () => {
    const page = await open(browser, server, "/admin/projects", { locale });
    await resize(page, LAPTOP);
    const pages = { list: "/admin/projects", members: `/admin/projects/${legal.id}`, here: inLegal("/") };
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(path);
      await loaded(page);
      await looksOf(page, `projects-${name}-${locale}`);
      for (const size of [
        { width: 683, height: 384 },
        { width: 360, height: 720 },
      ]) {
        await resize(page, size);
        await accessible(page, `${path} at ${size.width} px`);
        await shot(page, `projects-${name}-${locale}-${size.width}`);
      }
      await resize(page, LAPTOP);
    }
    await close(page);
  });

test("a project is deleted once its name is typed", async () => {
  await server.call("POST", "/api/projects", { name: "Short-lived" });
  const page = await open(browser, server, "/admin/projects");
  const row = rows(page, "Projects").filter({ hasText: "Short-lived" });
  await row.getByRole("button", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  const sure = dialog.getByRole("button", { name: "Delete" });
  await dialog.getByLabel("The project's name").fill("Short");
  assert.ok(await sure.isDisabled());
  await accessible(page, "deleting a project");
  await shot(page, "projects-delete");
  await dialog.getByLabel("The project's name").fill("Short-lived");
  await sure.click();
  await page.getByText("Short-lived is deleted.").waitFor();
  await row.waitFor({ state: "detached" });
  await close(page);
});
