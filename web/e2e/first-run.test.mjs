// The first minutes: the example that waits, the setup link, single sign-on.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { accessible, close, launch, live, open, shot } from "./support/browser.mjs";
import { program, startServer } from "./support/server.mjs";
import { allowed } from "./support/wait.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

test("callboard dev prints a link that opens the dashboard, where a review waits", async (context) => {
  const server = await startServer({}, { admin: false, command: ["dev", "--simulated"] });
  context.after(() => server.stop());
  const began = Date.now();
  const [, url] = await server.line(/dashboard\s+(http:\S+)/);
  const page = await open(browser, server, url, { user: null });
  await page.getByRole("button", { name: /^Sign in as / }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.locator(".home-list li").first().waitFor();
  assert.ok(Date.now() - began < allowed(5_000), `${Date.now() - began} ms`);
  await page.getByRole("link", { name: "Review all" }).click();
  await page.locator('[data-chain="ok"]').waitFor();
  await page.getByText("Answer this customer in two short sentences").first().waitFor();
  await shot(page, "first-run");
  await close(page);
});

test("the setup link makes the first admin and signs it in", async (context) => {
  const server = await startServer({}, { admin: false });
  context.after(() => server.stop());
  const [, url] = await server.line(/^setup at (\S+)/);
  const bare = await open(browser, server, "/", { user: null });
  await bare.getByText("There is no admin yet.").waitFor();
  await accessible(bare);
  await close(bare);
  const page = await open(browser, server, url, { user: null });
  await page.getByRole("heading", { name: "Make the first admin" }).waitFor();
  await accessible(page);
  await page.waitForURL((url) => url.hash === "");
  await page.getByLabel("E-mail").fill("first@example.com");
  await page.getByLabel("Password").fill("short");
  await page.getByRole("button", { name: "Make the admin" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Password").fill("correct horse battery staple");
  await page.getByRole("button", { name: "Make the admin" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await live(page);
  await close(page);
});

test("single sign-on signs in by the provider, with the role that it tells", async () => {
  const scripts = fileURLToPath(new URL("../../tests/oidc/", import.meta.url));
  const python = execFileSync(`${scripts}install`, { encoding: "utf8" }).trim();
  const provider = spawn(python, [`${scripts}server.py`], { stdio: ["pipe", "pipe", "inherit"] });
  let server;
  try {
    const lines = createInterface({ input: provider.stdout })[Symbol.asyncIterator]();
    const { value: line } = await lines.next();
    const issuer = `http://127.0.0.1:${line.replace("ready ", "")}`;
    const claims = { email: "olga@example.com", email_verified: true, name: "Olga", groups: ["staff"] };
    await fetch(`${issuer}/users/42`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(claims),
    });
    server = await startServer({
      OIDC__ISSUER: issuer,
      OIDC__CLIENT_ID: "callboard",
      OIDC__CLIENT_SECRET: "a secret",
      OIDC__ROLE_CLAIM: "groups",
      OIDC__ROLE_MAP: "staff=operator",
      OIDC__ALLOWED_DOMAINS: "example.com",
    });
    const page = await open(browser, server, "/", { user: null });
    await page.getByRole("link", { name: "Sign in with your organization" }).click();
    await page.locator('input[name="sub"]').fill("42");
    await page.locator('input[name="sub"]').press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.locator(".side").getByText("Olga").waitFor();
    await page.locator(".side").getByText("operator").waitFor();
    await page.waitForURL((url) => url.hash === "");
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    page.faults = page.faults.filter((fault) => !fault.includes(issuer));

    // A program that wants to sign in asks here, with the code that it shows itself.
    const home = await mkdtemp(join(tmpdir(), "callboard-home-"));
    const login = spawn(program, ["auth", "login", "--oidc", "--server", server.url], {
      env: { HOME: home },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const ended = once(login, "exit");
    const said = createInterface({ input: login.stderr })[Symbol.asyncIterator]();
    const { value: address } = await said.next();
    const { value: shown } = await said.next();
    await page.goto(address.replace("to sign in, open ", ""));
    if (await page.locator('input[name="sub"]').count()) {
      await page.locator('input[name="sub"]').fill("42");
      await page.locator('input[name="sub"]').press("Enter");
    }
    await page.getByRole("heading", { name: "Sign a program in" }).waitFor();
    await page.getByText("olga@example.com").waitFor();
    const code = await page.locator(".comparison").innerText();
    assert.ok(shown.endsWith(` ${code}`), `${shown} ${code}`);
    await accessible(page);
    await shot(page, "sign-in-program");
    await page.getByRole("button", { name: "The codes are the same: allow" }).click();
    await page.getByText("You are signed in and can close this page.").waitFor();
    assert.deepEqual(await ended, [0, null]);
    await rm(home, { recursive: true });
    page.faults = page.faults.filter((fault) => !fault.includes(issuer));
    await close(page);
  } finally {
    provider.stdin.end();
    await server?.stop();
  }
});
