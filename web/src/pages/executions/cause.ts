/** Why an execution failed: a review that rejects is one cause, and all others are faults. */
import type { ParamsOf } from "../../api/client";

type Query = NonNullable<ParamsOf<"/api/plans/executions">["query"]>;
type Code = NonNullable<Query["error"]>[number];

/** In the address: any cause but a review. */
export const BROKEN = "broken";

export const CODES: readonly Code[] = [
  "PROVIDER_ERROR",
  "PROVIDER_RATE_LIMITED",
  "TASK_TIMEOUT",
  "EXECUTION_TIMEOUT",
  "WORKER_LOST",
  "RENDER_FAILED",
  "CONDITION_FAILED",
  "OUTPUT_INVALID",
  "OUTPUT_TRUNCATED",
  "BUDGET_EXCEEDED",
  "INTERNAL_ERROR",
];

export function causeOf(value: string | null): Pick<Query, "error" | "exceptError"> {
  if (!value) return {};
  return value === BROKEN ? { exceptError: ["REJECTED"] } : { error: value.split(",") as Code[] };
}
