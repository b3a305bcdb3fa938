/** A step that waits for a signal: for which, until when, what came early, and the form that sends it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiError, api, unwrap } from "../../api/client";
import { instant } from "../../lib/format";
import { freshKey } from "../../lib/fresh-key";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Command, Failed } from "../../ui/basics";
import { type Input, InputForm, JsonInput, useWrong } from "../../ui/form/form";
import { missing } from "../../ui/form/schema";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";
import { faultsIn, payloadForm, payloadOf } from "./signal";
import type { StepView } from "./steps";

export default function Signal({ executionId, step }: { executionId: string; step: StepView }) {
  const may = useMay();
  const { result, state, signal = "" } = step;
  const name = <code translate="no">{visible(signal)}</code>;
  const came = result?.signalledAt;
  const isOpen = state === "pending";
  return (
    <section className="stack" aria-label={t`Signal ${signal}`}>
      <h3>
        <Trans>Signal</Trans>
      </h3>
      {!isOpen ? (
        <p>
          {came ? (
            <Trans>
              {name} came <Ago at={came} />. Its payload is the output.
            </Trans>
          ) : (
            <Trans>{name} did not come.</Trans>
          )}
        </p>
      ) : came ? (
        <p className="notice" data-tone="warn">
          <span>
            <Trans>
              {name} came early, <Ago at={came} />: it is kept, and the step takes it when it begins.
            </Trans>
          </span>
        </p>
      ) : result?.waitingFor === "signal" ? (
        <p>
          {result.waitingUntil ? (
            <Trans>
              It waits for {name} until {instant(result.waitingUntil)} (<Ago at={result.waitingUntil} />
              ), and fails if it does not come.
            </Trans>
          ) : (
            <Trans>It waits for {name}, as long as the execution.</Trans>
          )}
        </p>
      ) : (
        <p>
          <Trans>It will wait for {name}. A signal that is sent before is kept.</Trans>
        </p>
      )}
      {isOpen && may("executions: signal") && (
        <Send key={came ?? "first"} executionId={executionId} step={step} replaces={came !== undefined} />
      )}
    </section>
  );
}

function Send({ executionId, step, replaces }: { executionId: string; step: StepView; replaces: boolean }) {
  const client = useQueryClient();
  const { signal = "", schema } = step;
  const form = useMemo(() => payloadForm(schema), [schema]);
  const [entered, setEntered] = useState<Input>({});
  const [asJson, setAsJson] = useState(false);
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  // One key for one intent: again after a lost answer, it is the same signal.
  const [key] = useState(freshKey);
  const { isWrong, onWrong } = useWrong();
  const faults = refused instanceof ApiError ? faultsIn(form, refused.faults) : [];
  const lacks = missing(form.fields, entered);
  const send = async () => {
    setBusy(true);
    setRefused(undefined);
    const payload = payloadOf(form, entered);
    try {
      await unwrap(
        api.POST("/api/plans/executions/{id}/signals/{name}", {
          params: { path: { id: executionId, name: signal }, header: { "Idempotency-Key": key } },
          body: { payload, ...(replaces && { replace: true }) } as never,
        }),
      );
      toast(t`${visible(signal)} was sent.`);
    } catch (error) {
      setRefused(error as Error);
    }
    setBusy(false);
    await client.invalidateQueries({
      queryKey: ["/api/plans/executions/{id}", { path: { id: executionId } }],
    });
  };
  const body = (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !isWrong && lacks.length === 0) void send();
      }}
    >
      {refused && faults.length === 0 && <Failed error={refused} what={t`It was not sent`} />}
      {asJson ? (
        <JsonInput
          label={t`Payload as JSON`}
          value={entered}
          onChange={setEntered}
          onWrong={(isWrong) => onWrong("", isWrong)}
          fault={faults[0]?.message}
        />
      ) : (
        <InputForm
          fields={form.fields}
          value={entered}
          onChange={setEntered}
          onWrong={onWrong}
          faults={faults}
          root="payload"
        />
      )}
      <div className="row wrap">
        <Button type="submit" kind="primary" busy={busy} disabled={isWrong || lacks.length > 0}>
          {replaces ? t`Replace the signal` : t`Send the signal`}
        </Button>
        {form.isObject && (
          <Button
            aria-pressed={asJson}
            onClick={() => {
              onWrong("", false);
              setAsJson(!asJson);
            }}
          >
            {asJson ? t`As a form` : t`As JSON`}
          </Button>
        )}
      </div>
      {lacks.length > 0 && (
        <p className="small soft">
          <Trans>Still needed: {lacks.map(({ path }) => path.join(".")).join(", ")}</Trans>
        </p>
      )}
      <Command>{`callboard executions signal ${executionId} ${signal} --json '${JSON.stringify(payloadOf(form, entered) ?? null)}'`}</Command>
    </form>
  );
  if (!replaces) return body;
  return (
    <details>
      <summary>
        <Trans>Send another one in its place</Trans>
      </summary>
      {body}
    </details>
  );
}
