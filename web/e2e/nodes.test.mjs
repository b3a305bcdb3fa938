// Storage and nodes: backups as the audit log has them, what is kept, and the nodes of a cluster.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { accessible, close, launch, looksOf, open, resize, shot, WINDOW } from "./support/browser.mjs";
import { program, startServer } from "./support/server.mjs";
import { eventually } from "./support/wait.mjs";

const NARROW = { width: 360, height: 800 };
let server;
let browser;
before(async () => {
  server = await startServer({ RETENTION__ENDED: "45d" });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the storage page says when the last backup began, and how long things are kept", async () => {
  const page = await open(browser, server, "/admin/storage");
  await page.getByText("no backup was read from this server").waitFor();
  await page.getByText("45d").waitFor();
  const directory = await mkdtemp(join(tmpdir(), "callboard-backup-"));
  const { key } = await server.call("POST", "/api/auth/keys", { name: "backups", role: "admin" });
  const env = {
    PATH: process.env.PATH,
    HOME: directory,
    CALLBOARD_SERVER: server.url,
    CALLBOARD_API_KEY: key,
  };
  const backup = (...args) =>
    promisify(execFile)(program, ["backup", ...args, "--in", join(directory, "backups")], { env });
  await backup("init");
  await backup("create");
  await page.reload();
  await page.getByText("no backup was verified yet").waitFor();
  await backup("verify", "--quick");
  await page.reload();
  await page.getByText("Every checksum is right, and no restore was tried").waitFor();
  await backup("verify");
  await page.reload();
  await page.getByText("It restores").waitFor();
  const chunks = join(directory, "backups", "chunks");
  const [folder] = await readdir(chunks);
  const [chunk] = await readdir(join(chunks, folder));
  await writeFile(join(chunks, folder, chunk), "damage");
  await assert.rejects(backup("verify"));
  await page.reload();
  await page.getByText("It is damaged").waitFor();
  await shot(page, "storage-damaged");
  await rm(join(directory, "backups"), { recursive: true });
  await backup("init");
  await backup("create");
  await backup("verify");
  await rm(directory, { recursive: true });
  await page.reload();
  await page.getByText(/the last one began/).waitFor();
  await page.getByText(/Can be restored to the moment/).waitFor();
  assert.equal(await page.getByRole("list", { name: "Backups" }).getByRole("listitem").count(), 2);
  const kinds = page.getByRole("table").filter({ hasText: "Kind of data" });
  await kinds.getByRole("row", { name: /Audit log/ }).waitFor();
  await page.getByText(/in all, of every project/).waitFor();
  await looksOf(page, "storage");
  await resize(page, NARROW);
  await accessible(page, "storage at 360 px");
  await shot(page, "storage-narrow");
  await resize(page, WINDOW);
  await close(page);
});

test("a server of its own says that it is no node, and the nodes of a cluster are drained", async () => {
  const page = await open(browser, server, "/admin/nodes");
  await page.getByText("This server is no node of a cluster").waitFor();
  await accessible(page, "no cluster");
  // The answers of a cluster of three, as the document has them: this server has none.
  const node = (id, status, partitions, more) => ({
    id: id.repeat(32),
    address: `http://10.0.0.${id}:8080`,
    status,
    partitions,
    expiresInMs: 4200,
    termMs: 10_000,
    lastHeardMs: 5800,
    version: "1.0.0",
    draining: false,
    ...more,
  });
  const nodes = [
    node("1", "active", 256),
    node("2", "standby", 0, { version: "1.1.0" }),
    node("3", "lost", 0, { expiresInMs: 0, lastHeardMs: 95_000 }),
  ];
  const asked = [];
  await page.route("**/api/cluster*", (route) =>
    route.fulfill({
      json: {
        success: true,
        data: nodes,
        pagination: { total: 3, limit: 100, offset: 0, hasMore: false },
        meta: { requestId: "r", timestamp: new Date().toISOString() },
      },
    }),
  );
  await page.route("**/api/cluster/nodes/*", (route) => {
    asked.push(route.request().postDataJSON());
    nodes[0].draining = true;
    return route.fulfill({
      json: { success: true, data: nodes[0], meta: { requestId: "r", timestamp: "" } },
    });
  });
  await page.reload();
  await page.getByText("256 of 256").waitFor();
  await page.getByText("2 versions").waitFor();
  await page.getByText("4.2 s of 10 s").first().waitFor();
  await page.getByText("5.8 s", { exact: true }).first().waitFor();
  await looksOf(page, "nodes");
  await resize(page, NARROW);
  await accessible(page, "nodes at 360 px");
  await shot(page, "nodes-narrow");
  await resize(page, WINDOW);
  await page.getByRole("button", { name: "Drain" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await page.getByRole("button", { name: "Take work again" }).waitFor();
  await eventually(async () => assert.deepEqual(asked, [{ draining: true }]));
  await close(page);
});
