// Chromium, signed in, and what every page is held to: no violation of the policy, no error, no fault of axe.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { ADMIN } from "./server.mjs";
import { allowed } from "./wait.mjs";

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

export const WINDOW = { width: 1360, height: 860 };
export const PHONE = { width: 390, height: 844 };
export const launch = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args });

/** Pages that scenarios are done with, by browser. */
const used = new WeakMap();

/**
 * A page of a browser of its own: one that an earlier scenario is done with, empty and signed out, or a new one.
 * `user: null` is nobody. With `clock: true` its time can be moved forward, so that a scenario need not wait for
 * what the page does by the clock. `anew: true` takes a new one, with nothing in its cache.
 */
export async function open(browser, server, path, options = {}) {
  const { user = ADMIN, phone = false, clock = false, anew = false, ...settings } = options;
  if (!used.has(browser)) used.set(browser, []);
  const spare = used.get(browser);
  const kind = JSON.stringify({ url: server.url, phone, clock, anew, settings });
  const kept = spare.findIndex((page) => page.kind === kind && !anew);
  const page = kept < 0 ? await create(browser, server, phone, settings) : spare.splice(kept, 1)[0];
  Object.assign(page, { kind, spare, clocked: clock, anew, size: page.viewportSize() });
  watch(page);
  if (user) await signIn(page.context(), server, user);
  if (clock && kept < 0) await page.clock.install();
  if (path) await page.goto(path);
  return page;
}

async function create(browser, server, phone, settings) {
  const context = await browser.newContext({
    baseURL: server.url,
    viewport: phone ? PHONE : WINDOW,
    colorScheme: "light",
    hasTouch: phone,
    ...settings,
  });
  context.setDefaultTimeout(allowed(30_000));
  return context.newPage();
}

/** Ends a page, and fails if it broke the policy or threw. */
export async function close(page) {
  const { faults } = page;
  if (page.anew) {
    await page.context().close();
    return assert.deepEqual(faults, [], "errors of the page");
  }
  await page.unrouteAll();
  // A file of the server, so that the page is left and what it keeps can be emptied.
  await page.goto("/favicon.svg");
  await page.evaluate(async () => {
    localStorage.clear();
    sessionStorage.clear();
    for (const { name } of await indexedDB.databases()) indexedDB.deleteDatabase(name);
  });
  await page.context().clearCookies();
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(page.size);
  if (page.clocked) {
    await page.clock.resume();
    await page.clock.setSystemTime(Date.now());
  }
  page.spare.push(page);
  assert.deepEqual(faults, [], "errors of the page");
}

const WATCHED = ["pageerror", "console", "request", "requestfinished", "requestfailed", "framenavigated"];

/** Keeps its errors in `page.faults`, its requests without an answer in `page.reads`, their number in `asked`. */
function watch(page) {
  for (const event of [...WATCHED, "websocket"]) page.removeAllListeners(event);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content.Security.Policy|Refused to/i.test(text)) page.faults.push(text);
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(text))
      page.faults.push(text);
  });
  page.reads = new Set();
  page.asked = 0;
  let next;
  page.on("request", (request) => {
    page.asked++;
    if (request.isNavigationRequest()) next = request;
    // The text of a task is streamed for as long as the task runs.
    if (!/\/stream$/.test(new URL(request.url()).pathname)) page.reads.add(request);
  });
  // What a page had asked for when it was left has no answer.
  page.on("framenavigated", () => {
    if (!next) return;
    page.reads = new Set(page.reads.has(next) ? [next] : []);
    next = undefined;
  });
  for (const end of ["requestfinished", "requestfailed"])
    page.on(end, (request) => page.reads.delete(request));
}

export async function signIn(context, server, user = ADMIN) {
  const token = await server.token(user);
  const headers = { authorization: `Bearer ${token}` };
  const answer = await context.request.post(`${server.url}/api/auth/cookie`, { headers });
  assert.equal(answer.status(), 200, await answer.text());
}

/** Waits until a page has loaded: it has its heading, reads nothing, nothing in it moves, and it stays as it is. */
export async function loaded(page) {
  const began = Date.now();
  for (;;) {
    const { asked } = page;
    const left = (await page.evaluate(unfinished)) ?? [...page.reads][0]?.url();
    if (left === undefined && page.asked === asked) return;
    if (Date.now() - began > allowed(30_000)) assert.fail(`${page.url()} goes on loading: ${left}`);
  }
}

/**
 * Stops the page's clock, a little later: it moves only by `fastForward` until it is resumed. What the page reads
 * from the server is not shown as long. `open` has installed the clock.
 */
export async function stopClock(page) {
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 5_000));
}

/**
 * In the page: what is not there yet, after a while in which the page had nothing to do. A page that says that it
 * is loading is waited for first, a second long.
 */
async function unfinished() {
  // Real frames, also where Playwright has put its clock in their place.
  const { requestAnimationFrame, setTimeout } = window.__pwClock?.builtins ?? window;
  const outline = (it) => (it.outerHTML ?? it.textContent).slice(0, 200);
  const all = { attributes: true, characterData: true, childList: true, subtree: true };
  const missing = () => {
    const loading = document.querySelector('.loading, [aria-busy="true"]');
    if (loading) return outline(loading);
    const headings = [...document.querySelectorAll("h1")];
    if (!headings.some((it) => it.checkVisibility({ visibilityProperty: true }))) return "no heading";
  };
  if (missing())
    await new Promise((done) => {
      const waits = new MutationObserver(() => missing() || done(waits.disconnect()));
      waits.observe(document, all);
      setTimeout(() => done(waits.disconnect()), 1_000);
    });
  if (missing()) return missing();
  let changed;
  const changes = new MutationObserver(([{ target }]) => {
    changed ??= target;
  });
  changes.observe(document, all);
  await document.fonts.ready;
  for (let round = 0; round < 2; round++) {
    await new Promise((drawn) => requestAnimationFrame(drawn));
    await scheduler.postTask(() => {}, { priority: "background" });
  }
  changes.disconnect();
  if (changed) return `a change of ${outline(changed)}`;
  // What turns while something runs has no end.
  const moving = document
    .getAnimations()
    .find((it) => it.playState === "running" && it.effect.getComputedTiming().endTime !== Infinity);
  if (moving) return `a movement of ${outline(moving.effect.target)}`;
  return missing();
}

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const EVERY_RULE = { type: "tag", values: TAGS };
/** The rules of these tags that read colours. */
const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/**
 * Fails on what axe finds against WCAG 2.2 AA, and if the page is wider than the window. A page that is still
 * loading is waited for.
 */
export async function accessible(page, what = page.url(), runOnly = EVERY_RULE) {
  await loaded(page);
  const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(excess <= 0, `${what} is ${excess} px wider than the window`);
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const found = await page.evaluate(async (runOnly) => {
    const { violations } = await window.axe.run(document, { runOnly, resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => ({
      id,
      help,
      nodes: nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`),
    }));
  }, runOnly);
  assert.deepEqual(found, [], `accessibility of ${what}`);
}

/** The same in the light and in the dark theme, with pictures. The dark one differs in its colours only. */
export async function accessibleInThemes(page, name, what = name) {
  await accessible(page, `${what} light`);
  await shot(page, `${name}-light`);
  await theme(page, "dark");
  assert.deepEqual(await page.evaluate(otherThanColours), [], "what the dark theme changes beside colours");
  await accessible(page, `${what} dark`, COLOURS);
  await shot(page, `${name}-dark`);
  await theme(page, "light");
}

/** As a reader may turn it. */
async function theme(page, colorScheme) {
  await page.emulateMedia({ colorScheme });
  await page.locator(`html[data-theme="${colorScheme}"]`).waitFor();
}

/** In the page: what a theme sets that is no colour. Then the rules of axe about the rest need a second run. */
const otherThanColours = () =>
  [...document.styleSheets]
    .flatMap((sheet) => [...sheet.cssRules])
    .filter(({ cssText }) => /data-theme|prefers-color-scheme/.test(cssText))
    .flatMap(({ style, cssText }) =>
      style ? [...style].map((name) => [name, style.getPropertyValue(name).trim()]) : [[cssText]],
    )
    .filter(([name, value]) => {
      const isColour = CSS.supports("color", value) || CSS.supports("box-shadow", value);
      // The build's names for the two values of light-dark().
      const isBuilt = name.startsWith("--lightningcss-");
      return name !== "color-scheme" && !isBuilt && !(name.startsWith("--") && isColour);
    });

const visitors = new WeakMap();

/**
 * A page as `looksOf` wants it, once it is `ready`. One visitor of each browser goes to all of them, as links lead
 * there: a page of its own for each takes twice as long. Where it has been before it loads anew, for not every list
 * is read again.
 */
export async function looks(browser, server, path, ready, name) {
  if (!visitors.has(browser))
    visitors.set(browser, { page: await open(browser, server, null), seen: new Set() });
  const { page, seen } = visitors.get(browser);
  if (seen.size === 0 || seen.has(path)) await page.goto(path);
  else await follow(page, path);
  seen.add(path);
  await ready(page);
  await live(page);
  await looksOf(page, name, path);
  assert.deepEqual(page.faults, [], `errors of ${path}`);
}

/** Goes to an address as a link of the pages does it, without loading anew, and waits until its page has loaded. */
export async function follow(page, path) {
  await page.evaluate((to) => history.pushState(null, "", to), path);
  await loaded(page);
}

/** The page as it is shown now: no fault of axe in both themes and on a phone, and no wider than that. */
export async function looksOf(page, name, what = name) {
  await accessibleInThemes(page, name, what);
  await resize(page, PHONE);
  await accessible(page, `${what} on a phone`);
  await shot(page, `${name}-phone`);
  await resize(page, WINDOW);
}

/** Gives the window another size, and waits until the page has it. */
export async function resize(page, size) {
  await page.setViewportSize(size);
  await page.waitForFunction(({ width, height }) => innerWidth === width && innerHeight === height, size);
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
