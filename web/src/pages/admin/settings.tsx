/** The settings that the server wrote into the audit log when it read them last. */

import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { usePage } from "../../api/hooks";
import { Empty, Loaded, Panel } from "../../ui/basics";
import { Ago } from "../../ui/time";

/** The entry of the audit log with the settings as they were read last. */
export const useSettings = (enabled = true) =>
  usePage("/api/audit", { query: { action: "server.started,settings.read", limit: 1 } } as never, {
    enabled,
  });

export default function Settings() {
  const read = useSettings();
  return (
    <Loaded query={read}>
      {({ items: [entry] }) =>
        entry === undefined ? (
          <Empty title={t`The audit log no longer has the server's start`} command="callboard serve --help">
            <Trans>The settings are written there when the server starts.</Trans>
          </Empty>
        ) : (
          <>
            <p className="soft">
              <Trans>
                As the server read them last, <Ago at={entry.at} />. Settings are changed in its file or its
                environment, and hold from the next start; limits, prices, certificates and the log also from
                a SIGHUP.
              </Trans>
            </p>
            {sections(entry.details ?? {}).map(([section, settings]) => (
              <Panel key={section} title={section}>
                <dl className="facts pad admin-settings">
                  {settings.map(([name, value]) => (
                    <Setting key={name} name={name} value={value} />
                  ))}
                </dl>
              </Panel>
            ))}
          </>
        )
      }
    </Loaded>
  );
}

function Setting({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt translate="no" className="mono">
        {name}
      </dt>
      <dd translate="no" className="mono">
        {value === "" ? (
          <span className="faint">
            <Trans>empty</Trans>
          </span>
        ) : (
          value
        )}
      </dd>
    </>
  );
}

/** `limits.plan` under `limits`; what has no section comes first. */
function sections(details: Record<string, string>): [string, [string, string][]][] {
  const found = new Map<string, [string, string][]>();
  for (const [name, value] of Object.entries(details)) {
    const dot = name.indexOf(".");
    const section = dot < 0 ? "server" : name.slice(0, dot);
    const known = found.get(section) ?? [];
    known.push([dot < 0 ? name : name.slice(dot + 1), value]);
    found.set(section, known);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}
