/** When a version of a template was published; those of the program itself are as old as the program. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Ago } from "./time";

export function Published({ of }: { of: { author: string; createdAt: string } }) {
  if (of.author !== "system") return <Ago at={of.createdAt} />;
  return (
    <span data-tip={t`It came with the program`}>
      <Trans>with the program</Trans>
    </span>
  );
}
