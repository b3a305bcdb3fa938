import { expect, test } from "vitest";
import type { LiveEvent } from "../../live/socket";
import { historyOf } from "./history";
import { bodyOf } from "./submit";

type Task = Parameters<typeof historyOf>[0];
const at = (second: number) => new Date(second * 1000).toISOString();
const event = (name: string, second: number, data: object) =>
  ({ event: name, at: at(second), data, resource: { kind: "task", id: "t" } }) as LiveEvent;

test("the record and what was seen make one history, in order, with nothing twice", () => {
  const task = {
    status: "completed",
    attempt: 2,
    createdAt: at(0),
    startedAt: at(1),
    completedAt: at(9),
  } as unknown as Task;
  const seen = [
    event("task.started", 1, { attempt: 1 }),
    event("task.retrying", 2, { attempt: 1, error: { code: "PROVIDER_ERROR", message: "busy" } }),
    event("task.started", 4, { attempt: 2 }),
    event("task.completed", 9, {}),
  ];
  expect(historyOf(task, seen).map(({ words, note }) => [words, note])).toEqual([
    ["created", undefined],
    ["started", "attempt 1"],
    ["tries again", "PROVIDER_ERROR: busy"],
    ["started", "attempt 2"],
    ["completed", "attempt 2"],
  ]);
});

test("what a draft leaves empty is left to the server", () => {
  expect(JSON.parse(JSON.stringify(bodyOf({ prompt: " hi ", queue: " ", tags: " a, ,b " })))).toEqual({
    prompt: " hi ",
    tags: ["a", "b"],
  });
  expect(bodyOf({ prompt: "x", priority: "7", review: true })).toMatchObject({
    priority: 7,
    hitl: { required: true },
  });
});
