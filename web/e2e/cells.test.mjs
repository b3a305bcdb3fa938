// Two cells: where a project lives, its move to another one, and a move that is given up.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  accessible,
  close,
  launch,
  loaded,
  looksOf,
  open,
  resize,
  shot,
  WINDOW,
} from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";

const NARROW = { width: 360, height: 800 };
const CLUSTER__KEY = "a key that all cells of this company share";
let home;
let berlin;
let browser;
let claims;

before(async () => {
  home = await startServer({ CLUSTER__KEY });
  const cell = { CLUSTER__KEY, CLUSTER__CELL: "berlin", CLUSTER__HOME: home.url };
  berlin = await startServer(cell, { admin: false });
  await home.call("POST", "/api/cells", { name: "berlin", nodes: [berlin.url] });
  await follows();
  const description = "Damage to buildings, north.";
  claims = await home.call("POST", "/api/projects", { name: "Claims", description, cell: "home" });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await berlin?.stop();
  await home?.stop();
});

const follows = () =>
  home.until(async () => {
    const [, cell] = await home.call("GET", "/api/cells");
    return cell.status === "following";
  }, "berlin behind home");
const where = (page) => page.getByRole("region", { name: "Cell" });
async function begin(page) {
  await where(page).getByRole("button", { name: "Move it to another cell" }).click();
  const dialog = page.getByRole("dialog", { name: "Move Claims to another cell" });
  await dialog.getByRole("combobox", { name: "Cell" }).selectOption("berlin");
  return dialog;
}

test("a move to a cell that does not answer stands still, says so, and is given up", async () => {
  const page = await open(browser, home, `/admin/projects/${claims.id}`);
  await where(page).getByText("It lives in the cell home.").waitFor();
  const dialog = await begin(page);
  await dialog.getByText("Requests for it are refused meanwhile").waitFor();
  await looksOf(page, "cell-move");
  await resize(page, NARROW);
  await accessible(page, "the move of a project at 360 px");
  await shot(page, "cell-move-narrow");
  await resize(page, WINDOW);
  // Home takes the move, for it has heard of the cell a moment ago.
  await berlin.kill();
  await dialog.getByRole("button", { name: "Move it" }).click();
  await where(page).getByText("It moves to berlin").waitFor();
  await where(page)
    .getByText(/Begun by you/)
    .waitFor();
  await where(page).getByText("berlin does not answer.").waitFor();
  await resize(page, NARROW);
  await accessible(page, "a project that moves at 360 px");
  await shot(page, "cell-moves-narrow");
  await resize(page, WINDOW);
  await shot(page, "cell-moves");

  await where(page).getByRole("button", { name: "Give the move up" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Give it up" }).click();
  await where(page)
    .getByText(/A move to berlin was given up by you/)
    .waitFor();
  await page.getByText("Claims stays in home.").waitFor();
  await where(page).getByRole("button", { name: "Move it to another cell" }).click();
  const answering = page.getByRole("combobox", { name: "Cell" });
  assert.equal(await answering.inputValue(), "");
  assert.ok(await page.getByRole("button", { name: "Move it", exact: true }).isDisabled());
  await close(page);
});

test("a project moves with its work while its own page is open, and the page says that it is there", async () => {
  const of = `project=${claims.id}`;
  const { id } = await home.call("POST", `/api/tasks?${of}`, { title: "Claim 4711", prompt: "Read it." });
  await berlin.kill();
  await berlin.start();
  await follows();
  const page = await open(browser, home, `/admin/projects/${claims.id}?${of}`);
  const dialog = await begin(page);
  await dialog.getByRole("button", { name: "Move it" }).click();
  await dialog.waitFor({ state: "detached" });
  await where(page).getByText("It lives in the cell berlin.").waitFor();
  await where(page).getByText("Moved here from home").waitFor();
  await page.getByText("Claims is in berlin now.").waitFor();
  await looksOf(page, "cell-moved");
  await page.goto(`/tasks/${id}?${of}`);
  await page.getByRole("heading", { name: "Claim 4711" }).waitFor();
  await page.goto("/admin/projects");
  await loaded(page);
  await page
    .getByRole("row", { name: /Claims/ })
    .getByText("berlin")
    .waitFor();
  await close(page);
});

test("an admin of the project who is none of the server is told of no cell", async () => {
  const member = await home.user("operator");
  await home.call("PUT", `/api/projects/${claims.id}/members/${member.email}`, { role: "admin" });
  const page = await open(browser, home, `/admin/projects/${claims.id}?project=${claims.id}`, {
    user: member,
  });
  await page.getByRole("heading", { name: "Claims" }).waitFor();
  await loaded(page);
  assert.equal(await where(page).count(), 0);
  await close(page);
});
