/** Pauses everything, or lets it go on: nothing is leased in between. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { Button, Failed, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";

const PATH = "/api/system/pause" as const;

export function PauseAll() {
  const client = useQueryClient();
  const personOf = useNames();
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const { data: pause } = useApi(PATH, undefined, { staleTime: 0 });
  const again = async () => {
    await client.invalidateQueries({ queryKey: [PATH] });
    await client.invalidateQueries({ queryKey: ["/api/health"] });
  };
  const resume = async () => {
    setBusy(true);
    try {
      await unwrap(api.DELETE("/api/system/pause"));
      toast(t`Tasks are given out again.`);
    } catch (error) {
      toastError(error, t`It was not resumed`);
    }
    setBusy(false);
    await again();
  };
  if (!pause) return null;
  return (
    <>
      {pause.paused && (
        <span className="soft">
          <Trans>
            everything is paused, <Ago at={pause.since} /> by {visible(personOf(pause.by))}
          </Trans>
        </span>
      )}
      {pause.paused && !pause.standsStill && (
        <Button kind="primary" needs="queues: manage" busy={busy} onClick={() => void resume()}>
          <Trans>Resume everything</Trans>
        </Button>
      )}
      {!pause.paused && (
        <Button icon="hand" needs="queues: manage" onClick={() => setAsks(true)}>
          <Trans>Pause everything</Trans>
        </Button>
      )}
      {asks && <Ask onClose={() => setAsks(false)} onDone={again} />}
    </>
  );
}

function Ask({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [reason, setReason] = useState("");
  const [refuse, setRefuse] = useState(false);
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const fault =
    refused instanceof ApiError ? refused.faults.find(({ field }) => field === "reason") : undefined;
  const submit = async () => {
    setBusy(true);
    const body: Schemas["PauseAll"] = { reason: reason.trim(), submissions: refuse ? "refuse" : "accept" };
    try {
      await unwrap(api.POST("/api/system/pause", { body }));
      await onDone();
      onClose();
    } catch (error) {
      setRefused(error as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Pause everything`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="danger" icon="hand" busy={busy} disabled={reason.trim() === ""}>
            <Trans>Pause</Trans>
          </Button>
        </>
      }
    >
      {refused && !fault && <Failed error={refused} what={t`It was not paused`} />}
      <p>
        <Trans>
          No task is given to any worker until somebody resumes. Running tasks go on; a restart changes
          nothing.
        </Trans>
      </p>
      <Field label={t`Reason`} hint={t`Everybody sees it, on every page.`} fault={fault?.message}>
        {(props) => (
          <input
            {...props}
            className="input"
            required
            maxLength={1000}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" checked={refuse} onChange={(event) => setRefuse(event.target.checked)} />
        <Trans>New tasks and executions are refused; else they wait</Trans>
      </label>
    </Dialog>
  );
}
