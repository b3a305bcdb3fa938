/** Gives the reviewers of an output more time. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Approval, api, unwrap } from "../../api/client";
import { relative } from "../../lib/format";
import { useMay } from "../../session/session";
import { Button, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { toast, toastError } from "../../ui/toast";
import { isOpen } from "./review";

const HOUR = 3_600_000;
const TIMES: [hours: number, words: string][] = [
  [1, t`1 hour`],
  [4, t`4 hours`],
  [24, t`1 day`],
  [72, t`3 days`],
  [168, t`7 days`],
  [720, t`30 days`],
];

export function Extend({ item }: { item: Approval }) {
  const may = useMay();
  const [asks, setAsks] = useState(false);
  if (!isOpen(item) || !may("hitl: extend")) return null;
  return (
    <>
      <Button size="small" kind="quiet" icon="clock" onClick={() => setAsks(true)}>
        <Trans>Extend</Trans>
      </Button>
      {asks && <Question item={item} onClose={() => setAsks(false)} />}
    </>
  );
}

function Question({ item, onClose }: { item: Approval; onClose: () => void }) {
  const client = useQueryClient();
  const [hours, setHours] = useState("24");
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const extend = async () => {
    setBusy(true);
    const params = { path: { taskId: item.taskId } };
    const body = { timeoutMs: Number(hours) * HOUR, ...(reason.trim() && { reason: reason.trim() }) };
    try {
      const { timeoutAt } = await unwrap(api.POST("/api/hitl/{taskId}/extend", { params, body }));
      toast(t`It is due ${relative(Date.parse(timeoutAt), Date.now())}.`);
      onClose();
    } catch (error) {
      toastError(error, t`It has no more time`);
      setBusy(false);
    }
    await client.invalidateQueries({ queryKey: ["/api/hitl/{taskId}"] });
    await client.invalidateQueries({ queryKey: ["/api/hitl/{taskId}/history"] });
  };
  return (
    <Dialog
      title={t`Give the reviewers more time?`}
      onClose={onClose}
      onSubmit={() => !busy && void extend()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button kind="primary" type="submit" busy={busy}>
            <Trans>Extend</Trans>
          </Button>
        </>
      }
    >
      <Field label={t`Time from now on`}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={hours}
            onChange={(event) => setHours(event.target.value)}
          >
            {TIMES.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={t`Reason`} hint={t`for the history; it may be left empty`}>
        {(props) => (
          <input
            {...props}
            className="input"
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
