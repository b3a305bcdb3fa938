// How soon a page is there, from Chromium's own measurements. The limits leave room for a busy machine;
// docs/how-to/dashboard.md has figures.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, loaded, open } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { allowed } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;
before(async () => {
  server = await startServer();
  browser = await launch();
  worker = await startWorker(server);
  const tasks = Array.from({ length: 100 }, (_, index) => ({
    prompt: JSON.stringify({ say: `Answer ${index} to a customer.`, confidence: 0.5 }),
    hitl: { required: true },
  }));
  await server.call("POST", "/api/tasks/batch", { tasks });
  const waiting = () => server.answer("GET", "/api/hitl/pending?limit=1");
  await server.until(async () => (await waiting()).pagination.total === 100, "100 reviews");
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

for (const [path, ready] of [
  ["/", ".home-list li"],
  ["/review", '[data-chain="ok"]'],
]) {
  test(`${path} is there soon, and nothing jumps`, async (context) => {
    const page = await open(browser, server, null, { anew: true });
    await page.addInitScript(() => {
      window.seen = { shift: 0, long: 0, paint: 0 };
      const watch = (type, each) =>
        new PerformanceObserver((list) => list.getEntries().forEach(each)).observe({ type, buffered: true });
      watch("layout-shift", (entry) => {
        if (!entry.hadRecentInput) window.seen.shift += entry.value;
      });
      watch("longtask", (entry) => {
        window.seen.long += entry.duration;
      });
      watch("largest-contentful-paint", (entry) => {
        window.seen.paint = entry.startTime;
      });
    });
    const figures = [];
    for (let round = 0; round < 3; round++) {
      await page.goto(path);
      await page.locator(ready).first().waitFor();
      const usable = await page.evaluate(() => performance.now());
      await loaded(page);
      const { shift, long, paint } = await page.evaluate(() => window.seen);
      figures.push({ usable: Math.round(usable), paint: Math.round(paint), long: Math.round(long), shift });
    }
    context.diagnostic(JSON.stringify(figures));
    for (const { usable, shift } of figures) {
      assert.ok(usable < allowed(1_500), `usable after ${usable} ms`);
      assert.ok(shift < 0.1, `shifts by ${shift}`);
    }
    await close(page);
  });
}
