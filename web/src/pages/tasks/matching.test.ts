import { expect, test } from "vitest";
import { ApiError } from "../../api/client";
import { cancelAll, matching, type Read, type TaskQuery, type TaskRow } from "./matching";

const task = (id: number, status = "pending", planExecutionId?: string) =>
  ({ id: `t${id}`, status, planExecutionId }) as unknown as TaskRow;

function list(tasks: TaskRow[], asked: TaskQuery[] = []): Read {
  return async (query) => {
    asked.push(query);
    const all = tasks.filter(({ status }) => query.status?.includes(status as "pending"));
    const { offset = 0, limit = 0 } = query;
    return { items: all.slice(offset, offset + limit), hasMore: offset + limit < all.length };
  };
}

test("what matches is counted by state, over all pages", async () => {
  const tasks = Array.from({ length: 250 }, (_, index) => task(index, index % 5 ? "pending" : "running"));
  const found = await matching({ queue: "q" }, list([...tasks, task(900, "completed")]));
  expect(found.ids.length).toBe(250);
  expect(found).toMatchObject({ pending: 200, running: 50, steps: 0 });
});

test("the filter is asked for as it is, with the states that can be cancelled", async () => {
  const asked: TaskQuery[] = [];
  await matching({ queue: "q", tags: ["a"], status: ["running", "failed"] }, list([], asked));
  expect(asked).toMatchObject([{ queue: "q", tags: ["a"], status: ["running"] }]);
});

test("a filter for what has ended matches nothing, and asks nothing", async () => {
  const asked: TaskQuery[] = [];
  expect((await matching({ status: ["failed"] }, list([task(1, "failed")], asked))).ids).toEqual([]);
  expect(asked).toEqual([]);
});

test("what shifts a page while it is read is not missed", async () => {
  const tasks = Array.from({ length: 230 }, (_, index) => task(index));
  const read = list(tasks);
  let reads = 0;
  const shifting: Read = async (query) => {
    const answer = await read(query);
    if (++reads === 1) tasks.splice(0, 10);
    return answer;
  };
  const found = await matching({}, shifting);
  expect(found.ids).toEqual(expect.arrayContaining(tasks.map(({ id }) => id)));
});

test("exactly these are cancelled; what ended before and what is refused is told", async () => {
  const asked: string[] = [];
  const steps: number[] = [];
  const outcome = await cancelAll(
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
  expect(outcome).toEqual({ done: 3, cancelled: 1, ended: 1, failed: [{ id: "c", why: "no" }] });
  expect(steps).toEqual([1, 2, 3]);
});

test("it can be stopped between two tasks", async () => {
  let count = 0;
  const ids = Array.from({ length: 50 }, (_, index) => `t${index}`);
  const outcome = await cancelAll(
    ids,
    () => {},
    () => count >= 8,
    async () => void count++,
  );
  expect(outcome.done).toBe(8);
});
