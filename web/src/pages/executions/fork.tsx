/** Forks an execution: what differs, a dry run that says what is taken over and what the rest costs, then the button. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useLocation } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { freshKey } from "../../lib/fresh-key";
import { Button, Failed, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { type Input, InputForm, JsonInput, useWrong } from "../../ui/form/form";
import { formOf } from "../../ui/form/schema";
import { toast } from "../../ui/toast";
import { costs, OverBudget } from "../definition/estimate";
import type { Execution, Plan } from "./steps";

type Request = Schemas["ForkExecution"];
type DryRun = Schemas["DryRun"];

/** Only what differs from the original. */
export function requestOf(original: Execution, fromStep: string, version: string, input: Input): Request {
  const isSame = JSON.stringify(input) === JSON.stringify(original.input ?? {});
  return {
    fromStep: fromStep || undefined,
    version: version || undefined,
    input: isSame ? undefined : input,
  };
}

export function Fork({
  execution,
  plan,
  step,
  onClose,
}: {
  execution: Execution;
  plan: Plan;
  /** The selected step. */
  step: string | undefined;
  onClose: () => void;
}) {
  const [, navigate] = useLocation();
  const [fromStep, setFromStep] = useState(step ?? "");
  const [version, setVersion] = useState("");
  const [input, setInput] = useState<Input>(() => (execution.input ?? {}) as Input);
  const { isWrong, onWrong } = useWrong();
  // One key for one intent: a second press, or one after a lost answer, starts one fork.
  const [dry, setDry] = useState<{ of: string; result: DryRun; key: string }>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);

  const body = requestOf(execution, fromStep, version, input);
  const text = JSON.stringify(body);
  const ready = dry?.of === text ? dry : undefined;
  const current = ready?.result;
  const faults = error instanceof ApiError ? error.faults : [];
  const fields = formOf(plan.inputSchema);

  const send = async () => {
    setBusy(true);
    setError(undefined);
    const header = ready && { "Idempotency-Key": ready.key };
    const params = { path: { id: execution.id }, header };
    const asked = ready ? body : { ...body, dryRun: true };
    try {
      const result = await unwrap(api.POST("/api/plans/executions/{id}/fork", { params, body: asked }));
      if (!ready) return setDry({ of: text, result: result as DryRun, key: freshKey() });
      const { id } = result as Execution;
      const run = () => navigate(`/executions/${id}?view=compare&with=${execution.id}`);
      toast(t`The fork runs.`, { action: { label: t`Compare`, run } });
      onClose();
      navigate(`/executions/${id}`);
    } catch (refused) {
      setError(refused as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Fork this execution`}
      onClose={onClose}
      onSubmit={() => void send()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button kind="primary" icon="next" type="submit" busy={busy} disabled={isWrong}>
            {current ? t`Fork · ${costs(current.estimate)}` : t`Dry run`}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>
          <Trans>
            A fork is a new execution. It takes over each completed step whose prompt, model and settings stay
            the same, and runs the others.
          </Trans>
        </p>
        <Field
          label={t`Run anew from`}
          hint={t`This step runs in any case; steps after it run if their prompts change.`}
          fault={faults.find(({ field }) => field === "fromStep")?.message}
        >
          {(props) => (
            <select
              {...props}
              className="select"
              value={fromStep}
              onChange={(event) => setFromStep(event.target.value)}
            >
              <option value="">{t`only what changed`}</option>
              {plan.steps.map(({ id }) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
            </select>
          )}
        </Field>
        {plan.templateId && (
          <Version
            templateId={plan.templateId}
            current={plan.templateVersion}
            value={version}
            onChange={setVersion}
            fault={faults.find(({ field }) => field === "version")?.message}
          />
        )}
        {fields ? (
          <InputForm fields={fields} value={input} onChange={setInput} onWrong={onWrong} faults={faults} />
        ) : (
          <JsonInput
            value={input}
            onChange={setInput}
            onWrong={(isWrong) => onWrong("", isWrong)}
            fault={faults.find(({ field }) => field.startsWith("input"))?.message}
          />
        )}
        {error && <Failed error={error} what={t`The fork was refused`} />}
        {current && <Reused run={current} />}
        {current && <OverBudget run={current} />}
      </div>
    </Dialog>
  );
}

function Version({
  templateId,
  current,
  value,
  onChange,
  fault,
}: {
  templateId: string;
  current: string | undefined;
  value: string;
  onChange: (version: string) => void;
  fault: string | undefined;
}) {
  const versions = useApi("/api/templates/{id}/versions", { path: { id: templateId } });
  return (
    <Field label={t`Version of the template`} fault={fault}>
      {(props) => (
        <select
          {...props}
          className="select"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="">{current ? t`${current}, as it was` : t`as it was`}</option>
          {versions.data
            ?.filter(({ version }) => version !== current)
            .map(({ version }) => (
              <option key={version} value={version}>
                {version}
              </option>
            ))}
        </select>
      )}
    </Field>
  );
}

function Reused({ run }: { run: DryRun }) {
  const anew = run.steps.filter(({ reused }) => !reused);
  return (
    <div role="status" className="notice">
      <div className="grow">
        <strong>
          <Plural
            value={run.steps.length}
            one={`${run.steps.length - anew.length} of # step taken over, ${costs(run.estimate)} for the rest.`}
            other={`${run.steps.length - anew.length} of # steps taken over, ${costs(run.estimate)} for the rest.`}
          />
        </strong>
        {anew.length > 0 && (
          <p className="executions-wrap">
            <Trans>
              Runs anew:{" "}
              {anew
                .slice(0, 20)
                .map(({ id }) => id)
                .join(", ")}
            </Trans>
            {anew.length > 20 && ` ${t`and ${anew.length - 20} more`}`}
          </p>
        )}
      </div>
    </div>
  );
}
