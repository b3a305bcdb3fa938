import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { apply, begun } from "./cache";
import type { LiveEvent } from "./socket";

const event = (kind: string, id: string, data: Record<string, unknown>): LiveEvent => ({
  event: `${kind}.completed`,
  at: "",
  resource: { kind, id },
  data,
});

test("an event changes the row that is shown at once, in every form of the list", () => {
  const client = new QueryClient();
  const row = { id: "a", status: "running", prompt: "p" };
  client.setQueryData(["/api/tasks", {}, "page"], { items: [row], total: 1 });
  client.setQueryData(["/api/tasks", {}, "rows"], { pages: [{ items: [row], total: 1 }], pageParams: [0] });
  client.setQueryData(["/api/tasks/{id}", { path: { id: "a" } }], row);
  client.setQueryData(["/api/tasks/{id}", { path: { id: "b" } }], { ...row, id: "b" });
  apply(client, event("task", "a", { id: "a", status: "completed" }));
  const now = { ...row, status: "completed" };
  expect(client.getQueryData(["/api/tasks", {}, "page"])).toEqual({ items: [now], total: 1 });
  expect(client.getQueryData(["/api/tasks", {}, "rows"])).toMatchObject({ pages: [{ items: [now] }] });
  expect(client.getQueryData(["/api/tasks/{id}", { path: { id: "a" } }])).toEqual(now);
  expect(client.getQueryData(["/api/tasks/{id}", { path: { id: "b" } }])).toMatchObject({
    status: "running",
  });
});

test("an event about another item leaves what is shown as it is", () => {
  const client = new QueryClient();
  const list = { items: [{ id: "a" }], total: 1 };
  client.setQueryData(["/api/tasks", "page"], list);
  apply(client, event("task", "z", { id: "z" }));
  expect(client.getQueryData(["/api/tasks", "page"])).toBe(list);
});

/** A list that is shown; `answer` ends the read that is on its way. */
function shown(client: QueryClient, path: string) {
  const reads: ((found: string) => void)[] = [];
  const queryFn = () => new Promise<string>((resolve) => reads.push(resolve));
  const observer = new QueryObserver(client, {
    queryKey: [path, {}],
    queryFn,
    staleTime: Number.POSITIVE_INFINITY,
  });
  observer.subscribe(() => {});
  const answer = async (found: string) => {
    reads.at(-1)?.(found);
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { count: () => reads.length, answer, data: () => observer.getCurrentResult().data };
}

test("what was read before a subscription began is read again, and nothing else is", async () => {
  const client = new QueryClient();
  const [tasks, outputs] = [shown(client, "/api/tasks"), shown(client, "/api/hitl")];
  await tasks.answer("before");
  await outputs.answer("before");
  begun(client, ["task.created"]);
  expect([tasks.count(), outputs.count()]).toEqual([2, 1]);
  await tasks.answer("after");
  expect(tasks.data()).toBe("after");
});

test("a first answer that is on its way is waited for, and read again", async () => {
  const client = new QueryClient();
  const tasks = shown(client, "/api/tasks");
  begun(client, ["task.*"]);
  expect(tasks.count()).toBe(1);
  await tasks.answer("before");
  expect([tasks.data(), tasks.count()]).toEqual(["before", 2]);
  await tasks.answer("after");
  expect(tasks.data()).toBe("after");
});

test("a read that is on its way is not given up for an event: it is shown, and read again once", async () => {
  const client = new QueryClient();
  const tasks = shown(client, "/api/tasks");
  await tasks.answer("first");
  for (let number = 0; number < 3; number++) begun(client, ["task.*"]);
  expect([tasks.count(), tasks.data()]).toEqual([2, "first"]);
  await tasks.answer("second");
  expect([tasks.count(), tasks.data()]).toEqual([3, "second"]);
  await tasks.answer("third");
  expect([tasks.count(), tasks.data()]).toEqual([3, "third"]);
});
