/** All that happened to an approval, and whether its chain holds. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { duration } from "../../lib/format";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { Loaded } from "../../ui/basics";
import { Mark } from "../../ui/status";
import { Ago } from "../../ui/time";
import { canVerify, type Entry, type Verdict, verify } from "./verify";

export function History({ item }: { item: Approval }) {
  const history = useApi("/api/hitl/{taskId}/history", { path: { taskId: item.taskId } });
  return (
    <Loaded query={history} lines={3}>
      {(entries) => (
        <>
          <Chain item={item} entries={entries} />
          <ol className="review-history">
            {grouped(entries).map(({ entry, times }) => (
              <Line key={entry.number} entry={entry} times={times} />
            ))}
          </ol>
        </>
      )}
    </Loaded>
  );
}

function Chain({ item, entries }: { item: Approval; entries: Entry[] }) {
  const [verdict, setVerdict] = useState<Verdict>();
  // The item and its history are read apart: between two events the one may be ahead of the other.
  const isSame = item.history.length === entries.length;
  useEffect(() => {
    if (!isSame || !canVerify()) return;
    let isOver = false;
    void verify(item, entries).then((found) => isOver || setVerdict(found));
    return () => {
      isOver = true;
    };
  }, [item, entries, isSame]);
  if (!canVerify())
    return (
      <p className="faint small">
        <Trans>Over plain HTTP this browser cannot verify the chain.</Trans>
      </p>
    );
  if (!verdict)
    return (
      <p className="faint small">
        <Trans>Verifying the chain…</Trans>
      </p>
    );
  return verdict.ok ? (
    <p className="small" data-chain="ok">
      <Mark tone="good" icon="link">
        <Plural value={entries.length} one="Chain verified: # entry" other="Chain verified: # entries" />
      </Mark>
    </p>
  ) : (
    <div className="notice" data-tone="bad" role="alert" data-chain="broken">
      <div>
        <strong>
          <Trans>The chain is broken at entry {verdict.number}</Trans>
        </strong>
        <div>{verdict.why}.</div>
      </div>
    </div>
  );
}

/** Claims and releases of one reviewer, one after the other, are one line with the last of them. */
function grouped(entries: Entry[]): { entry: Entry; times: number }[] {
  const lines: { entry: Entry; times: number }[] = [];
  for (const entry of entries) {
    const before = lines.at(-1);
    const isOpening = entry.action === "claimed" || entry.action === "released";
    const isSame =
      isOpening &&
      before &&
      (before.entry.action === "claimed" || before.entry.action === "released") &&
      before.entry.actor === entry.actor;
    if (!isSame) lines.push({ entry, times: 1 });
    else lines.splice(-1, 1, { entry, times: before.times + (entry.action === "claimed" ? 1 : 0) });
  }
  return lines;
}

function Line({ entry, times }: { entry: Entry; times: number }) {
  const nameOf = useNames();
  const said = entry.comment ?? entry.reason;
  return (
    <li>
      <span>
        {line(entry, nameOf)}
        {times > 1 && t` (${times} times)`} · <Ago at={entry.timestamp} />
      </span>
      {said && (
        <q className="review-said" translate="no" dir="auto">
          {visible(said)}
        </q>
      )}
    </li>
  );
}

function line(entry: Entry, nameOf: (id: string | undefined) => string): string {
  const { details } = entry;
  const reviewer = nameOf(entry.reviewerId ?? entry.actor);
  const by = entry.reviewerId && entry.reviewerId !== entry.actor ? ` (${t`by ${nameOf(entry.actor)}`})` : "";
  switch (entry.action) {
    case "pending":
      return t`Held`;
    case "assigned":
      return t`Assigned to ${nameOf(entry.assignedTo)}`;
    case "escalated":
      return details?.escalationAfterMs
        ? t`Escalated to ${nameOf(entry.to)}, after ${duration(details.escalationAfterMs)} without a decision`
        : t`Escalated to ${nameOf(entry.to)}`;
    case "expired":
      return t`The review time ended`;
    case "claimed":
      return t`Claimed by ${reviewer}`;
    case "released":
      return t`Released by ${reviewer}`;
    case "extended":
      return t`Given more time by ${reviewer}`;
    case "reopened":
      return details?.reason ? t`A correction was asked for by ${reviewer}` : t`Taken back by ${reviewer}`;
    case "approved": {
      const many = details?.bulk ? t` in bulk, one of ${details.bulk}` : "";
      const made = entry.wasModified ? t`Approved with an edit by ${reviewer}` : t`Approved by ${reviewer}`;
      return `${made}${by}${many}`;
    }
    case "rejected":
      return `${t`Rejected by ${reviewer}`}${by}`;
    case "retried":
      return t`A new task tries again`;
    case "cancelled":
      return t`The task was cancelled`;
    case "notification_skipped":
      return t`No mail to ${nameOf(entry.to)}`;
    default:
      return entry.action ?? "";
  }
}
