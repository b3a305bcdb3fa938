/** Steps as the pages show them: the plan's steps from the start, with what became of each so far. */
import { t } from "@lingui/core/macro";
import type { Schemas } from "../../api/client";
import { count } from "../../lib/format";
import { stateOf } from "../../ui/status";

export type Execution = Schemas["Execution"];
export type Plan = Schemas["Plan"];
export type StepResult = Schemas["StepResult"];
/** How many items of a step over a list are in each state. */
export type Items = Record<string, number>;

export type StepView = {
  id: string;
  dependsOn: string[];
  state: string;
  result: StepResult | undefined;
  model?: string;
  /** The function that the step calls in place of a model. */
  function?: string;
  queue?: string;
  condition?: string;
  /** The signal that a wait waits for, and the schema of its payload. */
  signal?: string;
  schema?: unknown;
  requiresApproval: boolean;
  items?: Items;
};

/** Every step of the plan in its order. Without the plan, the steps that the execution names. */
export function stepsOf(plan: Plan | undefined, execution: Execution): StepView[] {
  const results = execution.steps ?? {};
  const steps: (Pick<Plan["steps"][number], "id" | "dependsOn" | "requiresApproval"> &
    Partial<Pick<StepView, "signal" | "schema">>)[] =
    plan?.steps ??
    Object.keys(results)
      .sort()
      .map((id) => ({ id, dependsOn: [], requiresApproval: false }));
  return steps.map((step) => {
    const result = results[step.id];
    return {
      ...step,
      result,
      state: result ? stateOf(result) : "pending",
      items: (result as { items?: Items } | undefined)?.items,
    };
  });
}

/** What a step waits for, if it is a signal: its name says more than its state. */
export const waitWord = ({ state, signal, result }: StepView): string | undefined =>
  state === "pending" && signal && result?.waitingFor === "signal" ? t`waits for ${signal}` : undefined;

/** What an event of a step says at once; the rest is read again. */
const SAID = ["status", "taskId", "attempt", "startedAt", "awaitingApproval", "waitingFor"] as const;

/** The execution after an event of one of its steps. */
export function withStep(execution: Execution, event: { event: string; data: Record<string, unknown> }) {
  const { id, executionId, status } = event.data;
  if (executionId !== execution.id || typeof id !== "string" || typeof status !== "string") return execution;
  // How an item of its list ends says nothing of the step.
  if (event.data.item !== undefined) return execution;
  const known = execution.steps?.[id];
  const step = { ...known } as Record<string, unknown>;
  // A new attempt, or a new task, leaves behind how the one before ended.
  if (event.event === "step.started" || event.event === "step.retrying") {
    for (const name of ["completedAt", "durationMs", "error", "output", "waitingFor"]) delete step[name];
  }
  for (const name of SAID) if (event.data[name] !== undefined) step[name] = event.data[name];
  if (status !== "pending") delete step.waitingFor;
  return { ...execution, steps: { ...execution.steps, [id]: step as unknown as StepResult } };
}

/** How many steps are in each state, the busiest state last to change first. */
const ORDER = [
  "running",
  "awaiting_approval",
  "failed",
  "rejected",
  "pending",
  "completed",
  "skipped",
  "cancelled",
];

export function countsOf(steps: StepView[]): [state: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { state } of steps) counts.set(state, (counts.get(state) ?? 0) + 1);
  const place = (state: string) => (ORDER.indexOf(state) + ORDER.length + 1) % (ORDER.length + 1);
  return [...counts].sort(([one], [other]) => place(one) - place(other));
}

export type Bar = { id: string; from?: number; to?: number };

/** The times of the steps as shares (0..1) of the whole; without `to` a step still runs. */
export function barsOf(steps: StepView[], start: number, end: number): Bar[] {
  const whole = Math.max(1, end - start);
  const share = (at: string) => Math.min(1, Math.max(0, (Date.parse(at) - start) / whole));
  return steps.map(({ id, result }) => ({
    id,
    from: result?.startedAt ? share(result.startedAt) : undefined,
    to: result?.startedAt && result.completedAt ? share(result.completedAt) : undefined,
  }));
}

export type Difference = {
  id: string;
  one?: StepView;
  other?: StepView;
  /** What is not the same. */
  differs: ("state" | "output" | "missing")[];
};

/** Two runs side by side, in the order of the first. */
export function compared(one: StepView[], other: StepView[]): Difference[] {
  const rest = new Map(other.map((step) => [step.id, step]));
  const rows = one.map((step): Difference => {
    const twin = rest.get(step.id);
    rest.delete(step.id);
    if (!twin) return { id: step.id, one: step, differs: ["missing"] };
    const differs: Difference["differs"] = [];
    if (step.state !== twin.state) differs.push("state");
    if (step.result?.output !== twin.result?.output) differs.push("output");
    return { id: step.id, one: step, other: twin, differs };
  });
  for (const [id, step] of rest) rows.push({ id, other: step, differs: ["missing"] });
  return rows;
}

/** The states in which items are, and how many; those that wait for a reviewer are pending too. */
export const itemStates = (items: Items) =>
  Object.entries(items).filter(([state, number]) => !["total", "awaitingApproval"].includes(state) && number);

/** "3 of 10" for a step over a list. */
export function itemsLine(items: Items): string {
  const total = items.total ?? itemStates(items).reduce((sum, [, number]) => sum + number, 0);
  return t`${count(items.completed ?? 0)} of ${count(total)}`;
}
