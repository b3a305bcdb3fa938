/** The reason of a rejection, and whether the model tries again. */
import { useState } from "react";
import type { Approval } from "../../api/client";
import { Button, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import type { Choice } from "./decisions";

type RejectProps = {
  item: Approval;
  reason: string;
  setReason: (reason: string) => void;
  onClose: () => void;
  onReject: (choice: Choice) => void;
};

export function RejectDialog({ item, reason, setReason, onClose, onReject }: RejectProps) {
  const [retry, setRetry] = useState(false);
  const [prompt, setPrompt] = useState<string>();
  const submit = () => {
    const own = retry && prompt !== undefined && prompt !== item.prompt ? { retryPrompt: prompt } : {};
    onReject({ kind: "reject", reason: reason.trim(), retry, ...own });
  };
  return (
    <Dialog
      title={`Reject ${item.stepId ?? "the output"}`}
      onClose={onClose}
      onSubmit={() => reason.trim() && submit()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            {retry ? "Reject and try again" : "Reject"}
          </Button>
        </>
      }
    >
      <Field label="Reason" hint={retry ? "The model gets it as feedback." : "Kept in the history."}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            required
            maxLength={10_000}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && reason.trim()) submit();
            }}
          />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" checked={retry} onChange={(event) => setRetry(event.target.checked)} />
        Try again, with the reason in the prompt
      </label>
      {retry && (
        <Field label="Prompt" hint="As before, unless you change it.">
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
        <p className="small soft">The steps behind it are cancelled, and the execution fails.</p>
      )}
    </Dialog>
  );
}
