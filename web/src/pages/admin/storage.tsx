/** The state of the server's parts, and what it stores. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useApi } from "../../api/hooks";
import { count, duration } from "../../lib/format";
import { useMay } from "../../session/session";
import { Button, Loaded, Panel } from "../../ui/basics";
import { Status } from "../../ui/status";
import { type Sample, useMetrics, value } from "../insights/metrics";
import { bytes } from "./bytes";
import { Backups, Retention } from "./kept";
import { Kinds } from "./kinds";

export default function Storage() {
  const mayAudit = useMay()("audit: read");
  const health = useApi("/api/health", undefined, { staleTime: 0 });
  const metrics = useMetrics();
  return (
    <>
      <Panel
        title={t`State`}
        actions={
          <Button
            size="small"
            busy={metrics.isFetching || health.isFetching}
            onClick={() => {
              void metrics.refetch();
              void health.refetch();
            }}
          >
            <Trans>Read again</Trans>
          </Button>
        }
      >
        <Loaded query={health}>
          {({ status, version, uptimeMs, components }) => (
            <dl className="facts pad">
              <dt>
                <Trans>Server</Trans>
              </dt>
              <dd>
                <Status state={status} />{" "}
                <span className="soft">
                  <Trans>
                    version {version}, up for {duration(uptimeMs)}
                  </Trans>
                </span>
              </dd>
              {Object.entries(components).map(([name, component]) => (
                <Part key={name} name={name} {...component} />
              ))}
            </dl>
          )}
        </Loaded>
      </Panel>
      <Loaded query={metrics}>{(samples) => <Stored samples={samples} />}</Loaded>
      <Kinds />
      {mayAudit && <Backups />}
      {mayAudit && <Retention />}
    </>
  );
}

const NAMES: Record<string, string> = { vectorStore: t`Vector store` };

function Part({ name, status, detail }: { name: string; status: string; detail?: string }) {
  return (
    <>
      <dt>{NAMES[name] ?? `${name[0]?.toUpperCase()}${name.slice(1)}`}</dt>
      <dd>
        <Status state={status} /> {detail && <span className="soft">{detail}</span>}
      </dd>
    </>
  );
}

function Stored({ samples }: { samples: Sample[] }) {
  const free = value(samples, "svc_disk_free_bytes");
  const size = value(samples, "svc_disk_size_bytes");
  const journal = value(samples, "svc_store_bytes", { part: "journal" });
  const rows = value(samples, "svc_store_bytes", { part: "rows" });
  const commits = value(samples, "svc_store_commits_total");
  const syncs = value(samples, "svc_store_syncs_total");
  const memory = value(samples, "process_resident_memory_bytes");
  const files = value(samples, "process_open_fds");
  const used = free !== undefined && size ? 1 - free / size : undefined;
  const facts: [string, string | undefined][] = [
    [t`Rows`, bytes(rows)],
    [t`Journal`, bytes(journal)],
    [
      t`Free on the file system`,
      free === undefined ? undefined : `${bytes(free)}${size ? t` of ${bytes(size) ?? ""}` : ""}`,
    ],
    [t`Commits since the start`, commits === undefined ? undefined : count(commits)],
    [t`Syncs of the journal since the start`, syncs === undefined ? undefined : count(syncs)],
    [t`Memory of the process`, bytes(memory)],
    [t`Open files and sockets`, files === undefined ? undefined : count(files)],
  ];
  return (
    <Panel title={t`Storage and process`}>
      <div className="pad stack">
        {used !== undefined && (
          <div
            className="bar admin-disk"
            role="img"
            aria-label={t`${Math.round(used * 100)} % of the file system is used`}
          >
            <i style={{ width: `${used * 100}%` }} />
          </div>
        )}
        <dl className="facts">
          {facts.map(
            ([name, text]) =>
              text !== undefined && (
                <Fact key={name} name={name}>
                  {text}
                </Fact>
              ),
          )}
        </dl>
        <p className="small soft">
          <Trans>
            <code translate="no">callboard compact</code> makes the data directory as small as what is in it,
            while the server is stopped.
          </Trans>
        </p>
      </div>
    </Panel>
  );
}

function Fact({ name, children }: { name: string; children: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
