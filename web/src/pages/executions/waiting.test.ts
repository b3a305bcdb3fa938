import { expect, test } from "vitest";
import { unserved, waiting } from "./waiting";

type Executions = Parameters<typeof waiting>[0];
type Tasks = Parameters<typeof waiting>[1];
type Workers = Parameters<typeof unserved>[1];

const task = (id: string, more: object) =>
  ({
    id,
    status: "pending",
    queue: "default",
    model: "gpt-4",
    createdAt: "2026-11-01T00:00:00Z",
    tags: [],
    ...more,
  }) as unknown as Tasks[number];

test("what waits is in the order of its wait, and a task of an execution is shown by that", () => {
  const executions = [
    {
      id: "e1",
      startedAt: "2026-11-02T00:00:00Z",
      waitingFor: "approval",
      waitingSince: "2026-11-05T00:00:00Z",
    },
    { id: "e2", startedAt: "2026-11-03T00:00:00Z" },
    { id: "e3", startedAt: "2026-11-04T00:00:00Z", waitingFor: "signal" },
  ] as Executions;
  const tasks = [
    task("t1", { waitingFor: "worker" }),
    task("t2", { waitingFor: "approval", planExecutionId: "e1" }),
  ];
  expect(waiting(executions, tasks).map(({ id, since }) => [id, since.slice(0, 10)])).toEqual([
    ["t1", "2026-11-01"],
    ["e3", "2026-11-04"],
    ["e1", "2026-11-05"],
  ]);
});

test("a pair of queue and model that no active worker serves is named once", () => {
  const worker = (more: object) =>
    ({ status: "active", queues: ["default"], models: ["gpt-*"], ...more }) as Workers[number];
  const tasks = [
    task("t1", { waitingFor: "worker" }),
    task("t2", { waitingFor: "worker", model: "claude" }),
    task("t3", { waitingFor: "worker", model: "claude" }),
    task("t4", { waitingFor: "limit", model: "claude" }),
    task("t5", { waitingFor: "worker", queue: "night" }),
  ];
  const pairs = (workers: Workers) =>
    unserved(tasks, workers).map(({ queue, model, tasks }) => [queue, model, tasks]);
  expect(pairs([worker({})])).toEqual([
    ["default", "claude", 2],
    ["night", "gpt-4", 1],
  ]);
  expect(pairs([worker({ status: "lost", models: ["*"], queues: ["default", "night"] })])).toEqual([
    ["default", "gpt-4", 1],
    ["default", "claude", 2],
    ["night", "gpt-4", 1],
  ]);
  expect(pairs([worker({ models: ["*"], queues: ["default", "night"] })])).toEqual([]);
});
