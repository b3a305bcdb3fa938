/** A user in a list: e-mail, name, and a mark on oneself. */
import { Trans } from "@lingui/react/macro";
import { useWho } from "../../session/session";

export function Person({ id, email, name }: { id: string; email: string; name: string }) {
  const { user } = useWho();
  return (
    <span className="cut">
      {email} <span className="faint">{name}</span>
      {id === user.id && (
        <span className="tag admin-tag">
          <Trans>you</Trans>
        </span>
      )}
    </span>
  );
}
