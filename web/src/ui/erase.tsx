/** Erases the texts of what has ended, for good; the reason goes into the audit log. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { Button, Failed, Field } from "./basics";
import { Dialog } from "./dialog";
import { toast } from "./toast";

type Props = {
  /** "this task", "this execution": what loses its texts. */
  of: string;
  /** What is erased, and what stays. */
  children: React.ReactNode;
  erase: (reason: string) => Promise<unknown>;
  onClose: () => void;
};

export function Erase({ of, children, erase, onClose }: Props) {
  const [reason, setReason] = useState("");
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      await erase(reason.trim());
      toast(t`The texts are erased.`);
      onClose();
    } catch (error) {
      setRefused(error as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Erase the texts of ${of}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Keep them</Trans>
          </Button>
          <Button type="submit" kind="danger-primary" busy={busy} disabled={reason.trim() === ""}>
            <Trans>Erase</Trans>
          </Button>
        </>
      }
    >
      {refused && <Failed error={refused} what={t`Nothing was erased`} />}
      <p>{children}</p>
      <Field label={t`Reason`} hint={t`The audit log keeps it, without the texts.`}>
        {(props) => (
          <input
            {...props}
            className="input"
            required
            maxLength={256}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
