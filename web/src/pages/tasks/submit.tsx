/** The form that submits a task. What is written is a draft until it is sent. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { useOwn } from "../../session/session";
import { Button, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { toastError } from "../../ui/toast";

type Body = Schemas["CreateTask"];
export type Draft = {
  prompt: string;
  systemPrompt?: string;
  model?: string;
  queue?: string;
  priority?: string;
  maxTokens?: string;
  tags?: string;
  review?: boolean;
};

/** The request of a draft: what is empty is left to the server. */
export function bodyOf(draft: Draft): Body {
  const number = (text: string | undefined) => (text?.trim() ? Number(text) : undefined);
  const text = (value: string | undefined) => value?.trim() || undefined;
  const tags = (draft.tags ?? "")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  return {
    prompt: draft.prompt,
    systemPrompt: text(draft.systemPrompt),
    model: text(draft.model),
    queue: text(draft.queue),
    priority: number(draft.priority),
    maxTokens: number(draft.maxTokens),
    tags: tags.length > 0 ? tags : undefined,
    hitl: draft.review ? { required: true } : undefined,
  };
}

export function Submit({ from, onClose }: { from?: Draft; onClose: () => void }) {
  const [kept, keep] = useOwn<Draft>("draft.task", { prompt: "" });
  const [draft, setDraft] = useState<Draft>(from ?? kept);
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const set = (change: Partial<Draft>) => {
    const next = { ...draft, ...change };
    setDraft(next);
    if (!from) keep(next);
  };
  const faultOf = (field: string) =>
    error instanceof ApiError ? error.faults.find((it) => it.field === field)?.message : undefined;
  const send = async () => {
    setBusy(true);
    try {
      const task = (await unwrap(api.POST("/api/tasks", { body: bodyOf(draft) }))) as { id: string };
      if (!from) keep(undefined as unknown as Draft);
      void client.invalidateQueries({ queryKey: ["/api/tasks"] });
      onClose();
      navigate(`/tasks/${task.id}`);
    } catch (refused) {
      setError(refused as Error);
      if (!(refused instanceof ApiError) || refused.faults.length === 0) {
        toastError(refused, t`It was not submitted`);
      }
    }
    setBusy(false);
  };
  const known = ["prompt", "systemPrompt", "model", "queue", "priority", "maxTokens", "tags"];
  const others = error instanceof ApiError ? error.faults.filter(({ field }) => !known.includes(field)) : [];
  return (
    <Dialog
      title={t`Submit a task`}
      size="wide"
      onClose={onClose}
      onSubmit={() => void send()}
      footer={
        <>
          <Button onClick={onClose}>{from ? t`Cancel` : t`Close, keep the draft`}</Button>
          <Button type="submit" kind="primary" needs="tasks: create" busy={busy}>
            <Trans>Submit</Trans>
          </Button>
        </>
      }
    >
      <Field label={t`Prompt`} fault={faultOf("prompt")}>
        {(props) => (
          <textarea
            {...props}
            className="textarea tasks-prompt"
            required
            value={draft.prompt}
            onChange={(event) => set({ prompt: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`System prompt`} fault={faultOf("systemPrompt")}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            rows={2}
            value={draft.systemPrompt ?? ""}
            onChange={(event) => set({ systemPrompt: event.target.value })}
          />
        )}
      </Field>
      <div className="tasks-fields">
        <Line
          name="model"
          label={t`Model`}
          hint={t`empty: the default`}
          draft={draft}
          set={set}
          fault={faultOf}
        />
        <Line
          name="queue"
          label={t`Queue`}
          hint={t`empty: default`}
          draft={draft}
          set={set}
          fault={faultOf}
        />
        <Line
          name="priority"
          label={t`Priority`}
          hint={t`1 to 10`}
          draft={draft}
          set={set}
          fault={faultOf}
          number
        />
        <Line name="maxTokens" label={t`Most tokens`} draft={draft} set={set} fault={faultOf} number />
        <Line name="tags" label={t`Tags`} hint={t`with commas`} draft={draft} set={set} fault={faultOf} />
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={draft.review ?? false}
          onChange={(event) => set({ review: event.target.checked })}
        />
        <Trans>A reviewer must approve the output</Trans>
      </label>
      {others.map(({ field, message }) => (
        <p key={field} className="notice" data-tone="bad" role="alert">
          <strong translate="no" className="mono">
            {field}
          </strong>{" "}
          {message}
        </p>
      ))}
    </Dialog>
  );
}

function Line({
  name,
  label,
  hint,
  draft,
  set,
  fault,
  number = false,
}: {
  name: "model" | "queue" | "priority" | "maxTokens" | "tags";
  label: string;
  hint?: string;
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  fault: (field: string) => string | undefined;
  number?: boolean;
}) {
  return (
    <Field label={label} hint={hint} fault={fault(name)}>
      {(props) => (
        <input
          {...props}
          className="input"
          inputMode={number ? "numeric" : undefined}
          pattern={number ? "[0-9]*" : undefined}
          value={draft[name] ?? ""}
          onChange={(event) => set({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}
