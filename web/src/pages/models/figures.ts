/** The use of a model beside its limits, and the fall-backs from it. */
import { t } from "@lingui/core/macro";
import type { ItemOf, Schemas } from "../../api/client";
import { dollars } from "../../lib/format";

export type Model = ItemOf<"/api/models">;
type Task = ItemOf<"/api/tasks">;

export type Gauge = {
  id: string;
  label: string;
  used: number;
  limit?: number;
  /** What the provider says is left. */
  left?: Schemas["Allowance"];
};

/** Every figure of a model that is limited or used, in the order of the table. */
export function gaugesOf({ used, limits, reported }: Model): Gauge[] {
  return [
    {
      id: "requests",
      label: t`Requests a minute`,
      used: used.requests,
      limit: limits.requestsPerMinute,
      left: reported?.requests,
    },
    {
      id: "input",
      label: t`Input tokens a minute`,
      used: used.inputTokens,
      limit: limits.inputTokensPerMinute,
      left: reported?.inputTokens,
    },
    {
      id: "output",
      label: t`Output tokens a minute`,
      used: used.outputTokens,
      limit: limits.outputTokensPerMinute,
      left: reported?.outputTokens,
    },
    {
      id: "tokens",
      label: t`Tokens a minute`,
      used: used.inputTokens + used.outputTokens,
      limit: limits.tokensPerMinute,
      left: reported?.tokens,
    },
    { id: "inFlight", label: t`Calls in flight`, used: used.inFlight, limit: limits.concurrent },
  ];
}

/** The share of a limit that is used, 0 to 1; the highest of several is the one that holds calls up. */
export const shareOf = ({ used, limit }: Gauge) =>
  limit === undefined ? undefined : Math.min(1, used / limit);

export type Fallback = { to: string; reason: string; tasks: number };

/** To which models tasks went on, and after which failure; the most frequent first. */
export function fallbacksOf(tasks: Task[]): Fallback[] {
  const found = new Map<string, Fallback>();
  for (const { modelUsed, fallbackReason } of tasks) {
    if (!modelUsed || !fallbackReason) continue;
    const key = JSON.stringify([modelUsed, fallbackReason]);
    const known = found.get(key) ?? { to: modelUsed, reason: fallbackReason, tasks: 0 };
    found.set(key, { ...known, tasks: known.tasks + 1 });
  }
  return [...found.values()].sort((a, b) => b.tasks - a.tasks);
}

/** A price of a token as one of a million. */
export const perMillion = (price: number) =>
  dollars(price * 1_000_000, { minimumFractionDigits: 2, maximumFractionDigits: 4 });
