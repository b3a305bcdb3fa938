/** The keys of this page, and how to change them or turn them off. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { activeScopes, KEYS, KEYS_OFF, keyOf } from "../lib/keys";
import { usePreference } from "../lib/preferences";
import { Button } from "./basics";
import { Dialog } from "./dialog";

export default function KeysHelp({ onClose }: { onClose: () => void }) {
  const [off, setOff] = usePreference(KEYS_OFF, false);
  const [own, setOwn] = usePreference<Record<string, string>>(KEYS, {});
  const [changing, setChanging] = useState<string>();
  const [fault, setFault] = useState<string>();
  const scopes = activeScopes().filter((scope) => scope.keys.length > 0);
  const all = scopes.flatMap((scope) => scope.keys);

  const choose = (id: string, key: string) => {
    if (key === "Escape") return setChanging(undefined);
    if (key.length !== 1 || key === " ") return setFault(t`One letter, digit or sign, please.`);
    const taken = all.find((each) => each.id !== id && keyOf(each.id, each.key) === key);
    if (taken) return setFault(t`${key} is taken: ${taken.label}.`);
    setOwn({ ...own, [id]: key });
    setChanging(undefined);
    setFault(undefined);
  };

  return (
    <Dialog
      title={t`Keyboard shortcuts`}
      onClose={onClose}
      footer={
        <Button kind="quiet" onClick={() => setOwn(undefined)} disabled={Object.keys(own).length === 0}>
          <Trans>Reset all</Trans>
        </Button>
      }
    >
      <label className="check">
        <input
          type="checkbox"
          checked={!off}
          onChange={(event) => setOff(event.target.checked ? undefined : true)}
        />
        <Trans>Single keys act on the page</Trans>
      </label>
      <p className="faint small">
        <Trans>They never act while you type in a field.</Trans>
      </p>
      {fault && (
        <p className="status" data-tone="bad" role="alert">
          {fault}
        </p>
      )}
      {scopes.map((scope) => (
        <section key={scope.title} className="stack">
          <h3>{scope.title}</h3>
          <ul className="key-list">
            {scope.keys.map((each) => (
              <li key={each.id} className="row between">
                <span>{each.label}</span>
                {changing === each.id ? (
                  <input
                    className="input key-input"
                    aria-label={t`New key for ${each.label}`}
                    autoFocus
                    readOnly
                    value=""
                    placeholder={t`press a key`}
                    onKeyDown={(event) => {
                      if (event.key === "Tab") return;
                      event.preventDefault();
                      event.stopPropagation();
                      choose(each.id, event.key);
                    }}
                    onBlur={() => setChanging(undefined)}
                  />
                ) : (
                  <Button
                    size="small"
                    kind="quiet"
                    aria-label={t`${each.label}: ${keyOf(each.id, each.key)}, change`}
                    onClick={() => setChanging(each.id)}
                  >
                    <kbd translate="no">{keyOf(each.id, each.key)}</kbd>
                  </Button>
                )}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </Dialog>
  );
}
