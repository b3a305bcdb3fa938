/** The work of a schedule, as a form for what is usual and as JSON for all of it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useApi, usePage } from "../../api/hooks";
import { visible } from "../../lib/visible";
import { Button, Field, Panel } from "../../ui/basics";
import { type Faults, type Input, InputForm, JsonInput } from "../../ui/form/form";
import { formOf } from "../../ui/form/schema";
import type { Target } from "./read";

export type Kind = "template" | "plan" | "task";
export const kindOf = (target: Target): Kind =>
  target.task ? "task" : target.planId !== undefined && target.planId !== null ? "plan" : "template";

const EMPTY: Record<Kind, Target> = {
  template: { templateId: "" },
  plan: { planId: "" },
  task: { task: { prompt: "" } },
};

type Props = {
  target: Target;
  onChange: (target: Target) => void;
  onWrong: (path: string, isWrong: boolean) => void;
  /** Those whose field begins with `target`. */
  faults: Faults;
};

export function TargetForm({ target, onChange, onWrong, faults }: Props) {
  const [asJson, setAsJson] = useState(false);
  const kind = kindOf(target);
  const of = faults.map(({ field, message }) => ({ field: field.replace(/^target\.?/, ""), message }));
  const rest = of.filter(({ field }) => !KNOWN.some((known) => field.startsWith(known)));
  return (
    <Panel
      title={t`What it starts`}
      actions={
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
      }
    >
      <div className="pad stack">
        {(asJson ? of : rest).map(({ field, message }) => (
          <p key={field} className="notice" data-tone="bad" role="alert">
            <span>
              <code translate="no">{field || "target"}</code> {message}
            </span>
          </p>
        ))}
        {asJson ? (
          <JsonInput
            label={t`The work as JSON`}
            value={target as Input}
            onChange={(value) => onChange(value as Target)}
            onWrong={(isWrong) => onWrong("", isWrong)}
          />
        ) : (
          <>
            <Field label={t`Kind of work`}>
              {(props) => (
                <select
                  {...props}
                  className="select"
                  value={kind}
                  onChange={(event) => onChange(EMPTY[event.target.value as Kind])}
                >
                  <option value="template">{t`a template`}</option>
                  <option value="plan">{t`a plan`}</option>
                  <option value="task">{t`a task`}</option>
                </select>
              )}
            </Field>
            {kind === "template" && (
              <OfTemplate target={target} onChange={onChange} onWrong={onWrong} faults={of} />
            )}
            {kind === "plan" && <OfPlan target={target} onChange={onChange} onWrong={onWrong} faults={of} />}
            {kind === "task" && <OfTask target={target} onChange={onChange} onWrong={onWrong} faults={of} />}
            <p className="small soft">
              <Trans>
                In texts, <code translate="no">{AT}</code> is the time of the run,{" "}
                <code translate="no">{DATE}</code> its day, and <code translate="no">{PREVIOUS}</code> the
                time of the run before.
              </Trans>
            </p>
          </>
        )}
      </div>
    </Panel>
  );
}

const AT = "{{meta.scheduledAt}}";
const DATE = "{{meta.scheduledDate}}";
const PREVIOUS = "{{meta.previousScheduledAt}}";

const KNOWN = [
  "templateId",
  "version",
  "planId",
  "input",
  "title",
  "task.prompt",
  "task.systemPrompt",
  "task.model",
  "task.queue",
  "task.title",
];
const faultIn = (faults: Faults, field: string) => faults.find((each) => each.field === field)?.message;

function OfTemplate({ target, onChange, onWrong, faults }: Props) {
  const id = target.templateId ?? "";
  const version = target.version ?? undefined;
  const templates = usePage("/api/templates", { query: { limit: 100 } });
  const versions = useApi("/api/templates/{id}/versions", { path: { id } }, { enabled: id !== "" });
  const one = useApi(
    "/api/templates/{id}",
    { path: { id }, query: { version } },
    { enabled: id !== "", retry: false },
  );
  const isListed = templates.data?.items.some((each) => each.id === id);
  return (
    <>
      <div className="schedules-pair">
        <Field label={t`Template`} fault={faultIn(faults, "templateId") ?? one.error?.message}>
          {(props) => (
            <select
              {...props}
              className="select"
              required
              value={id}
              onChange={(event) =>
                onChange({ ...target, templateId: event.target.value, version: undefined })
              }
            >
              <option value="">{t`Choose a template`}</option>
              {id && !isListed && <option value={id}>{id}</option>}
              {templates.data?.items.map((each) => (
                <option key={each.id} value={each.id}>
                  {visible(each.name)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={t`Version`} fault={faultIn(faults, "version")}>
          {(props) => (
            <select
              {...props}
              className="select"
              disabled={!versions.data}
              value={version ?? ""}
              onChange={(event) => onChange({ ...target, version: event.target.value || undefined })}
            >
              <option value="">{t`the latest at each run`}</option>
              {versions.data?.map((each) => (
                <option key={each.version} value={each.version}>
                  {each.version}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {one.data && (
        <OfInput
          key={`${id} ${one.data.version}`}
          schema={one.data.inputSchema}
          {...{ target, onChange, onWrong, faults }}
        />
      )}
      <Title target={target} onChange={onChange} faults={faults} />
    </>
  );
}

function OfPlan({ target, onChange, onWrong, faults }: Props) {
  const id = target.planId ?? "";
  const plans = usePage("/api/plans", { query: { limit: 100 } });
  const one = useApi("/api/plans/{id}", { path: { id } }, { enabled: id !== "", retry: false });
  const isListed = plans.data?.items.some((each) => each.id === id);
  return (
    <>
      <Field label={t`Plan`} fault={faultIn(faults, "planId") ?? one.error?.message}>
        {(props) => (
          <select
            {...props}
            className="select"
            required
            value={id}
            onChange={(event) => onChange({ ...target, planId: event.target.value })}
          >
            <option value="">{t`Choose a plan`}</option>
            {id && !isListed && <option value={id}>{id}</option>}
            {plans.data?.items.map((each) => (
              <option key={each.id} value={each.id}>
                {visible(each.name)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {one.data && (
        <OfInput key={id} schema={one.data.inputSchema} {...{ target, onChange, onWrong, faults }} />
      )}
      <Title target={target} onChange={onChange} faults={faults} />
    </>
  );
}

function OfInput({ target, onChange, onWrong, faults, schema }: Props & { schema: unknown }) {
  const fields = formOf(schema);
  const input = (target.input ?? {}) as Input;
  const give = (value: Input) => onChange({ ...target, input: value as Target["input"] });
  const fault = faultIn(faults, "input");
  return (
    <fieldset className="form-group">
      <legend>
        <Trans>Input</Trans>
      </legend>
      {fields ? (
        <>
          {fault && (
            <p className="notice" data-tone="bad">
              {fault}
            </p>
          )}
          <InputForm fields={fields} value={input} onChange={give} onWrong={onWrong} faults={faults} />
        </>
      ) : (
        <JsonInput
          value={input}
          onChange={give}
          onWrong={(isWrong) => onWrong("input", isWrong)}
          fault={faults.find(({ field }) => field.startsWith("input"))?.message}
        />
      )}
    </fieldset>
  );
}

function Title({ target, onChange, faults }: Omit<Props, "onWrong">) {
  return (
    <Field
      label={t`Title of each run`}
      hint={t`For people; empty for the usual one.`}
      fault={faultIn(faults, "title")}
    >
      {(props) => (
        <input
          {...props}
          className="input"
          value={target.title ?? ""}
          onChange={(event) => onChange({ ...target, title: event.target.value || undefined })}
        />
      )}
    </Field>
  );
}

function OfTask({ target, onChange, faults }: Props) {
  const task = target.task ?? {};
  const set = (change: Partial<NonNullable<Target["task"]>>) => onChange({ task: { ...task, ...change } });
  if (task.function) {
    return (
      <p className="soft">
        <Trans>
          It calls the function <code translate="no">{task.function}</code>: change it as JSON.
        </Trans>
      </p>
    );
  }
  return (
    <>
      <Field label={t`Prompt`} fault={faultIn(faults, "task.prompt")}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            required
            rows={5}
            value={task.prompt ?? ""}
            onChange={(event) => set({ prompt: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`System prompt`} fault={faultIn(faults, "task.systemPrompt")}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            rows={2}
            value={task.systemPrompt ?? ""}
            onChange={(event) => set({ systemPrompt: event.target.value || undefined })}
          />
        )}
      </Field>
      <div className="schedules-pair">
        {(["model", "queue"] as const).map((name) => (
          <Field
            key={name}
            label={name === "model" ? t`Model` : t`Queue`}
            hint={t`Empty for the default.`}
            fault={faultIn(faults, `task.${name}`)}
          >
            {(props) => (
              <input
                {...props}
                className="input"
                value={task[name] ?? ""}
                onChange={(event) => set({ [name]: event.target.value || undefined })}
              />
            )}
          </Field>
        ))}
      </div>
    </>
  );
}
