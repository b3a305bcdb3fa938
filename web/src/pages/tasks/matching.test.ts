import { expect, test } from "vitest";
import { ApiError, type Schemas } from "../../api/client";
import { actOf, begin, cancelRows, type Job, matching } from "./matching";

type Body = Schemas["StartBulk"];

/** A server on which so many tasks are of each status. */
function server(numbers: Record<string, number>, asked: Body[] = []) {
  return async (body: Body) => {
    asked.push(body);
    const total = (body.filter.status ?? []).reduce((sum, status) => sum + (numbers[status] ?? 0), 0);
    return { total } as Job;
  };
}

test("what matches is counted by status, and nothing is done", async () => {
  const asked: Body[] = [];
  const found = await matching(
    "cancel",
    { queue: "q" },
    server({ pending: 200, running: 50, failed: 9 }, asked),
  );
  expect(found.total).toBe(250);
  expect(found.counts).toEqual([
    { status: "pending", number: 200 },
    { status: "running", number: 50 },
  ]);
  expect(asked.every(({ dryRun }) => dryRun)).toBe(true);
});

test("the filter is asked for as it is, with the statuses that the action changes", async () => {
  const query = {
    queue: "q",
    tags: ["a"],
    status: ["running" as const, "failed" as const],
    orderBy: "priority" as const,
  };
  const { filter } = await matching("cancel", query, server({}));
  expect(filter).toEqual({ queue: "q", tags: ["a"], status: ["running"] });
});

test("a filter for what has ended matches nothing, and asks nothing", async () => {
  const asked: Body[] = [];
  expect((await matching("cancel", { status: ["failed"] }, server({ failed: 1 }, asked))).total).toBe(0);
  expect(asked).toEqual([]);
});

test("the job is told the number that was shown", async () => {
  const asked: Body[] = [];
  const ask = server({ pending: 3 }, asked);
  await begin(await matching("cancel", { queue: "q" }, ask), ask);
  expect(asked.at(-1)).toEqual({
    action: "cancel",
    filter: { queue: "q", status: ["pending", "running"] },
    expect: 3,
  });
});

test("what has ended is tried again, all else cancelled", () => {
  expect(actOf([])).toBe("cancel");
  expect(actOf(["failed", "running"])).toBe("cancel");
  expect(actOf(["completed"])).toBe("cancel");
  expect(actOf(["failed", "cancelled"])).toBe("retry");
});

test("exactly these rows are cancelled; what ended before and what is refused is told", async () => {
  const asked: string[] = [];
  const steps: number[] = [];
  const outcome = await cancelRows(
    ["a", "b", "c"],
    ({ done }) => steps.push(done),
    () => false,
    async (id) => {
      asked.push(id);
      if (id === "b") throw new ApiError(409, "INVALID_STATE", "it has ended");
      if (id === "c") throw new ApiError(403, "FORBIDDEN", "no");
    },
  );
  expect(asked.sort()).toEqual(["a", "b", "c"]);
  expect(outcome).toEqual({ done: 3, changed: 1, skipped: 1, failed: [{ id: "c", why: "no" }] });
  expect(steps).toEqual([1, 2, 3]);
});

test("it can be stopped between two tasks", async () => {
  let count = 0;
  const ids = Array.from({ length: 50 }, (_, index) => `t${index}`);
  const outcome = await cancelRows(
    ids,
    () => {},
    () => count >= 8,
    async () => void count++,
  );
  expect(outcome.done).toBe(8);
});
