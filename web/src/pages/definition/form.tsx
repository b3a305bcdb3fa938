/** The controls of an input's schema, and JSON in their place. */
import { useState } from "react";
import { Field } from "../../ui/basics";
import { entered, type FormField, faultOf, memberOf, shown, withMember } from "./schema";

export type Input = Record<string, unknown>;
export type Faults = { field: string; message: string }[];

export function InputForm({
  fields,
  value,
  onChange,
  faults,
}: {
  fields: FormField[];
  value: Input;
  onChange: (value: Input) => void;
  faults: Faults;
}) {
  if (fields.length === 0) return <p className="soft">It takes no input.</p>;
  return (
    <div className="definition-form">
      {fields.map((field) =>
        field.kind === "group" && field.fields ? (
          <fieldset key={field.name} className="definition-group">
            <legend>{field.name}</legend>
            {field.hint && <div className="faint small">{field.hint}</div>}
            <InputForm fields={field.fields} value={value} onChange={onChange} faults={faults} />
          </fieldset>
        ) : (
          <Control
            key={field.name}
            field={field}
            value={memberOf(value, field.path)}
            onChange={(member) => onChange(withMember(value, field.path, member))}
            fault={faultOf(field.path, faults)}
          />
        ),
      )}
    </div>
  );
}

function Control({
  field,
  value,
  onChange,
  fault,
}: {
  field: FormField;
  value: unknown;
  onChange: (value: unknown) => void;
  fault?: string;
}) {
  const [text, setText] = useState(() => shown(field, value));
  const [wrong, setWrong] = useState<string>();
  const change = (next: string) => {
    setText(next);
    try {
      onChange(entered(field, next));
      setWrong(undefined);
    } catch (error) {
      setWrong((error as Error).message);
    }
  };
  const initial = field.initial === undefined ? undefined : shown(field, field.initial);
  const asked = initial === undefined ? undefined : `by default ${initial === "" ? "empty" : initial}`;
  const label = field.required ? `${field.name} (required)` : field.name;
  const hint = hintOf(field);
  return (
    <Field label={label} hint={hint} fault={wrong ?? fault}>
      {(props) => {
        switch (field.kind) {
          case "boolean":
          case "choice": {
            const options = field.kind === "boolean" ? [true, false] : (field.options ?? []);
            return (
              <select
                {...props}
                className="select"
                value={value === undefined ? "" : JSON.stringify(value)}
                onChange={(event) =>
                  onChange(event.target.value === "" ? undefined : JSON.parse(event.target.value))
                }
              >
                <option value="">{asked ?? "–"}</option>
                {options.map((option) => (
                  <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
                    {typeof option === "boolean" ? (option ? "yes" : "no") : shown(field, option)}
                  </option>
                ))}
              </select>
            );
          }
          case "number":
          case "integer":
            return (
              <input
                {...props}
                className="input"
                inputMode="decimal"
                placeholder={asked}
                value={text}
                onChange={(event) => change(event.target.value)}
              />
            );
          default:
            return (
              <textarea
                {...props}
                className={`textarea definition-text ${field.kind === "json" ? "mono" : ""}`}
                rows={field.kind === "text" ? 1 : 2}
                maxLength={field.maxLength}
                placeholder={asked}
                value={text}
                onChange={(event) => change(event.target.value)}
              />
            );
        }
      }}
    </Field>
  );
}

function hintOf({ hint, kind, min, max }: FormField): string | undefined {
  const range =
    min !== undefined && max !== undefined
      ? `${min} to ${max}.`
      : min !== undefined
        ? `${min} or more.`
        : max !== undefined
          ? `${max} or less.`
          : "";
  const how = kind === "lines" ? "One on each line." : kind === "json" ? "As JSON." : "";
  return [hint, range, how].filter(Boolean).join(" ") || undefined;
}

/** The input as JSON, for what the form cannot say. */
export function JsonInput({
  value,
  onChange,
  onWrong,
  fault,
}: {
  value: Input;
  onChange: (value: Input) => void;
  onWrong: (wrong: boolean) => void;
  fault?: string;
}) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState<string>();
  const change = (next: string) => {
    setText(next);
    try {
      const read: unknown = JSON.parse(next);
      if (typeof read !== "object" || read === null || Array.isArray(read)) {
        throw new Error("the input is an object: { … }");
      }
      setWrong(undefined);
      onWrong(false);
      onChange(read as Input);
    } catch (error) {
      setWrong(`This is not JSON of an object: ${(error as Error).message}`);
      onWrong(true);
    }
  };
  return (
    <Field label="Input as JSON" fault={wrong ?? fault}>
      {(props) => (
        <textarea
          {...props}
          translate="no"
          className="textarea mono definition-text"
          rows={8}
          value={text}
          onChange={(event) => change(event.target.value)}
        />
      )}
    </Field>
  );
}
