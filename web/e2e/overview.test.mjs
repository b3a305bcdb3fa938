// Many runs at a glance: by template, how long steps take, the items of a list, what two texts differ in.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, live, looksOf, open, resize, WINDOW } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;
let template;
const say = (order) => JSON.stringify(order);
/** The ids of the runs, the first that ended first. */
const runs = [];
const RUNS = "/api/plans/executions";

before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server);
  ({ id: template } = await server.call("POST", "/api/templates", {
    name: "Parcel Reply",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: {
      type: "object",
      required: ["order", "word"],
      properties: { order: { type: "string" }, word: { type: "string" } },
    },
    steps: [
      { id: "facts", prompt: say({ say: "The parcel left Rostock on Monday." }) },
      { id: "reply", prompt: "{{input.order}}", dependsOn: ["facts"] },
      {
        id: "letter",
        prompt: say({ say: "Dear Ann,\nyour parcel comes {{input.word}}.\nKind regards" }),
        dependsOn: ["reply"],
      },
    ],
  }));
  for (let number = 0; number < 12; number++) {
    const order = number % 5 === 3 ? { fail: "the printer is out of ink" } : { say: `reply ${number}` };
    runs.push((await deploy({ order: say(order), word: number === 10 ? "today" : "on Friday" })).id);
  }
  const ended = await server.until(async () => {
    const { data } = await server.answer(
      "GET",
      `${RUNS}?status=completed,failed&orderBy=completedAt&order=asc`,
    );
    return data.length === runs.length && data;
  }, "the end of each run");
  runs.splice(0, runs.length, ...ended.map(({ id }) => id));
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const deploy = (input) => server.call("POST", `/api/templates/${template}/deploy`, { input });

test("executions are grouped by template: runs, what happens now, and a strip of the last outcomes", async () => {
  const page = await open(browser, server, "/executions");
  await page.getByRole("link", { name: "By template" }).click();
  await page.waitForURL(/view=templates/);
  await page.reload();
  const row = page.locator(`.table-row[data-key="${template}"]`);
  const strip = row.getByRole("list", { name: "The last 12 outcomes of Parcel Reply" });
  await strip.waitFor();
  await live(page);
  assert.equal(await row.getAttribute("aria-rowindex"), "2", "what ran last comes first");
  assert.equal(await row.locator('[data-column="runs"]').textContent(), "12");
  assert.equal(await row.locator('[data-column="failed"]').textContent(), "2");
  // The tab stop of a strip is its last run; arrows lead to those before.
  await row.getByRole("link", { name: "Parcel Reply", exact: true }).focus();
  await page.keyboard.press("Tab");
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("href"));
  assert.equal(await focused(), `/executions/${runs[11]}`);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await focused(), `/executions/${runs[10]}`);
  await page.keyboard.press("Home");
  assert.equal(await focused(), `/executions/${runs[0]}`);
  await page.getByRole("tooltip").getByText("completed after").waitFor();
  await page.mouse.move(0, 0);
  const { id } = await deploy({ order: say({ say: "late", hang: true }), word: "soon" });
  await row.getByText("1 running").waitFor();
  assert.equal(await row.locator('[data-column="runs"]').textContent(), "13");
  await looksOf(page, "executions-by-template");
  await server.call("DELETE", `${RUNS}/${id}`);
  await row.getByRole("list", { name: "The last 13 outcomes of Parcel Reply" }).waitFor();
  const outcomes = row.locator(".executions-strip a");
  const tones = await outcomes.evaluateAll((all) => all.map((it) => it.dataset.tone));
  assert.deepEqual(
    ["good", "bad", "mute"].map((tone) => tones.filter((it) => it === tone).length),
    [10, 2, 1],
  );
  await row.locator('.executions-strip a[data-tone="bad"]').first().click();
  await page.getByText("the printer is out of ink").first().waitFor();
  await close(page);
});

test("the last runs of a template are a map of how long each step took, beside the median of the step", async () => {
  const page = await open(browser, server, `/templates/${template}`);
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  const map = page.getByRole("table", { name: "Duration of the steps" });
  const row = map.getByRole("row").filter({ has: page.locator(`a[href="/executions/${runs[11]}"]`) });
  const cells = row.getByRole("cell");
  await cells.first().getByText("ms").waitFor();
  const { steps } = await server.call("GET", `${RUNS}/${runs[11]}`);
  assert.deepEqual(
    await cells.allTextContents(),
    ["facts", "reply", "letter"].map((step) => `${steps[step].durationMs} ms`),
  );
  await map.getByRole("row", { name: /^Median/ }).waitFor();
  assert.equal(await map.getByRole("rowheader").count(), 14, "thirteen runs, and the medians");
  await cells.nth(0).getByRole("link").focus();
  await page.keyboard.press("ArrowRight");
  await page.evaluate(() => document.activeElement.blur());
  await looksOf(page, "template-runs");
  await cells.nth(1).getByRole("link").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/executions\/.*step=reply/);
  await page.getByRole("complementary", { name: "Step reply" }).waitFor();
  await close(page);
});

test("the outputs and prompts of two runs are compared word by word, and those of a task and its retry", async () => {
  const inputs = await Promise.all(runs.map((id) => server.call("GET", `${RUNS}/${id}`)));
  const [one] = inputs.filter(({ input }) => input.word === "today");
  const [other] = inputs.filter(({ input, status }) => input.word !== "today" && status === "completed");
  const page = await open(browser, server, `/executions/${one.id}?view=compare&with=${other.id}`);
  await page
    .getByRole("row", { name: /^letter/ })
    .getByRole("button", { name: "differs" })
    .click();
  const texts = page.getByRole("region", { name: "Texts of letter" });
  const [before, after] = ["a", "b"].map((side) => texts.locator(`.cm-merge-${side} .cm-changedText`));
  await after.getByText("today", { exact: true }).waitFor();
  await before.getByText("on Friday", { exact: true }).waitFor();
  assert.equal(await texts.locator(".cm-changedLine").count(), 2, "one line differs");
  await texts.scrollIntoViewIfNeeded();
  await looksOf(page, "execution-texts");
  await texts.getByRole("button", { name: "Prompt" }).click();
  await after.getByText("today", { exact: true }).waitFor();
  await page
    .getByRole("row", { name: /^facts/ })
    .getByRole("button", { name: "same" })
    .click();
  await page.getByText("Both are the same.").waitFor();

  const { id } = await server.call("POST", "/api/tasks", {
    prompt: say({ fail: "out of ink" }),
  });
  await server.until(
    async () => (await server.call("GET", `/api/tasks/${id}`)).status === "failed",
    "a failure",
  );
  const again = await server.call("POST", `/api/tasks/${id}/retry`);
  await page.goto(`/tasks/${again.id}`);
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByText("Neither has one.").waitFor();
  await page.getByRole("button", { name: "Prompt" }).click();
  await page.getByText("Both are the same.").waitFor();
  await looksOf(page, "task-texts");
  await close(page);
});

test("a graph of seven steps is seen whole and can be read, one of forty has a map", async () => {
  const chain = (number) =>
    Array.from({ length: number }, (_, index) => ({
      id: `step-${index}`,
      prompt: "x",
      queue: "nobody",
      dependsOn: index ? [`step-${index - 1}`] : [],
    }));
  const run = async (number) => {
    const { id } = await server.call("POST", "/api/plans", { name: `${number} steps`, steps: chain(number) });
    return (await server.call("POST", `/api/plans/${id}/execute`, {})).id;
  };
  const page = await open(browser, server, null);
  await resize(page, { width: 1366, height: 768 });
  const seven = await run(7);
  for (const query of ["", "?step=step-3"]) {
    await page.goto(`/executions/${seven}${query}`);
    await page.waitForFunction(readable, 7);
    await looksOf(page, `execution-seven${query && "-drawer"}`);
    await resize(page, { width: 1366, height: 768 });
  }
  assert.equal(await page.locator(".executions-map").count(), 0);
  await page.goto(`/executions/${await run(40)}`);
  await page.getByRole("img", { name: "Map of 40 steps" }).waitFor();
  await resize(page, WINDOW);
  await close(page);
});

/** In the page: all steps are in the frame, and the smallest text of each has 12 px. */
const readable = (number) => {
  const frame = document.querySelector(".executions-graph")?.getBoundingClientRect();
  const all = [...document.querySelectorAll(".executions-node")].map((it) => ({
    box: it.getBoundingClientRect(),
    zoom: it.getBoundingClientRect().height / it.offsetHeight,
    size: Number.parseFloat(getComputedStyle(it.querySelector(".status")).fontSize),
  }));
  return (
    all.length === number &&
    all.every(
      ({ box, zoom, size }) =>
        zoom * size >= 12 &&
        box.left >= frame.left &&
        box.right <= frame.right &&
        box.top >= frame.top &&
        box.bottom <= frame.bottom,
    )
  );
};
