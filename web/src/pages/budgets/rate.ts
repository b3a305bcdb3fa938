/** How fast a budget is spent, and when nothing is left. */
import type { Schemas } from "../../api/client";

export type Budget = Schemas["Budget"];
export type By = "model" | "template" | "tag" | "account";

const DAY = 86_400_000;

export const leftOf = ({ limit, spent, reserved = 0 }: Budget) => Math.max(0, limit - spent - reserved);

/**
 * The group of the usage that holds the tasks of a budget: `all` for every task, nothing where the budget asks for
 * several things at once, which the usage does not add up.
 */
export function groupOf({ match }: Budget): { by: By; key: string } | "all" | undefined {
  const { account, templateId, model } = match;
  const tags = match.tags ?? [];
  const asked: { by: By; key: string }[] = [
    ...tags.map((key) => ({ by: "tag" as const, key })),
    ...(account ? [{ by: "account" as const, key: account }] : []),
    ...(templateId ? [{ by: "template" as const, key: templateId }] : []),
    ...(model ? [{ by: "model" as const, key: model }] : []),
  ];
  return asked.length === 0 ? "all" : asked.length === 1 ? asked[0] : undefined;
}

/** USD a day since the period began, or since the budget was created if that is later; at least of an hour. */
export function meanRate({ spent, periodStart, createdAt }: Budget, now: number): number {
  const began = Math.max(Date.parse(createdAt), periodStart ? Date.parse(periodStart) : 0);
  return spent / (Math.max(now - began, DAY / 24) / DAY);
}

export type RunsOut = { at: number } | "spent" | "never" | "not before its end";

/** When nothing is left at a rate in USD a day. */
export function runsOut(budget: Budget, rate: number, now: number): RunsOut {
  const left = leftOf(budget);
  if (left <= 0) return "spent";
  if (rate <= 0) return "never";
  const at = now + (left / rate) * DAY;
  if (budget.periodEnd && at >= Date.parse(budget.periodEnd)) return "not before its end";
  // Beyond a century it is no forecast.
  return at - now > 36_500 * DAY ? "never" : { at };
}

/** The shares of the limit that are spent and reserved, 0 to 1; more than all is all. */
export function sharesOf({ limit, spent, reserved = 0 }: Budget): { spent: number; reserved: number } {
  if (limit <= 0) return { spent: 1, reserved: 0 };
  const of = Math.min(1, spent / limit);
  return { spent: of, reserved: Math.min(1 - of, reserved / limit) };
}
