// Outputs that wait for a reviewer, for the scenarios of the review page.
import { after, before } from "node:test";
import { launch } from "./browser.mjs";
import { startServer } from "./server.mjs";
import { startWorker } from "./worker.mjs";

/** A server, a browser and a worker for the scenarios of a file. */
export function stage() {
  const on = {};
  before(async () => {
    on.server = await startServer();
    on.browser = await launch();
    on.worker = await startWorker(on.server);
  });
  after(async () => {
    on.worker?.stop();
    await on.browser?.close();
    await on.server?.stop();
  });

  /** A task whose output waits. */
  on.held = async (say, more = {}) => {
    const { confidence = 0.7, ...body } = more;
    const prompt = JSON.stringify({ say, confidence });
    const { id } = await on.server.call("POST", "/api/tasks", { prompt, hitl: { required: true }, ...body });
    await on.waits(id);
    return id;
  };
  on.item = (id) => on.server.call("GET", `/api/hitl/${id}`);
  on.waits = (id) =>
    on.server.until(
      async () => (await on.server.answer("GET", `/api/hitl/${id}`)).success,
      `the approval of ${id}`,
    );
  on.decided = (id) => on.server.until(async () => (await on.item(id)).decision, `the decision on ${id}`);
  /** Rejects every waiting output, so that each scenario has its own items. */
  on.clear = async () => {
    const waiting = await on.server.call("GET", "/api/hitl/pending?includeExpired=true&limit=100");
    for (const { taskId } of waiting)
      await on.server.call("POST", `/api/hitl/${taskId}/reject`, { reason: "cleared" });
  };
  return on;
}

/** Waits until the open item has this text. */
export const title = async (page, text) => {
  await page.locator(".review-panel").getByText(text).first().waitFor();
  // A key of a decision counts once the list is read, which shows its length then.
  await page.locator(".review-side .review-head .grow", { hasText: /\d/ }).waitFor({ state: "attached" });
};
/** The page's clock moves over the time in which a decision can be undone. */
export const undoEnds = (page) => page.clock.fastForward(5_000);

/** Waits until the item is old enough for a key or a click to mean it. */
export const armed = (page) => page.locator('[data-armed="true"]').waitFor();

export async function approve(page) {
  await armed(page);
  await page.keyboard.press("a");
}

export async function approveEdit(page) {
  await armed(page);
  await page.getByRole("button", { name: "Approve the edit" }).click();
}
