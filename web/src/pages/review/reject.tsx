/** The reason of a rejection, and whether the model tries again: beside the output, which it does not cover. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useId, useRef, useState } from "react";
import type { Approval } from "../../api/client";
import { COMMAND } from "../../lib/keys";
import { useOwn } from "../../session/session";
import { Button, Field } from "../../ui/basics";
import { Icon } from "../../ui/icons";
import type { Choice } from "./decisions";

type Props = {
  item: Approval;
  reason: string;
  setReason: (reason: string) => void;
  onClose: () => void;
  onReject: (choice: Choice) => void;
};

const RECENT = 6;
const NONE: string[] = [];

export function Reject({ item, reason, setReason, onClose, onReject }: Props) {
  const [retry, setRetry] = useState(false);
  const [prompt, setPrompt] = useState<string>();
  const [recent, setRecent] = useOwn<string[]>("reasons", NONE);
  const id = useId();
  const text = useRef<HTMLDivElement>(null);
  useEffect(() => text.current?.querySelector("textarea")?.focus(), []);
  const said = reason.trim();
  const submit = () => {
    if (!said) return;
    setRecent([said, ...recent.filter((each) => each !== said)].slice(0, RECENT));
    const own = retry && prompt !== undefined && prompt !== item.prompt ? { retryPrompt: prompt } : {};
    onReject({ kind: "reject", reason: said, retry, ...own });
  };
  return (
    <div
      role="dialog"
      className="review-reject"
      aria-labelledby={id}
      onKeyDown={(event) => {
        const isSent = event.key === "Enter" && (event.ctrlKey || event.metaKey);
        if (event.key === "Escape") onClose();
        else if (isSent) submit();
        else return;
        event.preventDefault();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <header>
          <h3 id={id}>
            <Trans>Reject {item.stepId ?? t`the output`}</Trans>
          </h3>
          <button
            type="button"
            className="button"
            data-kind="quiet"
            data-size="small"
            aria-label={t`Close`}
            onClick={onClose}
          >
            <Icon name="cross" />
          </button>
        </header>
        <div ref={text}>
          <Field
            label={t`Reason`}
            hint={retry && !item.function ? t`The model gets it as feedback.` : t`Kept in the history.`}
          >
            {(props) => (
              <textarea
                {...props}
                className="textarea"
                required
                maxLength={10_000}
                value={reason}
                onChange={(event) => setReason(event.target.value)}
              />
            )}
          </Field>
        </div>
        {recent.length > 0 && (
          <ul className="review-reasons" aria-label={t`Recent reasons`}>
            {recent.map((each) => (
              <li key={each}>
                <button
                  type="button"
                  className="button cut"
                  data-size="small"
                  data-tip={each.length > 40 ? each : undefined}
                  onClick={() => setReason(said ? `${said}\n${each}` : each)}
                >
                  {each}
                </button>
              </li>
            ))}
          </ul>
        )}
        <label className="check">
          <input type="checkbox" checked={retry} onChange={(event) => setRetry(event.target.checked)} />
          {item.function ? t`Call the function again` : t`Try again, with the reason in the prompt`}
        </label>
        {retry && !item.function && (
          <Field label={t`Prompt`} hint={t`As before, unless you change it.`}>
            {(props) => (
              <textarea
                {...props}
                translate="no"
                className="textarea mono"
                value={prompt ?? item.prompt ?? ""}
                onChange={(event) => setPrompt(event.target.value)}
              />
            )}
          </Field>
        )}
        {!retry && item.planExecutionId && (
          <p className="small soft">
            <Trans>The steps behind it are cancelled, and the execution fails.</Trans>
          </p>
        )}
        <footer>
          <Button onClick={onClose} hotkey="Esc">
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="danger-primary" hotkey={`${COMMAND} ↵`}>
            {retry ? t`Reject and try again` : t`Reject`}
          </Button>
        </footer>
      </form>
    </div>
  );
}
