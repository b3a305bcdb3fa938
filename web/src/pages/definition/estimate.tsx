/** The estimate of a dry run in a few words. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Schemas } from "../../api/client";
import { money } from "../../lib/format";

export const costs = ({ cost, priceUnknown }: Schemas["Estimate"]) =>
  priceUnknown && cost === 0 ? t`cost unknown` : t`about ${money(cost)}`;

/** The step that the budget would not let run, with the amounts. */
export function OverBudget({ run: { budget } }: { run: Schemas["DryRun"] }) {
  if (!budget?.message) return null;
  return (
    <p className="notice" data-tone="warn">
      <Trans>The budget would end the run: {budget.message}</Trans>
    </p>
  );
}
