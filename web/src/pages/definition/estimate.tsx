/** The estimate of a dry run in a few words. */
import type { Schemas } from "../../api/client";
import { money } from "../../lib/format";

export const costs = ({ cost, priceUnknown }: Schemas["Estimate"]) =>
  priceUnknown && cost === 0 ? "cost unknown" : `about ${money(cost)}`;

/** The step that the budget would not let run, with the amounts. */
export function OverBudget({ run: { budget } }: { run: Schemas["DryRun"] }) {
  if (!budget?.message) return null;
  return (
    <p className="notice" data-tone="warn">
      The budget would end the run: {budget.message}
    </p>
  );
}
