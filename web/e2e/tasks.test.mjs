// Tasks: filters in the address, cancelling exactly what matches, the form, the stream, hostile output.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, close, launch, live, loaded, looksOf, open, shot } from "./support/browser.mjs";
import { startServer } from "./support/server.mjs";
import { allowed } from "./support/wait.mjs";
import { startWorker } from "./support/worker.mjs";

let server;
let browser;
let worker;
before(async () => {
  server = await startServer();
  browser = await launch();
});
after(async () => {
  worker?.stop();
  await browser?.close();
  await server?.stop();
});

const submit = (body) => server.call("POST", "/api/tasks", body);
const task = (id) => server.call("GET", `/api/tasks/${id}`);
const total = async (query) => (await server.answer("GET", `/api/tasks?limit=1&${query}`)).pagination.total;
async function many(number, body) {
  for (let left = number; left > 0; left -= 100) {
    const tasks = Array.from({ length: Math.min(100, left) }, () => ({ prompt: "wait", ...body }));
    await server.call("POST", "/api/tasks/batch", { tasks });
  }
}

test("an empty list teaches, and the form submits", async () => {
  const page = await open(browser, server, "/tasks");
  await page.getByText("No task was submitted yet").waitFor();
  await accessible(page, "empty");
  await shot(page, "tasks-empty");
  await page.getByRole("button", { name: "Submit a task" }).first().click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Prompt", { exact: true }).fill("What is a callboard?");
  await form.getByLabel("Priority").fill("77");
  await form.getByLabel("Tags").fill("asked, by hand");
  await accessible(page, "form");
  await page.reload();
  await form.getByLabel("Prompt", { exact: true }).waitFor();
  assert.equal(await form.getByLabel("Prompt", { exact: true }).inputValue(), "What is a callboard?");
  await form.getByRole("button", { name: "Submit" }).click();
  await form.locator(".fault").waitFor();
  await shot(page, "tasks-form");
  await form.getByLabel("Priority").fill("7");
  await form.getByRole("button", { name: "Submit" }).click();
  await page.waitForURL(/\/tasks\/dt_task_/);
  const made = await task(new URL(page.url()).pathname.split("/").at(-1));
  assert.equal(made.prompt, "What is a callboard?");
  assert.equal(made.priority, 7);
  assert.deepEqual([...made.tags].sort(), ["asked", "by hand"]);
  await page.getByText("waits for a worker that has room").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator('[data-task-state="cancelled"]').waitFor();
  await close(page);
});

test("bulk cancel says the number first, and touches only what matches", async () => {
  await many(130, { queue: "old", tags: ["import"] });
  await many(20, { queue: "old", tags: ["keep"] });
  await many(15, { queue: "new", tags: ["import"] });
  const page = await open(browser, server, "/tasks?queue=old&tags=import");
  await page.getByText("130 tasks").waitFor();
  await page.getByRole("button", { name: "Cancel all that match" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("130 tasks match: 130 pending, 0 running.").waitFor();
  await accessible(page, "bulk");
  await shot(page, "tasks-bulk");
  assert.equal(await total("status=cancelled&queue=old"), 0, "nothing is done before it is said");
  // Another number by the time of the click: nothing is done, and the new number is said.
  const { id: later } = await submit({ prompt: "later", queue: "old", tags: ["import"] });
  await dialog.getByRole("button", { name: "Cancel 130 tasks" }).click();
  await dialog.getByText("Another number of tasks matches by now. Nothing was done.").waitFor();
  await dialog.getByText("131 tasks match").waitFor();
  assert.equal(await total("status=cancelled&queue=old"), 0);
  await server.call("DELETE", `/api/tasks/${later}`);
  await dialog.getByRole("button", { name: "Cancel 131 tasks" }).click();
  await dialog.getByRole("button", { name: "Cancel 130 tasks" }).click();
  await dialog.getByText("130 of 130 tasks cancelled.").waitFor();
  assert.equal(await total("status=cancelled&queue=old&tags=import"), 131);
  assert.equal(await total("status=pending&queue=old&tags=keep"), 20);
  assert.equal(await total("status=pending&queue=new"), 15);
  const [job] = await server.call("GET", "/api/bulk?limit=1");
  assert.deepEqual([job.action, job.succeeded, job.total], ["cancel", 130, 130]);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await page.goto("/tasks?status=completed");
  await page.getByRole("button", { name: "Cancel all that match" }).click();
  await dialog.getByText("there is nothing to cancel").waitFor();
  await close(page);
});

test("what was cancelled is submitted again in bulk, and nothing else", async () => {
  const page = await open(browser, server, "/tasks?queue=old&tags=import&status=cancelled");
  await page.getByText("131 tasks").waitFor();
  await page.getByRole("button", { name: "Retry all that match" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Retry 131 tasks" }).click();
  await dialog.getByText("131 of 131 tasks submitted again.").waitFor();
  assert.equal(await total("status=pending&queue=old&tags=import"), 131);
  assert.equal(await total("status=pending&queue=old&tags=keep"), 20);
  await close(page);
});

test("selected rows are cancelled, and no others", async () => {
  const page = await open(browser, server, "/tasks?queue=new&status=pending");
  await page.getByText("15 tasks").waitFor();
  await loaded(page);
  const boxes = page.locator(".table-body input[type=checkbox]");
  const ids = await page.$$eval(".table-body .table-row", (all) => all.map((it) => it.dataset.key));
  await boxes.nth(1).check();
  await boxes.nth(3).check();
  await page.getByRole("button", { name: "Cancel the selected" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 2 tasks" }).click();
  await page.getByText("2 of 2 tasks cancelled.").waitFor();
  assert.equal((await task(ids[1])).status, "cancelled");
  assert.equal((await task(ids[3])).status, "cancelled");
  assert.equal(await total("status=pending&queue=new"), 13);
  await close(page);
});

test("the filters survive a reload, and the list follows what happens", async () => {
  const page = await open(browser, server, "/tasks");
  await page.getByRole("button", { name: "pending", exact: true }).click();
  await page.getByLabel("Queue").fill("new");
  await page.getByLabel("Queue").press("Enter");
  await page.getByText("13 tasks").waitFor();
  await page.reload();
  await page.getByText("13 tasks").waitFor();
  assert.equal(await page.getByLabel("Queue").inputValue(), "new");
  await live(page);
  const { id } = await submit({ prompt: "one more", queue: "new" });
  await page.getByText("14 tasks").waitFor();
  await server.call("DELETE", `/api/tasks/${id}`);
  await page.getByText("13 tasks").waitFor();
  await close(page);
  const all = await open(browser, server, "/tasks");
  await all.locator(".table-body .table-row").first().waitFor();
  await looksOf(all, "tasks");
  await close(all);
});

test("a task's text streams, and its end is shown without a reload", async () => {
  const words = ["one ", "two ", "three ", "four ", "five ", "six"];
  const { id } = await submit({ prompt: JSON.stringify({ hang: true }), queue: "live" });
  const page = await open(browser, server, `/tasks/${id}`);
  const text = page.locator(".tasks-output .long-text");
  await page.getByText("Not yet.").waitFor();
  await live(page);
  worker = await startWorker(server, { queues: ["live"] });
  const lease = await worker.lease();
  let sent = "";
  for (const word of words) {
    worker.send({ type: "delta", lease, text: word });
    sent += word;
    await text.getByText(sent.trim(), { exact: true }).waitFor();
  }
  assert.equal((await task(id)).status, "running");
  worker.complete(lease, { say: sent });
  await page.locator('[data-task-state="completed"]').waitFor();
  await text.getByText("one two three four five six").waitFor();
  await page.getByText("12 in, 34 out").waitFor();
  await looksOf(page, "task");
  await close(page);
});

test("hostile output stays text: HTML, Markdown, ANSI, RTL, 1 MB", async () => {
  const hostile = [
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "# heading **bold** [link](javascript:alert(1)) ![i](http://127.0.0.1:1/x.png)",
    "\u001b[31mred\u001b[0m \u202eright to left\u202c \u0007",
  ].join("\n");
  const big = `${hostile}\n${"0123456789abcdef ".repeat(60_000)}`.slice(0, 1_000_000);
  const { id } = await submit({ prompt: JSON.stringify({ say: big }), queue: "live" });
  await server.until(async () => (await task(id)).status === "completed", "the end");
  const page = await open(browser, server, null);
  const foreign = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url)) foreign.push(request.url());
  });
  await page.goto(`/tasks/${id}`);
  const text = page.locator(".tasks-output .long-text");
  await text.getByText("<script>document.title='owned'</script>").waitFor();
  assert.equal(await text.locator("img, a, b, strong, h1, script").count(), 0);
  assert.match(await text.textContent(), /␛\[31mred␛\[0m ‹U\+202E›right to left‹U\+202C› ␇/);
  const start = Date.now();
  await text.getByRole("button", { name: "Show all" }).click();
  await page.waitForFunction(
    () => document.querySelector(".long-text")?.textContent.length > 900_000,
    undefined,
    { timeout: allowed(10_000) },
  );
  console.log(`1 MB shown after ${Date.now() - start} ms`);
  assert.doesNotMatch(await page.title(), /owned/);
  assert.deepEqual(foreign, []);
  await accessible(page, "1 MB");
  await shot(page, "task-hostile");
  await close(page);
});

test("a viewer sees tasks and cannot cancel one", async () => {
  const viewer = await server.user("viewer");
  const { id } = await submit({ prompt: "wait", queue: "new" });
  const page = await open(browser, server, "/tasks?queue=new", { user: viewer });
  await page.locator(".table-body .table-row").first().waitFor();
  await loaded(page);
  assert.equal(await page.locator(".table-body input[type=checkbox]").count(), 0);
  for (const name of [/^Cancel/, /^Submit/])
    assert.equal(await page.getByRole("button", { name }).count(), 0, String(name));
  await page.goto(`/tasks/${id}`);
  await page.getByText("created").first().waitFor();
  await loaded(page);
  for (const name of [/^Cancel/, /^Submit/])
    assert.equal(await page.getByRole("button", { name }).count(), 0, String(name));
  assert.equal((await task(id)).status, "pending");
  await page.goto("/tasks/dt_task_00000000000000000000000000");
  await page.getByRole("alert").waitFor();
  await shot(page, "task-missing");
  await close(page);
});

test("what happens between the first read of a page and its subscription is shown", async () => {
  const page = await open(browser, server, null, { anew: true });
  let subscribe;
  const held = new Promise((resolve) => {
    subscribe = resolve;
  });
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const behind = socket.connectToServer();
    socket.onMessage(async (message) => {
      if (String(message).includes('"task.*"')) await held;
      behind.send(message);
    });
  });
  await page.goto("/tasks?queue=between");
  await page.getByText("0 tasks").or(page.getByText("No task matches")).first().waitFor();
  await submit({ prompt: "in between", queue: "between" });
  subscribe();
  await page.getByText("1 task", { exact: true }).waitFor();
  await close(page);
});
