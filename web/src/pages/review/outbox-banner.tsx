/** What waits for the server, on every page, and its way there once the connection is back. */
import { Plural, Trans } from "@lingui/react/macro";
import { useEffect } from "react";
import { useConnection } from "../../live/live";
import { useWho } from "../../session/session";
import { Button } from "../../ui/basics";
import { Icon } from "../../ui/icons";
import { resume, retry, useDecisions } from "./decisions";

export default function OutboxBanner() {
  const { user } = useWho();
  const connection = useConnection();
  const { waiting } = useDecisions();
  useEffect(() => void resume(user.id), [user.id]);
  useEffect(() => {
    if (connection === "live") retry();
  }, [connection]);
  const held = waiting.filter(({ state, tries }) => state === "held" || (state === "sending" && tries > 0));
  const many = held.reduce((sum, { items }) => sum + items.length, 0);
  if (many === 0) return null;
  return (
    <div className="notice outbox" data-tone="warn" role="status" data-outbox={many}>
      <span className="status" data-tone="warn">
        <Icon name="clock" />
      </span>
      <div className="grow">
        <strong>
          <Plural
            value={many}
            one="# decision waits for the server"
            other="# decisions wait for the server"
          />
        </strong>
        <div>
          <Plural
            value={many}
            one="This browser keeps it, and sends it as soon as the server answers."
            other="This browser keeps them, and sends them as soon as the server answers."
          />
        </div>
      </div>
      <Button size="small" onClick={retry}>
        <Trans>Send now</Trans>
      </Button>
    </div>
  );
}
