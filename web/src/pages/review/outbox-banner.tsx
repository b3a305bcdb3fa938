/** What waits for the server, on every page, and its way there once the connection is back. */
import { useEffect } from "react";
import { plural } from "../../lib/format";
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
        <strong>{plural(many, "decision waits", "decisions wait")} for the server</strong>
        <div>
          This browser keeps {many === 1 ? "it" : "them"}, and sends {many === 1 ? "it" : "them"} as soon as
          the server answers.
        </div>
      </div>
      <Button size="small" onClick={retry}>
        Send now
      </Button>
    </div>
  );
}
