/** Starts a template or a plan: input, what differs for this run, and a dry run before the button. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useLocation } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { count, duration, money } from "../../lib/format";
import { freshKey } from "../../lib/fresh-key";
import { useOwn } from "../../session/session";
import { Button, Failed, Field, Panel } from "../../ui/basics";
import { type Faults, type Input, InputForm, JsonInput, useWrong } from "../../ui/form/form";
import { type FormField, formOf, missing } from "../../ui/form/schema";
import { toast } from "../../ui/toast";
import { costs, OverBudget } from "./estimate";
import { Gate } from "./steps";
import "../../ui/plain.css";
import "./definition.css";
import { Scroll } from "../../ui/sized";

type Target = { kind: "template"; id: string; version: string } | { kind: "plan"; id: string };
type DryRun = Schemas["DryRun"];
type Options = {
  maxCost: string;
  minutes: string;
  failFast: boolean;
  threshold: string;
  gates: "as" | "own";
};
const NO_OPTIONS: Options = { maxCost: "", minutes: "", failFast: false, threshold: "", gates: "as" };

export function Run({
  target,
  schema,
  steps,
  hitl,
}: {
  target: Target;
  schema: unknown;
  steps: Schemas["Step"][];
  hitl?: Schemas["Hitl"];
}) {
  const [, navigate] = useLocation();
  const [input, setInput] = useOwn<Input>(`draft.run.${target.id}`, {});
  const [models, setModels] = useState<Record<string, string>>({});
  const [queues, setQueues] = useState<Record<string, string>>({});
  const [held, setHeld] = useState<string[]>(hitl?.requiredFor ?? []);
  const [options, setOptions] = useState(NO_OPTIONS);
  const { isWrong, onWrong } = useWrong();
  const [dry, setDry] = useState<{ of: string; result: DryRun }>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState<"dry" | "run">();
  // One key for one intent: pressing twice, or again after a lost answer, starts one run.
  const [key, setKey] = useState(freshKey);

  const fields = formOf(schema);
  const lacks = missing(fields ?? [], input);
  const body = bodyOf({ target, input, models, queues, held, options });
  const text = JSON.stringify(body);
  const current = dry?.of === text ? dry.result : undefined;
  const faults: Faults = error instanceof ApiError ? error.faults : [];
  const isOfInput = faults.length > 0 && faults.every(({ field }) => field.startsWith("input"));

  const send = async (isDry: boolean) => {
    setBusy(isDry ? "dry" : "run");
    setError(undefined);
    try {
      const result = await start(target, isDry ? withDryRun(body) : body, isDry ? undefined : key);
      if (isDry) return setDry({ of: text, result: result as DryRun });
      setInput(undefined);
      setKey(freshKey());
      toast(t`It runs.`);
      navigate(`/executions/${(result as Schemas["Execution"]).id}`);
    } catch (refused) {
      setError(refused as Error);
    } finally {
      setBusy(undefined);
    }
  };
  const verb = target.kind === "template" ? t`Deploy` : t`Run`;
  const needs = target.kind === "template" ? "templates: deploy" : "plans: execute";
  return (
    <div className="definition-run">
      <div className="stack">
        <InputPanel fields={fields} input={input} onChange={setInput} onWrong={onWrong} faults={faults} />
        {target.kind === "template" && (
          <Overrides
            steps={steps}
            models={models}
            queues={queues}
            setModels={setModels}
            setQueues={setQueues}
          />
        )}
        <Limits
          steps={steps}
          options={options}
          set={setOptions}
          held={held}
          setHeld={setHeld}
          faults={faults}
        />
      </div>
      <div className="definition-aside">
        <Panel title={t`Before it runs`}>
          <div className="pad stack">
            {error && !isOfInput && <Failed error={error} what={t`It was refused`} />}
            {error && isOfInput && (
              <Failed error={new Error(t`see the fields`)} what={t`The input is not accepted`} />
            )}
            {current ? (
              <Estimate run={current} />
            ) : (
              <p className="soft">
                <Trans>
                  A dry run checks everything, renders the prompts, and says what it would cost and how long
                  it would take. It stores and starts nothing.
                </Trans>
              </p>
            )}
            {lacks.length > 0 && (
              <p className="small soft">
                <Trans>Still needed: {lacks.map(({ path }) => path.join(".")).join(", ")}</Trans>
              </p>
            )}
            <div className="row wrap">
              <Button
                kind={current ? undefined : "primary"}
                needs={needs}
                busy={busy === "dry"}
                disabled={isWrong}
                onClick={() => void send(true)}
              >
                {current ? t`Dry run again` : t`Dry run`}
              </Button>
              <Button
                kind={current ? "primary" : undefined}
                icon="next"
                needs={needs}
                busy={busy === "run"}
                disabled={!current || isWrong}
                onClick={() => void send(false)}
              >
                {current ? `${verb} · ${costs(current.estimate)}` : verb}
              </Button>
            </div>
            {dry && !current && (
              <p className="small soft">
                <Trans>It was changed since the dry run.</Trans>
              </p>
            )}
          </div>
        </Panel>
      </div>
      {current && (
        <div className="definition-wide">
          <DrySteps run={current} />
        </div>
      )}
    </div>
  );
}

function InputPanel({
  fields,
  input,
  onChange,
  onWrong,
  faults,
}: {
  fields: FormField[] | undefined;
  input: Input;
  onChange: (input: Input) => void;
  onWrong: (path: string, isWrong: boolean) => void;
  faults: Faults;
}) {
  const [asJson, setAsJson] = useState(fields === undefined);
  const rest = faults.filter(({ field }) => field === "input");
  return (
    <Panel
      title={t`Input`}
      actions={
        fields && (
          <Button
            size="small"
            aria-pressed={asJson}
            onClick={() => {
              onWrong("", false);
              setAsJson(!asJson);
            }}
          >
            {asJson ? t`As a form` : t`As JSON`}
          </Button>
        )
      }
    >
      <div className="pad">
        {asJson || !fields ? (
          <JsonInput
            value={input}
            onChange={onChange}
            onWrong={(isWrong) => onWrong("", isWrong)}
            fault={faults.find(({ field }) => field.startsWith("input"))?.message}
          />
        ) : (
          <>
            {rest.map(({ message }) => (
              <p key={message} className="field">
                <span className="fault">{message}</span>
              </p>
            ))}
            <InputForm fields={fields} value={input} onChange={onChange} onWrong={onWrong} faults={faults} />
          </>
        )}
      </div>
    </Panel>
  );
}

type Texts = Record<string, string>;

function Overrides({
  steps,
  models,
  queues,
  setModels,
  setQueues,
}: {
  steps: Schemas["Step"][];
  models: Texts;
  queues: Texts;
  setModels: (models: Texts) => void;
  setQueues: (queues: Texts) => void;
}) {
  const many = Object.values({ ...models, ...queues }).filter(Boolean).length;
  return (
    <details className="panel definition-details">
      <summary>
        <Trans>
          Model and queue of each step{" "}
          <span className="faint">{many > 0 ? t`${many} changed` : t`as defined`}</span>
        </Trans>
      </summary>
      <Scroll>
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">
                <Trans>Step</Trans>
              </th>
              <th scope="col">
                <Trans>Model</Trans>
              </th>
              <th scope="col">
                <Trans>Queue</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {steps.map(({ id, model, queue, function: calls }) => (
              <tr key={id}>
                <th scope="row" translate="no" className="mono">
                  {id}
                </th>
                <td>
                  {calls ? (
                    <span className="soft">
                      <Trans>calls {calls}</Trans>
                    </span>
                  ) : (
                    <input
                      className="input"
                      aria-label={t`Model of ${id}`}
                      placeholder={model ?? t`default`}
                      value={models[id] ?? ""}
                      onChange={(event) => setModels({ ...models, [id]: event.target.value })}
                    />
                  )}
                </td>
                <td>
                  <input
                    className="input"
                    aria-label={t`Queue of ${id}`}
                    placeholder={queue ?? t`default`}
                    value={queues[id] ?? ""}
                    onChange={(event) => setQueues({ ...queues, [id]: event.target.value })}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

function Limits({
  steps,
  options,
  set,
  held,
  setHeld,
  faults,
}: {
  steps: Schemas["Step"][];
  options: Options;
  set: (options: Options) => void;
  held: string[];
  setHeld: (held: string[]) => void;
  faults: Faults;
}) {
  const fault = (field: string) => faults.find((each) => each.field === field)?.message;
  return (
    <details className="panel definition-details">
      <summary>
        <Trans>
          Review and limits{" "}
          <span className="faint">
            {JSON.stringify(options) === JSON.stringify(NO_OPTIONS) ? t`as defined` : t`changed`}
          </span>
        </Trans>
      </summary>
      <div className="pad form">
        <Field
          label={t`Most it may cost, in USD`}
          hint={t`It stops before it would cost more.`}
          fault={fault("options.maxCost")}
        >
          {(props) => (
            <input
              {...props}
              className="input"
              inputMode="decimal"
              value={options.maxCost}
              onChange={(event) => set({ ...options, maxCost: event.target.value })}
            />
          )}
        </Field>
        <Field label={t`Most it may take, in minutes`} fault={fault("options.timeoutMs")}>
          {(props) => (
            <input
              {...props}
              className="input"
              inputMode="decimal"
              value={options.minutes}
              onChange={(event) => set({ ...options, minutes: event.target.value })}
            />
          )}
        </Field>
        <label className="check">
          <input
            type="checkbox"
            checked={options.failFast}
            onChange={(event) => set({ ...options, failFast: event.target.checked })}
          />
          <Trans>End at once when a step fails</Trans>
        </label>
        <Field label={t`Which outputs wait for a reviewer`}>
          {(props) => (
            <select
              {...props}
              className="select"
              value={options.gates}
              onChange={(event) => set({ ...options, gates: event.target.value as Options["gates"] })}
            >
              <option value="as">{t`as defined`}</option>
              <option value="own">{t`these, in place of what is defined`}</option>
            </select>
          )}
        </Field>
        {options.gates === "own" && (
          <fieldset className="form-group">
            <legend>
              <Trans>Always reviewed</Trans>
            </legend>
            <div className="definition-checks">
              {steps.map(({ id }) => (
                <label key={id} className="check">
                  <input
                    type="checkbox"
                    checked={held.includes(id)}
                    onChange={() =>
                      setHeld(held.includes(id) ? held.filter((it) => it !== id) : [...held, id])
                    }
                  />
                  <span translate="no" className="mono">
                    {id}
                  </span>
                </label>
              ))}
            </div>
            {held.length === 0 && (
              <Field
                label={t`Else, outputs below this confidence`}
                hint={t`0 to 1.`}
                fault={fault("hitl.confidenceThreshold")}
              >
                {(props) => (
                  <input
                    {...props}
                    className="input"
                    inputMode="decimal"
                    value={options.threshold}
                    onChange={(event) => set({ ...options, threshold: event.target.value })}
                  />
                )}
              </Field>
            )}
          </fieldset>
        )}
      </div>
    </details>
  );
}

function Estimate({ run }: { run: DryRun }) {
  const { estimate, criticalPath, steps } = run;
  const held = steps.filter(({ gate }) => gate === "always").length;
  return (
    <div className="stack" role="status">
      <dl className="figures">
        <div>
          <dt>
            <Trans>Cost</Trans>
          </dt>
          <dd>{costs(estimate)}</dd>
          <dd className="faint small">
            <Trans>at most {money(estimate.costHigh)}</Trans>
          </dd>
        </div>
        <div>
          <dt>
            <Trans>Time</Trans>
          </dt>
          <dd>{duration(estimate.durationMs)}</dd>
          <dd className="faint small">
            <Trans>without queues and reviewers</Trans>
          </dd>
        </div>
        <div>
          <dt>
            <Trans>Reviews</Trans>
          </dt>
          <dd>{held}</dd>
          <dd className="faint small">
            <Trans>of {steps.length} steps, for certain</Trans>
          </dd>
        </div>
      </dl>
      <OverBudget run={run} />
      <p className="small soft">
        {estimate.basis === "history"
          ? t`From runs of the past.`
          : t`From prices and lengths; it has no past runs.`}
        {estimate.priceUnknown && t` A model has no price, and counts as $0.`}
      </p>
      <div>
        <h3>
          <Trans>Critical path</Trans>
        </h3>
        <ol className="definition-path">
          {criticalPath.map((id) => (
            <li key={id} translate="no" className="mono">
              {id}
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

function DrySteps({ run }: { run: DryRun }) {
  const critical = new Set(run.criticalPath);
  return (
    <Panel title={t`What would run`}>
      <Scroll>
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">
                <Trans>Step</Trans>
              </th>
              <th scope="col">
                <Trans>Model</Trans>
              </th>
              <th scope="col">
                <Trans>Queue</Trans>
              </th>
              <th scope="col">
                <Trans>Review</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Cost</Trans>
              </th>
              <th scope="col">
                <Trans>Prompt</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {run.steps.map((step) => (
              <tr key={step.id}>
                <th scope="row" translate="no" className="mono">
                  {step.id}
                  {critical.has(step.id) && (
                    <span className="tag definition-tag">
                      <Trans>critical</Trans>
                    </span>
                  )}
                </th>
                <td>{step.model}</td>
                <td>{step.queue}</td>
                <td>{step.gate === "none" ? <span className="faint">–</span> : <Gate gate={step.gate} />}</td>
                <td className="num">{money(step.estimatedCost)}</td>
                <td className="definition-prompt-cell">
                  <details>
                    <summary className="cut">{step.prompt.slice(0, 80)}</summary>
                    <div className="text definition-prompt">{step.prompt}</div>
                  </details>
                  {step.promptTruncated && (
                    <p className="soft small" data-cut>
                      <Trans>
                        The first {count(step.prompt.length)} characters; the run has the whole prompt.
                      </Trans>
                    </p>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

type Given = {
  target: Target;
  input: Input;
  models: Texts;
  queues: Texts;
  held: string[];
  options: Options;
};

/** The body of the request: only what was said. What is no number is sent as it is, for the server to refuse. */
export function bodyOf({ target, input, models, queues, held, options }: Given): Schemas["DeployTemplate"] {
  const said = (texts: Texts) =>
    Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim() !== ""));
  const number = (text: string, times = 1) => {
    const value = Number(text) * times;
    return (text.trim() === "" ? undefined : Number.isNaN(value) ? text : value) as number | undefined;
  };
  const runs = {
    maxCost: number(options.maxCost),
    timeoutMs: number(options.minutes, 60_000),
    failFast: options.failFast || undefined,
  };
  const body: Schemas["DeployTemplate"] = { input };
  if (options.gates === "own") {
    body.hitl = {
      requiredFor: held,
      confidenceThreshold: held.length === 0 ? number(options.threshold) : undefined,
    };
  }
  if (Object.values(runs).some((value) => value !== undefined)) body.options = runs;
  if (target.kind === "template") {
    body.version = target.version;
    if (Object.keys(said(models)).length > 0) body.modelOverrides = said(models);
    if (Object.keys(said(queues)).length > 0) body.queueOverrides = said(queues);
  }
  return body;
}

const withDryRun = (body: Schemas["DeployTemplate"]) => ({
  ...body,
  options: { ...body.options, dryRun: true },
});

async function start(target: Target, body: Schemas["DeployTemplate"], key: string | undefined) {
  const params = {
    path: { id: target.id },
    header: key ? { "Idempotency-Key": key } : undefined,
  };
  return target.kind === "template"
    ? unwrap(api.POST("/api/templates/{id}/deploy", { params, body }))
    : unwrap(api.POST("/api/plans/{id}/execute", { params, body }));
}
