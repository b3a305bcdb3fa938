/** The versions of a template, and what two of them differ in. */

import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useApi } from "../../api/hooks";
import { useParams } from "../../lib/search";
import { Loaded, Panel } from "../../ui/basics";
import { Published } from "../../ui/published";
import { Scroll } from "../../ui/sized";
import { Mark } from "../../ui/status";
import { YamlDiff } from "../definition/code";
import { changes, textOf } from "../definition/definition";
import { Choices } from "./choices";
import { visibilityOf } from "./visibility";

type Template = Schemas["Template"];

export default function Versions({ id, versions }: { id: string; versions: Template[] }) {
  const [params, set] = useParams();
  const after = params.get("to") ?? versions[0]?.version;
  const before = params.get("from") ?? versions[1]?.version;
  return (
    <>
      <Panel title={t`Versions`}>
        <Scroll>
          <table className="plain-table">
            <thead>
              <tr>
                <th scope="col">
                  <Trans>Version</Trans>
                </th>
                <th scope="col">
                  <Trans>Published</Trans>
                </th>
                <th scope="col" className="num">
                  <Trans>Steps</Trans>
                </th>
                <th scope="col">
                  <Trans>Seen by</Trans>
                </th>
                <th scope="col">
                  <Trans>Deploys</Trans>
                </th>
              </tr>
            </thead>
            <tbody>
              {versions.map((each) => (
                <tr key={each.version}>
                  <th scope="row" translate="no" className="mono">
                    <Link href={`/templates/${id}?version=${each.version}`}>{each.version}</Link>
                  </th>
                  <td>
                    <Published of={each} />
                  </td>
                  <td className="num">{each.stepsCount}</td>
                  <td>{visibilityOf(each.visibility)}</td>
                  <td>
                    <span className="row wrap">
                      {each.latest && (
                        <Mark tone="good" icon="check">
                          {each.latestSet ? t`latest, as chosen` : t`latest`}
                        </Mark>
                      )}
                      {each.retiredAt && (
                        <Mark tone="mute" icon="stop">
                          <Trans>retired</Trans>
                        </Mark>
                      )}
                      <Choices of={each} />
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </Panel>
      {before && after ? (
        <>
          <div className="filters">
            <Choice
              label={t`From version`}
              versions={versions}
              value={before}
              onChange={(from) => set({ from })}
            />
            <Choice label={t`To version`} versions={versions} value={after} onChange={(to) => set({ to })} />
          </div>
          <Difference id={id} before={before} after={after} />
        </>
      ) : (
        <p className="soft">
          <Trans>There is one version. A second one is shown here beside it.</Trans>
        </p>
      )}
    </>
  );
}

function Choice({
  label,
  versions,
  value,
  onChange,
}: {
  label: string;
  versions: Template[];
  value: string;
  onChange: (version: string) => void;
}) {
  return (
    <label className="row">
      <span className="soft">{label}</span>
      <select className="select" value={value} onChange={(event) => onChange(event.target.value)}>
        {versions.map(({ version }) => (
          <option key={version}>{version}</option>
        ))}
      </select>
    </label>
  );
}

const LOOKS = {
  added: ["good", "plus", t`added`],
  removed: ["bad", "cross", t`removed`],
  changed: ["warn", "edit", t`changed`],
} as const;

function Difference({ id, before, after }: { id: string; before: string; after: string }) {
  const old = useApi("/api/templates/{id}", { path: { id }, query: { version: before } });
  const now = useApi("/api/templates/{id}", { path: { id }, query: { version: after } });
  return (
    <Loaded query={old}>
      {(a) => (
        <Loaded query={now}>
          {(b) => {
            const found = changes(a, b);
            return (
              <Panel title={`${before} → ${after}`}>
                {found.length === 0 ? (
                  <p className="pad soft">
                    <Trans>They are the same.</Trans>
                  </p>
                ) : (
                  <>
                    <ul className="pad templates-changes">
                      {found.map(({ what, kind, members }) => (
                        <li key={what} className="row wrap">
                          <Mark tone={LOOKS[kind][0]} icon={LOOKS[kind][1]}>
                            {LOOKS[kind][2]}
                          </Mark>
                          <span translate="no" className="mono">
                            {what}
                          </span>
                          {members.length > 0 && <span className="faint small">{members.join(", ")}</span>}
                        </li>
                      ))}
                    </ul>
                    <YamlDiff
                      before={textOf(a)}
                      after={textOf(b)}
                      names={[t`Version ${before}`, t`Version ${after}`]}
                    />
                  </>
                )}
              </Panel>
            );
          }}
        </Loaded>
      )}
    </Loaded>
  );
}
