import { expect, test } from "vitest";
import { requestOf } from "./fork";
import { HEIGHT, placed, WIDTH } from "./layout";
import { barsOf, compared, countsOf, type Execution, type Plan, stepsOf, withStep } from "./steps";

const step = (id: string, dependsOn: string[] = []) => ({ id, dependsOn, requiresApproval: false });
const plan = { steps: [step("a"), step("b", ["a"]), step("c")] } as unknown as Plan;
const execution = (steps: object) => ({ id: "x", status: "running", steps }) as unknown as Execution;
const event = (name: string, data: object) => ({ event: name, data: { executionId: "x", ...data } });

test("every step is there from the start, in the order of the plan", () => {
  const steps = stepsOf(plan, execution({ b: { status: "pending", awaitingApproval: true } }));
  expect(steps.map(({ id, state }) => [id, state])).toEqual([
    ["a", "pending"],
    ["b", "awaiting_approval"],
    ["c", "pending"],
  ]);
  expect(countsOf(steps)).toEqual([
    ["awaiting_approval", 1],
    ["pending", 2],
  ]);
});

test("without the plan, the steps that the execution names are shown", () => {
  const steps = stepsOf(undefined, execution({ b: { status: "failed" }, a: { status: "completed" } }));
  expect(steps.map(({ id }) => id)).toEqual(["a", "b"]);
});

test("a step over a list is one step with the counts of its items", () => {
  const [first] = stepsOf(plan, execution({ a: { status: "running", items: { completed: 2, running: 1 } } }));
  expect(first?.items).toEqual({ completed: 2, running: 1 });
});

test("an event of a step changes that step alone", () => {
  const before = execution({ a: { status: "pending", waitingFor: "worker" }, c: { status: "running" } });
  const after = withStep(before, event("step.started", { id: "a", status: "running", taskId: "t" }));
  expect(after.steps?.a).toEqual({ status: "running", taskId: "t" });
  expect(after.steps?.c).toBe(before.steps?.c);
});

test("a step that starts again leaves behind how it ended", () => {
  const before = execution({ a: { status: "failed", error: { code: "X", message: "" }, completedAt: "t" } });
  const after = withStep(before, event("step.started", { id: "a", status: "running", attempt: 2 }));
  expect(after.steps?.a).toEqual({ status: "running", attempt: 2 });
});

test("the end of a step keeps what is known of it", () => {
  const before = execution({ a: { status: "running", startedAt: "t", output: "so far" } });
  const after = withStep(before, event("step.completed", { id: "a", status: "completed" }));
  expect(after.steps?.a).toEqual({ status: "completed", startedAt: "t", output: "so far" });
});

test("an event of an item leaves its step as it is", () => {
  const before = execution({ a: { status: "running", items: { completed: 1, running: 2 } } });
  expect(withStep(before, event("step.completed", { id: "a", item: 1, status: "completed" }))).toBe(before);
});

test("an event of another execution changes nothing", () => {
  const before = execution({});
  expect(
    withStep(before, { event: "step.started", data: { id: "a", executionId: "y", status: "running" } }),
  ).toBe(before);
});

test("bars are shares of the whole, and a running one has no end", () => {
  const at = (ms: number) => new Date(ms).toISOString();
  const steps = stepsOf(
    plan,
    execution({
      a: { status: "completed", startedAt: at(0), completedAt: at(50) },
      b: { startedAt: at(50) },
    }),
  );
  expect(barsOf(steps, 0, 100)).toEqual([
    { id: "a", from: 0, to: 0.5 },
    { id: "b", from: 0.5, to: undefined },
    { id: "c", from: undefined, to: undefined },
  ]);
});

test("two runs are compared step by step", () => {
  const one = stepsOf(plan, execution({ a: { status: "completed", output: "1" }, b: { status: "failed" } }));
  const other = stepsOf(
    plan,
    execution({ a: { status: "completed", output: "2" }, b: { status: "completed" } }),
  );
  const rows = compared(one, other.slice(0, 2));
  expect(rows.map(({ id, differs }) => [id, differs])).toEqual([
    ["a", ["output"]],
    ["b", ["state"]],
    ["c", ["missing"]],
  ]);
});

test.each([30, 130])("of %i steps each stands right of what it depends on, and none on another", (length) => {
  const steps = Array.from({ length }, (_, index) =>
    step(`s${index}`, index < 5 ? [] : [`s${index - 5}`, `s${index - 3}`].slice(0, (index % 2) + 1)),
  );
  const places = placed([...steps, step("z", [`s${length - 1}`, "gone"])]);
  expect(places.size).toBe(length + 1);
  for (const { id, dependsOn } of steps) {
    for (const before of dependsOn) expect(places.get(before)?.x).toBeLessThan(places.get(id)?.x ?? 0);
  }
  const all = [...places.values()];
  for (const one of all) {
    const hits = all.filter((it) => Math.abs(it.x - one.x) < WIDTH && Math.abs(it.y - one.y) < HEIGHT);
    expect(hits).toEqual([one]);
  }
});

test("500 steps are placed within a second", () => {
  const steps = Array.from({ length: 500 }, (_, index) =>
    step(`s${index}`, index < 20 ? [] : [`s${index - 20}`, `s${index - 1 - (index % 7)}`]),
  );
  const start = performance.now();
  expect(placed(steps).size).toBe(500);
  expect(performance.now() - start).toBeLessThan(1_000);
});

test("a fork is asked for with what differs and nothing else", () => {
  const original = { id: "x", input: { word: "one" } } as unknown as Execution;
  expect(requestOf(original, "", "", { word: "one" })).toEqual({});
  expect(requestOf(original, "b", "2", { word: "two" })).toEqual({
    fromStep: "b",
    version: "2",
    input: { word: "two" },
  });
});
