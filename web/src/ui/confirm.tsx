/** Asks before something that cannot be taken back, and says what it does. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useState } from "react";
import { Button } from "./basics";
import { Dialog } from "./dialog";
import { toastError } from "./toast";

export function Confirm({
  title,
  verb,
  children,
  run,
  onClose,
}: {
  title: string;
  verb: string;
  children: ReactNode;
  run: () => Promise<void>;
  onClose: () => void;
}) {
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      await run();
      onClose();
    } catch (error) {
      toastError(error, t`It was refused`);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="danger" busy={busy}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
