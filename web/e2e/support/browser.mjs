// Chromium, signed in, and what every page is held to: no violation of the policy, no error, no fault of axe.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { ADMIN, allowed } from "./server.mjs";

const axeSource = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

const WINDOW = { width: 1360, height: 860 };
const PHONE = { width: 390, height: 844 };
export const launch = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args });

/** A page of a browser of its own. `user: null` is nobody. */
export async function open(browser, server, path, options = {}) {
  const { user = ADMIN, theme = "light", phone = false, ...rest } = options;
  const viewport = phone ? PHONE : WINDOW;
  const context = await browser.newContext({
    baseURL: server.url,
    viewport,
    colorScheme: theme,
    hasTouch: phone,
    ...rest,
  });
  context.setDefaultTimeout(allowed(20_000));
  if (user) await signIn(context, server, user);
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content.Security.Policy|Refused to/i.test(text)) page.faults.push(text);
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(text))
      page.faults.push(text);
  });
  if (path) await page.goto(path);
  return page;
}

export async function signIn(context, server, user = ADMIN) {
  const token = await server.token(user);
  const headers = { authorization: `Bearer ${token}` };
  const answer = await context.request.post(`${server.url}/api/auth/cookie`, { headers });
  assert.equal(answer.status(), 200, await answer.text());
}

/** Ends a page, and fails if it broke the policy or threw. */
export async function close(page) {
  const { faults } = page;
  await page.context().close();
  assert.deepEqual(faults, [], "errors of the page");
}

/** Fails on what axe finds against WCAG 2.2 AA, and if the page is wider than the window. */
export async function accessible(page, what = page.url()) {
  const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(excess <= 0, `${what} is ${excess} px wider than the window`);
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations } = await window.axe.run(document, { runOnly, resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => ({
      id,
      help,
      nodes: nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`),
    }));
  });
  assert.deepEqual(found, [], `accessibility of ${what}`);
}

/**
 * The page without a fault of axe in the light and the dark theme, and no wider than a phone, with pictures.
 * One page is turned from one into the other, as a reader may turn it.
 */
export async function looks(browser, server, path, ready, name, options = {}) {
  const page = await open(browser, server, path, options);
  await ready(page);
  await live(page);
  await looksOf(page, name, path);
  await close(page);
}

/** The same of a page as it is shown now. */
export async function looksOf(page, name, what = name) {
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    await accessible(page, `${what} ${theme}`);
    await shot(page, `${name}-${theme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(PHONE);
  await page.evaluate(
    () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
  );
  await accessible(page, `${what} on a phone`);
  await shot(page, `${name}-phone`);
  await page.setViewportSize(WINDOW);
}

/** Keeps a picture, if CALLBOARD_SHOTS names a directory. */
export async function shot(page, name) {
  const directory = process.env.CALLBOARD_SHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: join(directory, `${name}.png`), animations: "disabled" });
}

/** Waits until the page says that it is live. */
export const live = (page) => page.locator('[data-live="live"]:visible').first().waitFor();
