/** Short messages at the edge of the page. They are announced, and take no focus. */
import { t } from "@lingui/core/macro";
import { useSyncExternalStore } from "react";
import { ApiError } from "../api/client";
import { Icon } from "./icons";

type Toast = {
  id: number;
  text: React.ReactNode;
  tone?: "bad";
  action?: { label: React.ReactNode; run: () => void };
  ms: number;
  /** A message takes the place of the one with the same name. */
  name?: string;
};

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function change(next: Toast[]) {
  toasts = next;
  for (const each of listeners) each();
}

/** Shows a message; returns what takes it away. One with an action stays longer. */
export function toast(text: React.ReactNode, options: Partial<Omit<Toast, "id" | "text">> = {}): () => void {
  const id = ++last;
  const ms = options.ms ?? (options.tone === "bad" ? 10_000 : 5_000);
  const gone = () => change(toasts.filter((each) => each.id !== id));
  const { name } = options;
  const others = toasts.filter((each) => name === undefined || each.name !== name);
  change([...others.slice(-3), { id, text, ms, ...options }]);
  setTimeout(gone, ms);
  return gone;
}

/** Shows a refusal, in the server's words. */
export function toastError(error: unknown, what?: string) {
  const said = error instanceof Error ? error.message : String(error);
  const id =
    error instanceof ApiError && error.status >= 500 && error.requestId ? ` (${error.requestId})` : "";
  toast(`${what ? `${what}: ` : ""}${said}${id}`, { tone: "bad" });
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((each) => (
        <div key={each.id} className="toast" data-tone={each.tone}>
          <div className="grow">{each.text}</div>
          {each.action && (
            <button
              type="button"
              className="button"
              data-size="small"
              onClick={() => {
                change(toasts.filter((it) => it.id !== each.id));
                each.action?.run();
              }}
            >
              {each.action.label}
            </button>
          )}
          <button
            type="button"
            className="button"
            data-kind="quiet"
            data-size="small"
            aria-label={t`Dismiss`}
            onClick={() => change(toasts.filter((it) => it.id !== each.id))}
          >
            <Icon name="cross" size={12} />
          </button>
        </div>
      ))}
    </div>
  );
}
