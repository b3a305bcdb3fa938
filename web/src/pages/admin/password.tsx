/** The form by which users change their own password. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { sessionDoubted } from "../../session/session";
import { Button, Field, Panel } from "../../ui/basics";
import { toast } from "../../ui/toast";

export function Password({ onDone }: { onDone?: () => Promise<void> }) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [error, setError] = useState<Error>();
  const client = useQueryClient();
  const submit = async () => {
    setError(undefined);
    try {
      await unwrap(api.POST("/api/auth/password", { body: { current, new: next } }));
      setCurrent("");
      setNext("");
      toast(t`The password is changed. All other sessions have ended.`);
      // A password that had to be changed kept everything else away.
      sessionDoubted(client);
      await onDone?.();
    } catch (refused) {
      setError(refused as Error);
    }
  };
  return (
    <Panel title={t`Change your password`}>
      <form
        className="pad stack admin-form"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Field label={t`Current password`}>
          {(props) => (
            <input
              {...props}
              className="input"
              type="password"
              required
              autoComplete="current-password"
              value={current}
              onChange={(event) => setCurrent(event.target.value)}
            />
          )}
        </Field>
        <Field label={t`New password`} hint={t`All your other sessions end.`} fault={error?.message}>
          {(props) => (
            <input
              {...props}
              className="input"
              type="password"
              required
              autoComplete="new-password"
              value={next}
              onChange={(event) => setNext(event.target.value)}
            />
          )}
        </Field>
        <div>
          <Button type="submit">
            <Trans>Change</Trans>
          </Button>
        </div>
      </form>
    </Panel>
  );
}
