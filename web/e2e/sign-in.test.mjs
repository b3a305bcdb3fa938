// Ways in, and what a session is.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, launch, live, loaded, open, shot } from "./support/browser.mjs";
import { ADMIN, startServer } from "./support/server.mjs";

let server;
let browser;
before(async () => {
  server = await startServer();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a password signs in, and the session outlives a reload without anything that a script could read", async () => {
  const page = await open(browser, server, "/review", { user: null });
  await page.getByLabel("E-mail").waitFor();
  await accessible(page);
  await shot(page, "sign-in");
  await page.getByLabel("E-mail").fill(ADMIN.email);
  await page.getByLabel("Password").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Password").fill(ADMIN.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Review" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Review" }).waitFor();
  await live(page);
  const readable = await page.evaluate(() =>
    [document.cookie, ...Object.values(localStorage), ...Object.values(sessionStorage)].join(),
  );
  assert.equal(readable, "");
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, "Strict");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("E-mail").waitFor();
  const refused = await page.request.get(`${server.url}/api/auth/session`, {
    headers: { cookie: `${cookie.name}=${cookie.value}` },
  });
  assert.equal(refused.status(), 401, "the session is over on the server too");
  await close(page);
});

test("a one-time link shows whose account it is, is used up by a press, and leaves the address", async () => {
  const { url } = await server.call("POST", "/api/auth/links");
  // A scanner of mails that runs scripts opens the page, and presses nothing.
  const scanner = await open(browser, server, url, { user: null });
  await scanner.getByText("This link signs you in as").waitFor();
  await close(scanner);

  const page = await open(browser, server, url, { user: null });
  await page.waitForURL((url) => url.hash === "");
  await page.getByText(ADMIN.email).first().waitFor();
  await accessible(page);
  await shot(page, "sign-in-link");
  await page.getByRole("button", { name: `Sign in as ${ADMIN.email}` }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await close(page);
  const again = await open(browser, server, url, { user: null });
  await again.getByText("This link was used before").waitFor();
  await again.getByLabel("E-mail").waitFor();
  await close(again);
});

test("a session that ends elsewhere gives way to the sign-in, and what was asked for comes after it", async () => {
  const user = await server.user("operator", "olga@example.com");
  const page = await open(browser, server, "/review?sort=newest", { user });
  await page.getByRole("heading", { name: "Review" }).waitFor();
  await live(page);
  await server.call("POST", "/api/auth/logout", { all: true }, await server.token(user));
  await page.getByLabel("E-mail").fill(user.email);
  await page.getByLabel("Password").fill(user.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Newest first" }).waitFor();
  await close(page);
});

test("a user whose password an admin has set changes it first, and then has every page", async () => {
  const { id, email } = await server.call("POST", "/api/auth/users", {
    email: "nina@example.com",
    password: "correct horse battery staple",
    role: "operator",
    name: "Nina",
  });
  const password = "set by the admin 4711";
  await server.call("PATCH", `/api/auth/users/${id}`, { password });
  const page = await open(browser, server, "/", { user: null });
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("An admin asks you to choose a password of your own").waitFor();
  await accessible(page);
  await shot(page, "must-change");
  await page.getByLabel("Current password").fill(password);
  await page.getByLabel("New password").fill("my own and only one 815");
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await page.getByRole("heading", { name: "Waiting for a reviewer" }).waitFor();
  await page.getByRole("link", { name: "Review", exact: true }).waitFor();
  await live(page);
  await close(page);
});

test("a write by cookie from a foreign page is refused, and one of the server's own page is not", async () => {
  const page = await open(browser, server, "/");
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const post = (origin) =>
    fetch(`${server.url}/api/tasks`, {
      method: "POST",
      headers: { cookie, "content-type": "application/json", ...(origin ? { origin } : {}) },
      body: JSON.stringify({ prompt: "hello" }),
    });
  assert.equal((await post("http://127.0.0.1:1")).status, 403);
  assert.equal((await post(undefined)).status, 403);
  assert.equal((await post(server.url)).status, 201);
  await close(page);
});

test("the pages are compressed, cached by their hash, and shadow nothing", async () => {
  const page = await fetch(`${server.url}/tasks/anything`, { headers: { accept: "text/html" } });
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-security-policy"), /script-src 'self';/);
  assert.equal(page.headers.get("cache-control"), "no-cache");
  const html = await page.text();
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/, "no script stands in the page");
  const asset = /src="(\/assets\/[^"]+)"/.exec(html)[1];
  const script = await fetch(server.url + asset, { headers: { "accept-encoding": "gzip" } });
  assert.equal(script.headers.get("content-encoding"), "gzip");
  assert.match(script.headers.get("cache-control"), /immutable/);
  const tag = page.headers.get("etag");
  const known = await fetch(`${server.url}/`, {
    headers: { "if-none-match": tag, "accept-encoding": "gzip, deflate, br" },
  });
  assert.ok([200, 304].includes(known.status));
  for (const path of ["/api/nothing", "/v1/nothing", "/nothing", "/assets/nothing.js", "/.gitignore"]) {
    const missing = await fetch(server.url + path);
    assert.equal(missing.status, 404, path);
    assert.match(missing.headers.get("content-type"), /json/, path);
  }
});

for (const [locale, heading] of [
  ["en-US", "Overview"],
  ["de-DE", "Übersicht"],
])
  test(`the first page is at most 150 KB: ${locale}`, async (context) => {
    const page = await open(browser, server, null, { anew: true, locale });
    let bytes = 0;
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    const data = new Set();
    session.on("Network.requestWillBeSent", ({ requestId, type }) => {
      if (type === "Fetch" || type === "XHR") data.add(requestId);
    });
    session.on("Network.dataReceived", ({ requestId, encodedDataLength }) => {
      if (!data.has(requestId)) bytes += encodedDataLength;
    });
    await page.context().setExtraHTTPHeaders({ "accept-encoding": "gzip" });
    await page.goto("/");
    await page.getByRole("heading", { name: heading }).waitFor();
    await loaded(page);
    // Its answer comes after every event of this session so far.
    await session.send("Network.disable");
    context.diagnostic(`${bytes} bytes`);
    assert.ok(bytes < 150_000, `${bytes} bytes`);
    await close(page);
  });
