/** Keeps the filters of a list under a name. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, unwrap } from "../api/client";
import { useMay } from "../session/session";
import { Button, Field } from "./basics";
import type { ViewPage } from "./chips";
import { Dialog } from "./dialog";
import { toast, toastError } from "./toast";

export default function SaveView({
  page,
  query,
  onClose,
}: {
  page: ViewPage;
  query: string;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const mayShare = useMay()("views: share");
  const [name, setName] = useState("");
  const [shared, setShared] = useState(false);
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const save = async () => {
    if (busy) return;
    if (name.trim() === "") return setFault(t`Give the view a name.`);
    setBusy(true);
    try {
      await unwrap(api.POST("/api/views", { body: { name: name.trim(), page, query, shared } }));
      await client.invalidateQueries({ queryKey: ["/api/views"] });
      toast(t`The view is saved`);
      onClose();
    } catch (error) {
      if (error instanceof ApiError && error.status < 500) setFault(error.message);
      else toastError(error, t`The view was not saved`);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Save this view`}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button kind="quiet" onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            <Trans>Save</Trans>
          </Button>
        </>
      }
    >
      <Field label={t`Name`} fault={fault}>
        {(props) => (
          <input
            {...props}
            className="input"
            maxLength={80}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      {mayShare && (
        <label className="check">
          <input type="checkbox" checked={shared} onChange={(event) => setShared(event.target.checked)} />
          <Trans>Share it with everybody in the project</Trans>
        </label>
      )}
    </Dialog>
  );
}
