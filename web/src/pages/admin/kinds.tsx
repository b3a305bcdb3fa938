/** How many rows and bytes each kind of data takes. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useApi } from "../../api/hooks";
import { count, percent } from "../../lib/format";
import { Button, Loaded, Panel } from "../../ui/basics";
import { Scroll } from "../../ui/sized";
import { Ago } from "../../ui/time";
import { bytes } from "./bytes";

const WORDS: Record<string, string> = {
  tasks: t`Tasks`,
  texts: t`Prompts and long outputs`,
  executions: t`Executions`,
  steps: t`Steps of executions`,
  approvals: t`Approvals`,
  reviews: t`Outcomes at gates`,
  histories: t`Histories of approvals`,
  plans: t`Plans`,
  templates: t`Templates`,
  schedules: t`Schedules and their runs`,
  batches: t`Batches and their rows`,
  files: t`Files`,
  deliveries: t`Webhooks and mails`,
  events: t`Events`,
  audit: t`Audit log`,
  accounts: t`Users, keys, sessions, projects`,
  budgets: t`Budgets`,
  idempotency: t`Idempotency keys`,
  other: t`Everything else`,
};

export function Kinds() {
  const read = useApi("/api/system/storage", undefined, { staleTime: 0 });
  return (
    <Panel
      title={t`What takes the space`}
      actions={
        <Button size="small" busy={read.isFetching} onClick={() => void read.refetch()}>
          <Trans>Measure again</Trans>
        </Button>
      }
    >
      <Loaded query={read} lines={6}>
        {({ kinds, bytes: all, complete, estimated, measuredAt }) => (
          <>
            {!complete && (
              <div className="notice" role="status">
                <Trans>
                  The server still reads its store, with pauses: these are the figures so far. “Measure again”
                  shows how far it is.
                </Trans>
              </div>
            )}
            <Scroll>
              <table className="plain-table admin-kinds">
                <thead>
                  <tr>
                    <th scope="col">
                      <Trans>Kind of data</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Rows</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Bytes</Trans>
                    </th>
                    <th scope="col">
                      <Trans>Share</Trans>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {kinds.map((kind) => (
                    <tr key={kind.name}>
                      <th scope="row">{WORDS[kind.name] ?? kind.name}</th>
                      <td className="num">{count(kind.rows)}</td>
                      <td className="num">{bytes(kind.bytes)}</td>
                      <td>
                        <span className="admin-share">
                          <span className="bar" aria-hidden="true">
                            <i style={{ width: `${all === 0 ? 0 : (100 * kind.bytes) / all}%` }} />
                          </span>
                          <span className="num">{all === 0 ? "–" : percent(kind.bytes / all)}</span>
                        </span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            <p className="pad small soft">
              <Trans>{bytes(all)} in all, of every project, without what the database adds.</Trans>{" "}
              {estimated && <Trans>Estimated from a sample.</Trans>}{" "}
              {measuredAt && (
                <Trans>
                  Measured <Ago at={measuredAt} />.
                </Trans>
              )}
            </p>
          </>
        )}
      </Loaded>
    </Panel>
  );
}
