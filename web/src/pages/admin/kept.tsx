/** The backups that were read from this server, and how long it keeps what has ended. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useApi, usePage } from "../../api/hooks";
import { useNow } from "../../lib/clock";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { Command, Loaded, Panel } from "../../ui/basics";
import { Mark } from "../../ui/status";
import { Ago } from "../../ui/time";
import { useSettings } from "./settings";

const SHOWN = 5;
/** A backup that is older is marked: one a night is usual. */
const OLD = 36 * 3_600_000;

const FINDINGS: Record<string, string> = {
  restores: t`It restores:`,
  intact: t`Every checksum is right, and no restore was tried:`,
  damaged: t`It is damaged:`,
};

/** The moments to which the server can be restored, as the command line has told of its backups. */
function Restorable({ archive, lastBackup, restorable }: Schemas["BackupStatus"]) {
  if (!restorable || !lastBackup) return null;
  return (
    <p>
      {archive ? (
        <Trans>
          Can be restored to any moment from <Ago at={restorable.from} /> until <Ago at={restorable.to} />.
        </Trans>
      ) : (
        <Trans>
          Can be restored to the moment <Ago at={restorable.from} />.
        </Trans>
      )}
    </p>
  );
}

/** The last verification that a command has told of. */
function Verified({ lastBackup, lastVerification: last }: Schemas["BackupStatus"]) {
  if (!last) {
    return (
      lastBackup && (
        <p>
          <Mark tone="warn" icon="warn">
            <Trans>no backup was verified yet</Trans>
          </Mark>
        </p>
      )
    );
  }
  const isDamaged = last.result === "damaged";
  return (
    <p>
      <Mark tone={isDamaged ? "bad" : "good"} icon={isDamaged ? "cross" : "check"}>
        <Trans>
          verified <Ago at={last.at} />
        </Trans>
      </Mark>{" "}
      {FINDINGS[last.result] ?? last.result} <code translate="no">{last.backup}</code>{" "}
      {last.detail && <span className="soft">{visible(last.detail)}</span>}
    </p>
  );
}

export function Backups() {
  const personOf = useNames();
  const now = useNow();
  const read = usePage("/api/audit", { query: { action: "backup.started", limit: SHOWN } } as never);
  const status = useApi("/api/system/backup", undefined, { staleTime: 0 });
  return (
    <Panel
      title={t`Backups`}
      actions={
        <Link href="/docs/how-to/backup">
          <Trans>How to back up</Trans>
        </Link>
      }
    >
      <div className="pad stack">
        <Loaded query={status} lines={1}>
          {(known) => (
            <>
              <Restorable {...known} />
              <Verified {...known} />
            </>
          )}
        </Loaded>
        <Loaded query={read} lines={2}>
          {({ items, total }) => {
            const [last] = items;
            if (!last) {
              return (
                <>
                  <p>
                    <Mark tone="warn" icon="warn">
                      <Trans>no backup was read from this server</Trans>
                    </Mark>
                  </p>
                  <Command>callboard backup init --in /var/backups/callboard</Command>
                  <Command>callboard backup create --in /var/backups/callboard</Command>
                </>
              );
            }
            const isOld = now - Date.parse(last.at) > OLD;
            return (
              <>
                <p>
                  <Mark tone={isOld ? "warn" : "good"} icon={isOld ? "warn" : "check"}>
                    <Trans>
                      the last one began <Ago at={last.at} />
                    </Trans>
                  </Mark>
                </p>
                <ul aria-label={t`Backups`}>
                  {items.map((entry) => (
                    <li key={entry.at}>
                      <Ago at={entry.at} />{" "}
                      <span className="soft">
                        <Trans>by {visible(personOf(entry.actor))}</Trans>
                      </span>
                    </li>
                  ))}
                  {total > items.length && (
                    <li>
                      <Link href="/admin/audit?action=backup.started">
                        <Trans>all {total} in the audit log</Trans>
                      </Link>
                    </li>
                  )}
                </ul>
              </>
            );
          }}
        </Loaded>
        <p className="small soft">
          <Trans>
            The audit log knows the backups that were read from the running server, not those of a stopped
            one. Whether one can be restored shows only where it is kept:
          </Trans>
        </p>
        <Command>callboard backup verify --in /var/backups/callboard</Command>
      </div>
    </Panel>
  );
}

const WORDS: Record<string, string> = {
  "retention.ended": t`Ended tasks and executions`,
  "retention.history": t`Histories of approvals`,
  "events.keep": t`Events`,
  "events.keep_max": t`Events at most`,
};

export function Retention() {
  const read = useSettings();
  return (
    <Panel title={t`What is kept, and how long`}>
      <div className="pad stack">
        <Loaded query={read} lines={2}>
          {({ items: [entry] }) => {
            const found = Object.entries(WORDS).filter(([name]) => entry?.details?.[name] !== undefined);
            return found.length === 0 ? (
              <p className="soft">
                <Trans>The audit log no longer has the settings of the server's start.</Trans>
              </p>
            ) : (
              <dl className="facts">
                {found.map(([name, word]) => (
                  <div key={name} style={{ display: "contents" }}>
                    <dt data-tip={name}>{word}</dt>
                    <dd>{entry?.details?.[name]}</dd>
                  </div>
                ))}
              </dl>
            );
          }}
        </Loaded>
        <p className="small soft">
          <Trans>
            Unfinished work is never removed.{" "}
            <Link href="/docs/how-to/operate#retention">What is removed when</Link>
          </Trans>
        </p>
      </div>
    </Panel>
  );
}
