// For those who zoom to 200 % or read in a column of 320 px (WCAG 1.4.10), and those who want no motion (2.3.3).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  accessible,
  close,
  follow,
  launch,
  live,
  loaded,
  open,
  PHONE,
  resize,
  shot,
  stopClock,
  WINDOW,
} from "./support/browser.mjs";
import { armed } from "./support/review.mjs";
import { startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;
const ids = {};

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server);
  const say = (order) => JSON.stringify(order);
  const define = (version, more = []) => ({
    name: "Parcel Reply",
    version,
    industry: "custom",
    visibility: "organization",
    tags: ["support", "correspondence"],
    inputSchema: { type: "object", required: ["question"], properties: { question: { type: "string" } } },
    steps: [
      { id: "facts", prompt: say({ say: "The parcel left the warehouse in Rostock on Monday." }) },
      { id: "stock", prompt: say({ hang: true }), dependsOn: ["facts"] },
      {
        id: "reply",
        prompt: say({ say: "Dear customer, your parcel arrives on Thursday.", confidence: 0.6 }),
        dependsOn: ["facts"],
        requiresApproval: true,
      },
      { id: "letter", prompt: "{{reply.output}} {{input.question}}", dependsOn: ["reply", "stock"] },
      ...more,
    ],
  });
  const { id: template } = await server.call("POST", "/api/templates", define("1.0.0"));
  await server.call("POST", "/api/templates", define("1.1.0", [{ id: "extra", prompt: "x" }]));
  const deploy = () =>
    server.call("POST", `/api/templates/${template}/deploy`, { input: { question: "Where is my parcel?" } });
  const [run, other] = [await deploy(), await deploy()];
  const { id: plan } = await server.call("POST", "/api/plans", {
    name: "Refused by its provider",
    steps: [{ id: "one", prompt: say({ fail: "the provider refused: the input is over its limit" }) }],
  });
  await server.call("POST", `/api/plans/${plan}/execute`, {});
  const waiting = async () => (await server.answer("GET", "/api/hitl/pending?limit=20")).data;
  const [item] = await server.until(async () => {
    const found = await waiting();
    return found.length === 2 && found;
  }, "two reviews");
  Object.assign(ids, { template, plan, run: run.id, other: other.id, review: item.taskId });
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

/** Every page of the program: its address, and the role and name of the control that it is for. */
const pages = () => [
  ["/", "link", "Review all"],
  ["/review", "link", /Dear customer/],
  [`/review/${ids.review}`, "button", /^Approve/],
  ["/executions", "link", /Parcel Reply|parcel-reply/],
  ["/executions?view=templates", "link", "Parcel Reply"],
  [`/executions/${ids.run}`, "button", "Cancel"],
  [`/executions/${ids.run}?step=stock`, "button", "Close"],
  [`/executions/${ids.run}?view=compare&with=${ids.other}`, "combobox", "Compare with"],
  [`/executions/${ids.run}?view=timeline`, "button", /^stock/],
  [`/executions/${ids.run}?view=table`, "link", "stock"],
  ["/tasks", "button", "Submit a task"],
  [`/tasks/${ids.review}`, "link", /[Rr]eview/],
  ["/templates", "link", "Parcel Reply"],
  [`/templates/${ids.template}`, "link", "Deploy"],
  [`/templates/${ids.template}?tab=runs`, "link", /^Versions/],
  [`/templates/${ids.template}?tab=deploy`, "button", "Dry run"],
  [`/templates/${ids.template}?tab=versions`, "combobox", /./],
  [`/templates/${ids.template}?tab=edit`, "button", "Publish"],
  ["/plans", "link", "Refused by its provider"],
  [`/plans/${ids.plan}`, "link", "Run"],
  ["/plans/new", "button", "Create"],
  ["/workers", "button", "Drain"],
  ["/queues", "button", "Pause"],
  ["/insights", "link", "Cost"],
  ["/insights?tab=cost", "link", /Latency/],
  ["/insights?tab=latency", "link", /Cost/],
  ["/admin/users", "button", "New user"],
  ["/admin/keys", "button", "New key"],
  ["/admin/sessions", "button", "Change"],
  ["/admin/audit", "searchbox", /^Action/],
  ["/admin/deliveries", "link", "Storage"],
  ["/admin/settings", "link", "Storage"],
  ["/admin/storage", "link", "Settings"],
  ["/docs", "link", "Choose a confidence threshold"],
  ["/docs/reference/tasks", "button", "All guides"],
  ["/docs/api", "searchbox", "Search operations"],
];

/** What scrolls can be scrolled by the keyboard. */
const SCROLLS = { type: "rule", values: ["scrollable-region-focusable"] };

/** What reaches beyond the window, or is cut off without an ellipsis, outside of what scrolls by itself. */
const cutOff = () => {
  const faults = [];
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) faults.push(`the document is ${wide} px wider than the window`);
  // A plane that is moved, a drawing, and what only readers hear have no edge of their own.
  const free = ".hide, .react-flow, svg, .cm-editor, .uplot, .skip, .tip";
  for (const it of document.querySelectorAll("body *")) {
    const box = it.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || it.closest(free)) continue;
    let scrolls = false;
    for (let up = it.parentElement; up; up = up.parentElement)
      if (/auto|scroll/.test(getComputedStyle(up).overflowX)) scrolls = true;
    const name = `${it.tagName.toLowerCase()}.${it.className} ${it.textContent.trim().slice(0, 40)}`;
    if (!scrolls && (box.right > window.innerWidth + 1 || box.left < -1)) faults.push(`beyond: ${name}`);
    const { overflowX, overflowY, textOverflow } = getComputedStyle(it);
    const isCut =
      (/hidden|clip/.test(overflowX) && textOverflow !== "ellipsis" && it.scrollWidth > it.clientWidth + 1) ||
      (/hidden|clip/.test(overflowY) && it.scrollHeight > it.clientHeight + 1);
    if (isCut) faults.push(`cut off: ${name}`);
  }
  return faults.slice(0, 5);
};

/** Goes to a control by Tab from the start of the page; it is in view then, and nothing is over it. */
async function reachable(page, control, what) {
  const target = await control.elementHandle();
  await target.evaluate((it) => {
    window.scrollTo(0, 0);
    document.querySelector("main").focus();
    // Tab stays at this control, and leaves those of earlier calls, so that there is no need to look after each.
    window.goal?.abort();
    window.goal = new AbortController();
    const stay = (event) => event.key === "Tab" && event.preventDefault();
    it.addEventListener("keydown", stay, { signal: window.goal.signal });
  });
  for (let presses = 0; presses < 150; presses += 5) {
    for (let each = 0; each < 5; each++) await page.keyboard.down("Tab");
    const place = await target.evaluate((it) => {
      if (document.activeElement !== it) return undefined;
      const { left, top, width, height } = it.getBoundingClientRect();
      const over = document.elementFromPoint(left + Math.min(width, 200) / 2, top + height / 2);
      return it.contains(over) ? "seen" : `under ${over?.outerHTML.slice(0, 80)}`;
    });
    if (place !== undefined) {
      await page.keyboard.up("Tab");
      return assert.equal(place, "seen", what);
    }
  }
  assert.fail(`${what}: Tab does not come to it`);
}

test("every page reflows at 200 % and at 320 px, and Tab comes to what it is for", async () => {
  const page = await open(browser, server, null, { deviceScaleFactor: 2 });
  for (const [path, role, name] of pages()) {
    await resize(page, { width: 640, height: 430 });
    // Loading each anew would take three times as long.
    if (page.url() === "about:blank") await page.goto(path);
    else await follow(page, path);
    for (const [width, height] of [
      [640, 430],
      [320, 600],
    ]) {
      await resize(page, { width, height });
      await loaded(page);
      const control = page.locator("main").getByRole(role, { name }).first();
      await control.waitFor();
      await shot(page, `zoom-${width}-${path.replace(/\W+/g, "-")}`);
      const what = `${path} at ${width} px`;
      assert.deepEqual(await page.evaluate(cutOff), [], what);
      await accessible(page, what, SCROLLS);
      await reachable(page, control, `${what}: ${name}`);
    }
  }
  await close(page);
});

test("a long list on a phone or a tablet is drawn and read as far as it is scrolled", async () => {
  const tasks = Array.from({ length: 100 }, (_, index) => ({
    prompt: `Greet customer ${index}.`,
    queue: "none",
  }));
  for (let batch = 0; batch < 4; batch++) await server.call("POST", "/api/tasks/batch", { tasks });
  const page = await open(browser, server, null, { phone: true });
  let reads = 0;
  page.on("request", (request) => {
    if (/api\/tasks\?.*offset=[1-9]/.test(request.url())) reads++;
  });
  for (const [width, height] of [
    [390, 844],
    [768, 1024],
  ]) {
    await resize(page, { width, height });
    reads = 0;
    await page.goto("/tasks");
    await live(page);
    await page.locator(".table-row").nth(5).waitFor();
    await loaded(page);
    const scroller = page.locator(".table-scroll");
    assert.ok((await scroller.boundingBox()).height > height / 2, `${width} px: the table is low`);
    assert.ok((await page.locator(".table-body .table-row").count()) < 60, `${width} px: rows out of view`);
    assert.equal(reads, 0, `${width} px: pages that nobody scrolled to`);
    await scroller.evaluate((it) => it.scrollTo(0, it.scrollHeight));
    await page.waitForFunction(
      () => Number(document.querySelector(".table-body .table-row:last-child").dataset.index) > 90,
    );
    await loaded(page);
  }
  await close(page);
});

test("a difference has one column where two have no room, also when the window changes", async () => {
  const page = await open(browser, server, `/templates/${ids.template}?tab=versions`);
  const sides = async (area, number) => {
    await page.waitForFunction(
      ([of, wanted]) =>
        document.querySelector(of)?.shadowRoot?.querySelectorAll(".cm-editor").length === wanted,
      [area, number],
    );
  };
  await sides(".definition-code", 2);
  await resize(page, { width: 640, height: 430 });
  await sides(".definition-code", 1);
  await page.goto(`/review/${ids.review}`);
  await page.locator(".review-panel").getByText("Dear customer").waitFor();
  await page.keyboard.press("e");
  await page.locator(".review-editor .cm-content").waitFor();
  await page.keyboard.type("Hello. ");
  await page.keyboard.press("Escape");
  await page.keyboard.press("d");
  await page.locator(".review-editor .cm-deletedChunk").waitFor();
  await sides(".review-editor", 1);
  await loaded(page);
  assert.deepEqual(await page.evaluate(cutOff), []);
  await shot(page, "zoom-640-difference");
  await resize(page, WINDOW);
  await sides(".review-editor", 2);
  await close(page);
});

/** What moves for longer than 10 ms, or would once it is shown. */
const moving = () => {
  const longest = (times) =>
    Math.max(...times.split(",").map((it) => Number.parseFloat(it) * (it.trim().endsWith("ms") ? 1 : 1000)));
  const found = document
    .getAnimations()
    .filter(({ effect }) => effect.getComputedTiming().duration > 10)
    .map(
      (it) => `${it.animationName ?? it.transitionProperty ?? "script"} of ${it.effect.target?.outerHTML}`,
    );
  for (const it of document.querySelectorAll("*")) {
    for (const part of [undefined, "::before", "::after"]) {
      const style = getComputedStyle(it, part);
      const { animationName, animationDuration, transitionDuration, scrollBehavior } = style;
      if (animationName !== "none" && longest(animationDuration) > 10)
        found.push(`${animationName}: ${it.outerHTML}`);
      if (longest(transitionDuration) > 10) found.push(`transition: ${it.outerHTML}`);
      if (scrollBehavior === "smooth") found.push(`scrolls smoothly: ${it.outerHTML}`);
    }
  }
  return found.map((text) => text.slice(0, 200)).slice(0, 5);
};

test("nothing moves for those who want no motion", async () => {
  const moved = await open(browser, server, `/executions/${ids.run}`);
  await moved.locator(".executions-node .spin").first().waitFor();
  assert.notDeepEqual(await moved.evaluate(moving), [], "what runs turns, unless nobody wants it to");
  await close(moved);

  const page = await open(browser, server, null, { reducedMotion: "reduce", clock: true });
  const still = async (what) => assert.deepEqual(await page.evaluate(moving), [], what);
  const show = async (path, text) => {
    await page.goto(path);
    await live(page);
    await page.locator("main").getByText(text).first().waitFor();
    await still(path);
  };
  await show(`/executions/${ids.run}`, "stock");
  await page.getByRole("button", { name: /Zoom In/i }).click();
  await still("the graph, larger");
  await page.locator('.executions-node[data-step="stock"]').click();
  await page.getByRole("complementary", { name: "Step stock" }).waitFor();
  await still("the drawer of a step");
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.locator(".executions-bar").first().waitFor();
  await still("the timeline");
  await show("/executions", "running");
  const { steps } = await server.call("GET", `/api/plans/executions/${ids.run}`);
  await show(`/tasks/${steps.stock.taskId}`, "running");
  await show("/insights?tab=cost", "Cost by day");
  await page.locator(".uplot canvas").first().waitFor();
  await still("a chart");
  await show("/workers", "scenario");
  await show("/plans/new", "My plan");
  await page.getByRole("textbox", { name: "Definition" }).click();
  await still("the editor");

  await show(`/review/${ids.review}`, "Dear customer");
  await armed(page);
  await stopClock(page);
  await page.keyboard.press("a");
  const undo = page.getByRole("button", { name: /^Undo/ });
  await undo.waitFor();
  await still("the time to undo");
  await undo.click();
  await page.clock.resume();
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await still("a dialog");
  await page.keyboard.press("Escape");

  await resize(page, PHONE);
  await show("/", "Waiting for a reviewer");
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  await still("the menu of a phone");
  await server.kill();
  await page.locator('[data-live="reconnecting"]:visible').first().waitFor();
  await still("the chip while the connection is made again");
  await server.start();
  await live(page);
  await close(page);
});
