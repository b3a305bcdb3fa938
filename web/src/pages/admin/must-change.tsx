/** What a user sees whose password an admin has set: the form, and nothing else until it is changed. */
import { PageFrame } from "../../ui/basics";
import { Password } from "./password";
import "../definition/definition.css";
import "./admin.css";

export default function MustChange() {
  return (
    <PageFrame title="Change your password">
      <p className="soft">An admin has set your password. Choose one of your own to go on.</p>
      <Password />
    </PageFrame>
  );
}
