// The overview: what needs attention, and nothing that does not.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, launch, live, open, shot } from "./support/browser.mjs";
import { allowed, startServer } from "./support/server.mjs";
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
  await page.getByText("None failed.").waitFor();
  await accessible(page, "empty");
  await shot(page, "home-empty");
  await close(page);
});

test("what happens is shown as it happens: reviews, failures by template, the week", async () => {
  const worker = await startWorker(server);
  const page = await open(browser, server, "/");
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
  await page.getByText("2 of 2 failed").waitFor();
  await page.getByText(/no ink for/).waitFor();
  for (const theme of ["light", "dark"]) {
    const other = await open(browser, server, "/", { theme });
    await other.getByText("2 of 2 failed").waitFor();
    await other.getByText("Failed today").waitFor();
    await accessible(other, theme);
    await shot(other, `home-${theme}`);
    await close(other);
  }
  const phone = await open(browser, server, "/", { phone: true });
  await phone.getByText("2 of 2 failed").waitFor();
  await accessible(phone, "phone");
  await shot(phone, "home-phone");
  await phone.getByRole("button", { name: "Menu" }).click();
  const review = phone.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: /^Review/ });
  await review.waitFor();
  await accessible(phone, "menu");
  await shot(phone, "menu-phone");
  await review.click();
  await phone.getByRole("heading", { name: "Review" }).waitFor();
  await close(phone);
  worker.stop();
  await page.getByText(/is silent/).waitFor({ timeout: allowed(40_000) });
  assert.equal(await page.getByText("Failed today").count(), 1);
  await close(page);
});

test("a viewer sees the overview, and none of what only admins do", async () => {
  const viewer = await server.user("viewer");
  const page = await open(browser, server, "/", { user: viewer });
  await page.getByText("Waiting for a reviewer").waitFor();
  await page.locator(".side").getByText("viewer").first().waitFor();
  await accessible(page);
  await close(page);
});
