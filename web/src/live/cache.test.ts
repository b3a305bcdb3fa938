import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { apply } from "./cache";
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
