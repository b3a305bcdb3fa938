// The pages in German: what a reader of it sees from the sign-in on, and the choice of the language.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import {
  accessible,
  accessibleInThemes,
  close,
  follow,
  loaded,
  looksOf,
  open,
  resize,
  shot,
  WINDOW,
} from "./support/browser.mjs";
import { approve, armed, stage, title, undoEnds } from "./support/review.mjs";
import { ADMIN } from "./support/server.mjs";

const on = stage();
const GERMAN = { locale: "de-DE" };
/** A window of 1360 × 860 at 200 %. */
const ZOOMED = { width: WINDOW.width / 2, height: WINDOW.height / 2 };

/** The texts without a value whose German differs. */
const po = await readFile(new URL("../src/locales/de.po", import.meta.url), "utf8");
const english = [...po.matchAll(/^msgid "([^"{<]{4,})"\nmsgstr "(.*)"$/gm)]
  // Names of the examples, such as the queue "default", are what they are.
  .filter(([, text, german]) => text !== german && text !== "default")
  .map(([, text]) => text);

/** Fails if the page shows a text in English. */
async function german(page) {
  const found = await page.evaluate((english) => {
    const texts = new Set(english);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const { data, parentElement } = walker.currentNode;
      if (texts.has(data.trim()) && !parentElement.closest("[translate=no], .text, .markdown, code"))
        found.push(data.trim());
    }
    for (const attribute of ["title", "aria-label", "placeholder", "data-tip"])
      for (const each of document.querySelectorAll(`[${attribute}]`))
        if (texts.has(each.getAttribute(attribute))) found.push(each.getAttribute(attribute));
    return found;
  }, english);
  assert.deepEqual(found, [], `texts in English at ${page.url()}`);
}

test("a browser in German gets the sign-in, the overview and a decision in German", async () => {
  await on.clear();
  const ids = [await on.held("Der erste Brief."), await on.held("Der zweite Brief.")];
  const page = await open(on.browser, on.server, `/review/${ids[0]}`, { user: null, clock: true, ...GERMAN });
  await page.getByLabel("Passwort").fill(ADMIN.password);
  assert.equal(await page.locator("html").getAttribute("lang"), "de");
  await german(page);
  await accessible(page);
  await shot(page, "german-sign-in");
  await page.getByLabel("E-Mail").fill(ADMIN.email);
  await page.getByRole("button", { name: "Anmelden" }).click();
  await title(page, "Der erste Brief.");
  await loaded(page);
  await german(page);
  await armed(page);
  await approve(page);
  await page.getByText(/freigegeben\. Wird in/).waitFor();
  await title(page, "Der zweite Brief.");
  await undoEnds(page);
  assert.equal((await on.decided(ids[0])).status, "approved");
  await close(page);
});

const say = (order) => JSON.stringify(order);

/** Pages with something in each: outputs that wait and were decided, runs of a template that ended and one that runs. */
async function pages() {
  await on.clear();
  const decided = await on.held("Ein alter Brief.", { title: "Alter Brief" });
  await on.server.call("POST", `/api/hitl/${decided}/approve`);
  await on.decided(decided);
  const review = await on.held("Ein Brief.", { title: "Brief" });
  const version = (version, more) => ({
    name: "Paketbrief",
    version,
    industry: "custom",
    visibility: "organization",
    steps: [
      { id: "fakten", prompt: say({ say: "Das Paket ist unterwegs." }) },
      { id: "brief", prompt: "{{input.auftrag}}", dependsOn: ["fakten"] },
      ...more,
    ],
    inputSchema: {
      type: "object",
      required: ["auftrag", "briefe"],
      properties: {
        auftrag: { type: "string" },
        briefe: { type: "array", items: { type: "string" } },
      },
    },
  });
  const each = {
    id: "jeder",
    prompt: "{{item}}",
    forEach: "{{input.briefe}}",
    maxItems: 9,
    onItemError: "skip",
  };
  const { id: template } = await on.server.call("POST", "/api/templates", version("1.0.0", []));
  await on.server.call("POST", "/api/templates", version("1.1.0", [each]));
  const briefe = [say({ say: "x" }), say({ fail: "verschmiert" })];
  const run = async (auftrag) => {
    const input = { auftrag: say(auftrag), briefe };
    return (await on.server.call("POST", `/api/templates/${template}/deploy`, { input })).id;
  };
  const [one, other] = [await run({ say: "Montag" }), await run({ say: "Dienstag" })];
  await run({ fail: "keine Tinte" });
  await on.server.until(async () => {
    const ended = "/api/plans/executions?status=completed,failed&limit=1";
    return (await on.server.answer("GET", ended)).pagination.total >= 3;
  }, "the end of three runs");
  await run({ hang: true });
  return {
    overview: "/",
    review: `/review/${review}`,
    decided: "/review/decided",
    "decided-item": `/review/${decided}`,
    statistics: "/insights",
    executions: "/executions",
    "executions-by-template": "/executions?view=templates",
    execution: `/executions/${one}`,
    "execution-step": `/executions/${one}?step=jeder`,
    "execution-timeline": `/executions/${one}?view=timeline`,
    "execution-table": `/executions/${one}?view=table`,
    "execution-compare": `/executions/${one}?view=compare&with=${other}`,
    templates: "/templates",
    template: `/templates/${template}`,
    "template-runs": `/templates/${template}?tab=runs`,
    "template-deploy": `/templates/${template}?tab=deploy`,
    "template-versions": `/templates/${template}?tab=versions`,
    "template-edit": `/templates/${template}?tab=edit`,
  };
}

for (const [language, settings] of Object.entries({ German: GERMAN, English: {} })) {
  test(`the pages of reviews, executions and templates are in ${language}, and accessible: light, dark, on a phone, at 200 %`, async () => {
    const page = await open(on.browser, on.server, "/", settings);
    for (const [name, path] of Object.entries(await pages())) {
      await follow(page, path);
      if (settings === GERMAN) await german(page);
      await looksOf(page, `${language}-${name}`, path);
      await resize(page, ZOOMED);
      await accessibleInThemes(page, `${language}-${name}-zoomed`, `${path} at 200 %`);
      await resize(page, WINDOW);
    }
    await close(page);
  });
}

test("another language is chosen in the menu, and stays", async () => {
  const page = await open(on.browser, on.server, "/tasks", {});
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.getByLabel("Language").selectOption("Deutsch");
  await page.getByRole("heading", { name: "Aufgaben" }).waitFor();
  await page.goto("/review");
  await page.getByRole("heading", { name: "Prüfung" }).waitFor();
  await page.getByLabel("Sprache").selectOption("English");
  await page.getByRole("heading", { name: "Review" }).waitFor();
  await close(page);
});
