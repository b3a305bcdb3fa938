/** The forms of a budget: all of a new one; of an existing one what may change. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { usePage } from "../../api/hooks";
import { zone } from "../../lib/span";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Failed, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { toast } from "../../ui/toast";
import { PERIODS, RULES } from "./parts";
import type { Budget } from "./rate";

type Draft = { limit: string; alertAt: string; onExceed: string };
type New = Draft & {
  period: string;
  timezone: string;
  tags: string;
  templateId: string;
  model: string;
  account: string;
};

const listOf = (text: string) =>
  text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
/** Percent as shares. What is no number is sent as it is, for the server to refuse. */
const sharesOf = (text: string) =>
  listOf(text.replaceAll("%", "")).map((each) =>
    Number.isNaN(Number(each)) ? each : Number(each) / 100,
  ) as number[];
const numberOf = (text: string) =>
  (text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text)) as number;

export function NewBudget({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState<New>({
    limit: "",
    alertAt: "50, 80",
    onExceed: "wait",
    period: "month",
    timezone: zone(),
    tags: "",
    templateId: "",
    model: "",
    account: "",
  });
  const save = async () => {
    const { limit, alertAt, onExceed, period, timezone, tags, templateId, model, account } = draft;
    const body = {
      match: {
        tags: listOf(tags).length > 0 ? listOf(tags) : undefined,
        templateId: templateId || undefined,
        model: model.trim() || undefined,
        account: account || undefined,
      },
      limit: numberOf(limit),
      period,
      timezone: timezone.trim(),
      alertAt: sharesOf(alertAt),
      onExceed,
    } as Schemas["CreateBudget"];
    const made = (await unwrap(api.POST("/api/budgets", { body }))) as Budget;
    toast(t`The budget was created.`);
    navigate(`/budgets/${made.id}`);
  };
  return (
    <Form title={t`New budget`} verb={t`Create`} save={save} onClose={onClose} draft={draft} set={setDraft}>
      {(faultOf) => <Scope draft={draft} set={setDraft} faultOf={faultOf} />}
    </Form>
  );
}

export function EditBudget({ of, onClose }: { of: Budget; onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>({
    limit: String(of.limit),
    alertAt: of.alertAt.map((at) => Number((at * 100).toFixed(2))).join(", "),
    onExceed: of.onExceed,
  });
  const save = async () => {
    const body = {
      limit: numberOf(draft.limit),
      alertAt: sharesOf(draft.alertAt),
      onExceed: draft.onExceed,
    } as Schemas["ChangeBudget"];
    await unwrap(api.PATCH("/api/budgets/{id}", { params: { path: { id: of.id } }, body }));
    toast(t`The budget was changed. What was spent stays.`);
  };
  return (
    <Form
      title={t`Edit the budget`}
      verb={t`Save`}
      save={save}
      onClose={onClose}
      draft={draft}
      set={setDraft}
    />
  );
}

type FaultOf = (field: string) => string | undefined;

function Form<D extends Draft>({
  title,
  verb,
  save,
  onClose,
  draft,
  set,
  children,
}: {
  title: string;
  verb: string;
  save: () => Promise<void>;
  onClose: () => void;
  draft: D;
  set: (draft: D) => void;
  children?: (faultOf: FaultOf) => React.ReactNode;
}) {
  const client = useQueryClient();
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const faults = refused instanceof ApiError ? refused.faults : [];
  const faultOf: FaultOf = (field) =>
    faults.find((each) => each.field === field || each.field.startsWith(`${field}[`))?.message;
  const submit = async () => {
    setBusy(true);
    try {
      await save();
      await client.invalidateQueries({
        predicate: ({ queryKey: [path] }) => String(path).startsWith("/api/budgets"),
      });
      onClose();
    } catch (error) {
      setRefused(error as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      size="wide"
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            {verb}
          </Button>
        </>
      }
    >
      {refused && faults.length === 0 && <Failed error={refused} what={t`It was not saved`} />}
      <Field
        label={t`Limit, in USD`}
        hint={t`0 stops every task that costs something.`}
        fault={faultOf("limit")}
      >
        {(props) => (
          <input
            {...props}
            className="input"
            inputMode="decimal"
            required
            value={draft.limit}
            onChange={(event) => set({ ...draft, limit: event.target.value })}
          />
        )}
      </Field>
      {children?.(faultOf)}
      <div className="budgets-pair">
        <Field label={t`What does not fit`} fault={faultOf("onExceed")}>
          {(props) => (
            <select
              {...props}
              className="select"
              value={draft.onExceed}
              onChange={(event) => set({ ...draft, onExceed: event.target.value })}
            >
              {Object.entries(RULES).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field
          label={t`Alerts, in % of the limit`}
          hint={t`With commas; at most 8.`}
          fault={faultOf("alertAt")}
        >
          {(props) => (
            <input
              {...props}
              className="input"
              value={draft.alertAt}
              onChange={(event) => set({ ...draft, alertAt: event.target.value })}
            />
          )}
        </Field>
      </div>
    </Dialog>
  );
}

function Scope({ draft, set, faultOf }: { draft: New; set: (draft: New) => void; faultOf: FaultOf }) {
  const may = useMay();
  const templates = usePage("/api/templates", { query: { limit: 100 } });
  const models = usePage("/api/models", { query: { limit: 100 } }, { enabled: may("models: read") });
  const users = usePage("/api/auth/users", { query: { limit: 100 } }, { enabled: may("auth: manage users") });
  const keys = usePage("/api/auth/keys", { query: { limit: 100 } }, { enabled: may("auth: manage keys") });
  const text = (name: "tags" | "model" | "timezone", label: string, hint?: string, list?: string[]) => (
    <Field label={label} hint={hint} fault={faultOf(name) ?? faultOf(`match.${name}`)}>
      {(props) => (
        <>
          <input
            {...props}
            className="input"
            list={list && `budget-${name}`}
            spellCheck={false}
            value={draft[name]}
            onChange={(event) => set({ ...draft, [name]: event.target.value })}
          />
          {list && (
            <datalist id={`budget-${name}`}>
              {list.map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  );
  return (
    <>
      <div className="budgets-pair">
        <Field label={t`Period`} fault={faultOf("period")}>
          {(props) => (
            <select
              {...props}
              className="select"
              value={draft.period}
              onChange={(event) => set({ ...draft, period: event.target.value })}
            >
              {Object.entries(PERIODS).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        {text("timezone", t`Time zone`, t`Its midnights count.`)}
      </div>
      <fieldset className="form-group">
        <legend>
          <Trans>For tasks with all of these; if nothing is entered, for every task</Trans>
        </legend>
        <div className="budgets-pair">
          {text("tags", t`Tags`, t`With commas: tasks have all of them.`)}
          {text(
            "model",
            t`Model`,
            undefined,
            models.data?.items.map(({ name }) => name),
          )}
          <Field label={t`Template`} fault={faultOf("match.templateId")}>
            {(props) => (
              <select
                {...props}
                className="select"
                value={draft.templateId}
                onChange={(event) => set({ ...draft, templateId: event.target.value })}
              >
                <option value="">{t`any, and tasks of none`}</option>
                {templates.data?.items.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {visible(name)}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label={t`Account that submits`} fault={faultOf("match.account")}>
            {(props) => (
              <select
                {...props}
                className="select"
                value={draft.account}
                onChange={(event) => set({ ...draft, account: event.target.value })}
              >
                <option value="">{t`any`}</option>
                {users.data?.items.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {visible(name)}
                  </option>
                ))}
                {keys.data?.items.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {t`key ${visible(name)}`}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
      </fieldset>
    </>
  );
}
