// The overview: what needs attention, and nothing that does not.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { accessible, close, launch, live, loaded, looksOf, open, shot } from "./support/browser.mjs";
import { program, startServer } from "./support/server.mjs";
import { startWorker } from "./support/worker.mjs";

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

test("an empty server teaches: no worker, nothing waits, and the commands", async () => {
  const page = await open(browser, server, "/");
  await page.getByText("No worker is connected: no task runs.").waitFor();
  await page.getByText("No output waits").waitFor();
  await page.getByText("No execution failed.").waitFor();
  await accessible(page, "empty");
  await shot(page, "home-empty");
  await close(page);
});

test("every empty page has a command that the program understands, and a button that runs the example", async () => {
  const page = await open(browser, server, null);
  const buttons = [];
  for (const path of [
    "/",
    "/review",
    "/executions",
    "/batches",
    "/tasks",
    "/plans",
    "/workers",
    "/queues",
    "/insights",
    "/insights?tab=cost",
    "/insights?tab=latency",
    "/schedules",
    "/budgets",
    "/admin/keys",
    "/admin/deliveries",
  ]) {
    await page.goto(path);
    await loaded(page);
    const text = await page.locator("main .command code").first().textContent();
    if ((await page.getByRole("button", { name: "Run an example" }).count()) > 0) buttons.push(path);
    if (text.startsWith("curl ")) continue;
    const words = [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c);
    assert.equal(words.shift(), "callboard", path);
    await promisify(execFile)(program, [...words, "--help"]).catch(({ stderr }) =>
      assert.fail(`${path}: ${text}: ${stderr}`),
    );
  }
  assert.deepEqual(buttons, [
    "/",
    "/review",
    "/executions",
    "/tasks",
    "/plans",
    "/queues",
    "/insights",
    "/insights?tab=cost",
    "/insights?tab=latency",
  ]);
  await page.goto("/executions");
  await page.getByRole("button", { name: "Run an example" }).click();
  await page.locator(".executions-node").first().waitFor();
  const [execution] = await server.call("GET", "/api/plans/executions");
  await server.call("DELETE", `/api/plans/executions/${execution.id}`);
  await close(page);
});

test("what happens is shown as it happens: reviews, failures by template, the week", async () => {
  const worker = await startWorker(server);
  const page = await open(browser, server, "/", { clock: true });
  await page.getByText("1 worker", { exact: true }).waitFor();
  await live(page);
  await server.call("POST", "/api/tasks", {
    prompt: '{"say": "Dear customer, your parcel arrives on Monday.", "confidence": 0.61}',
    hitl: { required: true },
  });
  await page.getByRole("link", { name: "Dear customer, your parcel arrives on Monday." }).waitFor();
  const template = {
    name: "Letters",
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties: { who: { type: "string" } }, required: ["who"] },
    steps: [{ id: "letter", prompt: '{"fail": "no ink for {{input.who}}"}' }],
  };
  const { id } = await server.call("POST", "/api/templates", template);
  for (const who of ["Ann", "Ben"])
    await server.call("POST", `/api/templates/${id}/deploy`, { input: { who } });
  await page.getByText("2 broken").first().waitFor();
  await page.getByText(/no ink for/).waitFor();
  await page.getByText("Tasks that ended today, against the week").waitFor();
  await looksOf(page, "home");
  const phone = await open(browser, server, "/", { phone: true });
  await phone.getByText("2 broken").first().waitFor();
  await phone.getByRole("button", { name: "Menu" }).click();
  const review = phone.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: /^Review/ });
  await review.waitFor();
  await accessible(phone, "menu");
  await shot(phone, "menu-phone");
  await review.click();
  await phone.getByRole("heading", { name: "Review" }).waitFor();
  await close(phone);
  assert.equal(await page.getByText(/is silent/).count(), 0);
  worker.stop();
  await page.clock.fastForward(16_000);
  await page.getByText(/is silent/).waitFor();
  assert.equal(await page.locator(".home-figures dt").getByText("Failed").count(), 1);
  await close(page);
});

test("every sum on the overview is the length of the list that it links to", async () => {
  const fresh = await startServer();
  const worker = await startWorker(fresh);
  const step = (prompt, held) => [{ id: "a", prompt, requiresApproval: held }];
  const run = async (steps) => {
    const { id } = await fresh.call("POST", "/api/plans", { name: "Letters", steps });
    return (await fresh.call("POST", `/api/plans/${id}/execute`, {})).id;
  };
  for (const prompt of ['{"fail": "no ink"}', '{"fail": "no paper"}', '{"say": "fine"}'])
    await run(step(prompt));
  for (let n = 0; n < 5; n++) await run(step('{"say": "Dear Ada"}', true));
  await fresh.call("POST", "/api/tasks", { prompt: '{"fail": "no"}' });
  const held = await fresh.until(async () => {
    const found = await fresh.call("GET", "/api/hitl/pending");
    return found.length === 5 && found;
  }, "five outputs that wait");
  for (const { taskId } of held.slice(0, 3))
    await fresh.call("POST", `/api/hitl/${taskId}/reject`, { reason: "not so" });
  await fresh.until(
    async () => (await fresh.call("GET", "/api/plans/executions?status=failed")).length === 5,
    "five failed executions",
  );
  const page = await open(browser, fresh, "/");
  await page.getByText("3 rejected in review").first().waitFor();
  await page.locator("[data-sum=cost]").waitFor();
  await page.locator(".home-key a").first().waitFor();
  const sums = await page.locator("main a").evaluateAll((links) =>
    links
      .filter((it) =>
        /^(\/(executions|tasks)\?|\/review(\?|$)|\/workers\?|\/admin\/deliveries)/.test(
          it.getAttribute("href"),
        ),
      )
      .map((it) => ({ href: it.getAttribute("href"), text: it.textContent.trim() }))
      .filter(({ text }) => /\d/.test(text)),
  );
  const seen = [];
  for (const { href, text } of sums) {
    // A day of the week is a sum of three.
    const numbers = /^\d{4}-/.test(text)
      ? text.slice(11).match(/\d+(?= (completed|failed|rejected))/g)
      : [text.match(/\d+/)[0]];
    const sum = numbers.reduce((all, each) => all + Number(each), 0);
    await page.goto(href);
    await loaded(page);
    if (href.startsWith("/review")) {
      await page.locator(".review-item").first().waitFor();
      assert.equal(await page.locator(".review-item").count(), sum, `${text}: ${href}`);
    } else if (sum === 0) {
      await page.getByText(/No (execution|task) matches/).waitFor();
    } else {
      await page.locator("[role=row][data-key], tbody tr").first().waitFor();
      assert.equal(await page.locator("[role=row][data-key], tbody tr").count(), sum, `${text}: ${href}`);
    }
    seen.push(text);
  }
  for (const text of [
    "2 broken",
    "3 rejected in review",
    "of 6 that ended",
    "2 outputs wait",
    "2 under 1 h",
    "1 worker",
  ])
    assert.ok(seen.includes(text), `${text} among ${seen.join(", ")}`);
  worker.stop();
  await close(page);
  await fresh.stop();
});

test("a viewer sees the overview, and none of what only admins do", async () => {
  const viewer = await server.user("viewer");
  const page = await open(browser, server, "/", { user: viewer });
  await page.getByText("Waiting for a reviewer").waitFor();
  await page.locator(".side").getByText("viewer").first().waitFor();
  await accessible(page);
  await close(page);
});
