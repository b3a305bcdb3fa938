/** What opens the search of everything: a button, the key / and Ctrl-K. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense, useEffect } from "react";
import { COMMAND, keyOf, useKeys } from "../lib/keys";
import { Icon } from "../ui/icons";

const Find = lazy(() => import("./find"));

/** True for Ctrl-K, on a Mac for Cmd-K; an editor or a field that has the focus does not take it. */
function opens(event: KeyboardEvent): boolean {
  const { ctrlKey, metaKey, altKey, shiftKey, key } = event;
  const isCommand = COMMAND === "Ctrl" ? ctrlKey && !metaKey : metaKey && !ctrlKey;
  return isCommand && !altKey && !shiftKey && key.toLowerCase() === "k";
}

/** The search, and the keys that open it. A page's own key / goes before. */
export function Finder({ isOpen, set }: { isOpen: boolean; set: (isOpen: boolean) => void }) {
  useKeys(t`Everywhere`, [{ id: "find", key: "/", label: t`Search everything`, run: () => set(true) }]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!opens(event)) return;
      event.preventDefault();
      if (document.querySelector("dialog[open]") === null) set(true);
    };
    // Before an editor, which may have the key itself.
    document.addEventListener("keydown", pressed, { capture: true });
    return () => document.removeEventListener("keydown", pressed, { capture: true });
  }, [set]);
  if (!isOpen) return null;
  return (
    <Suspense>
      <Find onClose={() => set(false)} />
    </Suspense>
  );
}

export function FindButton({ onClick, isSmall = false }: { onClick: () => void; isSmall?: boolean }) {
  if (isSmall)
    return (
      <button type="button" className="button" data-kind="quiet" aria-haspopup="dialog" onClick={onClick}>
        <Icon name="search" />
        <span className="hide">
          <Trans>Search everything</Trans>
        </span>
      </button>
    );
  return (
    <button
      type="button"
      className="button find-open"
      aria-haspopup="dialog"
      data-tip={t`Also ${COMMAND}-K`}
      onClick={onClick}
    >
      <Icon name="search" />
      <Trans>Search</Trans>
      <kbd translate="no">{keyOf("find", "/")}</kbd>
    </button>
  );
}
