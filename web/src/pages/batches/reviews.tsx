/** Asking for reviews of outputs of a batch that have passed. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { count } from "../../lib/format";
import { Button, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { toast, toastError } from "../../ui/toast";

const MOST = 1000;

export function Reviews({ id, step, onClose }: { id: string; step: string; onClose: () => void }) {
  const client = useQueryClient();
  const [top, setTop] = useState("40");
  const [orderBy, setOrderBy] = useState<"confidence" | "random">("confidence");
  const [field, setField] = useState("");
  const [blind, setBlind] = useState(false);
  const [busy, setBusy] = useState(false);
  const number = Number(top);
  const isRight = Number.isInteger(number) && number >= 1 && number <= MOST;
  const ask = async () => {
    if (!isRight || busy) return;
    setBusy(true);
    try {
      const body = { step, top: number, orderBy, blind, ...(field.trim() && { field: field.trim() }) };
      const { asked, left } = await unwrap(
        api.POST("/api/batches/{id}/review", { params: { path: { id } }, body }),
      );
      const said = [plural(asked, { one: "# review asked for.", other: "# reviews asked for." })];
      if (left > 0)
        said.push(plural(left, { one: "# output more without one.", other: "# outputs more without one." }));
      toast(said.join(" "));
      onClose();
    } catch (error) {
      toastError(error, t`The reviews were not asked for`);
    }
    setBusy(false);
    void client.invalidateQueries({
      predicate: ({ queryKey: [path] }) => /^\/api\/(batches|hitl)/.test(String(path)),
    });
  };
  return (
    <Dialog
      title={t`Review outputs of ${step}?`}
      onClose={onClose}
      onSubmit={() => void ask()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave them</Trans>
          </Button>
          <Button kind="primary" icon="review" type="submit" busy={busy} disabled={!isRight}>
            {isRight
              ? plural(number, { one: "Ask for # review", other: "Ask for # reviews" })
              : t`Ask for reviews`}
          </Button>
        </>
      }
    >
      <p>
        <Trans>
          Outputs that have passed go to the reviewers. Nothing waits for the decisions: they show how good
          such outputs are, and a reviewer's text stands beside the output in the export.
        </Trans>
      </p>
      <Field label={t`Number of reviews`} fault={isRight ? undefined : t`must be 1 to ${count(MOST)}`}>
        {(props) => (
          <input
            {...props}
            type="number"
            min={1}
            max={MOST}
            value={top}
            onChange={(event) => setTop(event.target.value)}
          />
        )}
      </Field>
      <Field label={t`First`}>
        {(props) => (
          <select
            {...props}
            value={orderBy}
            onChange={(event) => setOrderBy(event.target.value === "random" ? "random" : "confidence")}
          >
            <option value="confidence">{t`the least sure outputs`}</option>
            <option value="random">{t`any, by chance`}</option>
          </select>
        )}
      </Field>
      <Field label={t`Field to judge`} hint={t`A member of the output; the whole output if it is empty.`}>
        {(props) => (
          <input {...props} value={field} maxLength={64} onChange={(event) => setField(event.target.value)} />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" checked={blind} onChange={(event) => setBlind(event.target.checked)} />
        <Trans>Reviewers answer without seeing the output</Trans>
      </label>
    </Dialog>
  );
}
