/** What a user sees whose password an admin has set: the form, and nothing else until it is changed. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { PageFrame } from "../../ui/basics";
import { Password } from "./password";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./admin.css";

export default function MustChange() {
  return (
    <PageFrame title={t`Change your password`}>
      <p className="soft">
        <Trans>An admin asks you to choose a password of your own. Then you can go on.</Trans>
      </p>
      <Password />
    </PageFrame>
  );
}
