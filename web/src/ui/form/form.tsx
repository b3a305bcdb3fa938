/** The controls of a schema, and JSON in their place. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { isSame } from "../../lib/json";
import { visible } from "../../lib/visible";
import { Button, Field } from "../basics";
import { entered, type FormField, faultOf, memberOf, shown, withMember } from "./schema";
import "./form.css";

export type Input = Record<string, unknown>;
export type Faults = { field: string; message: string }[];

type Props = {
  fields: FormField[];
  value: Input;
  onChange: (value: Input) => void;
  faults: Faults;
  /** The name that faults begin with. */
  root?: string;
  /** The value before anything was entered: what differs is marked, and can be taken back. */
  before?: Input;
  /** Called with the path of a control whose text cannot be read, and again once it can be. */
  onWrong?: (path: string, isWrong: boolean) => void;
};

export function InputForm(props: Props) {
  const { fields, value, onChange, faults, root = "input", before, onWrong } = props;
  if (fields.length === 0)
    return (
      <p className="soft">
        <Trans>It takes no input.</Trans>
      </p>
    );
  return (
    <div className="form">
      {fields.map((field) =>
        field.kind === "group" && field.fields ? (
          <fieldset key={field.name} className="form-group">
            <legend>{field.name}</legend>
            {field.hint && <div className="faint small">{field.hint}</div>}
            <InputForm {...props} fields={field.fields} />
          </fieldset>
        ) : (
          <Control
            key={field.name}
            field={field}
            value={memberOf(value, field.path)}
            before={before && { value: memberOf(before, field.path) }}
            onChange={(member) => onChange(withMember(value, field.path, member))}
            onWrong={(isWrong) => onWrong?.(field.path.join("."), isWrong)}
            fault={faultOf(field.path, faults, root)}
          />
        ),
      )}
    </div>
  );
}

type ControlProps = {
  field: FormField;
  value: unknown;
  before?: { value: unknown };
  onChange: (value: unknown) => void;
  onWrong: (isWrong: boolean) => void;
  fault?: string;
};

function Control({ field, value, before, onChange, onWrong, fault }: ControlProps) {
  const given = shown(field, value);
  const [text, setText] = useState(given);
  const [wrong, setWrong] = useState<string>();
  // A value that came from elsewhere takes the place of the text; one that the text gives leaves it as it is.
  const last = useRef(given);
  if (last.current !== given) {
    last.current = given;
    if (read(field, text) !== given) setText(given);
  }
  const report = useRef(onWrong);
  report.current = onWrong;
  const cannotRead = wrong !== undefined;
  useEffect(() => {
    if (!cannotRead) return;
    report.current(true);
    return () => report.current(false);
  }, [cannotRead]);
  const give = (member: unknown) => onChange(member === undefined ? emptied(field, before?.value) : member);
  const change = (next: string) => {
    setText(next);
    try {
      const member = entered(field, next);
      give(member);
      setWrong(undefined);
    } catch (error) {
      setWrong((error as Error).message);
    }
  };
  const takeBack = () => {
    setText(shown(field, before?.value));
    setWrong(undefined);
    onChange(before?.value);
  };
  const initial = field.initial === undefined ? undefined : shown(field, field.initial);
  const asked = initial === undefined ? undefined : t`by default ${initial === "" ? t`empty` : initial}`;
  const isChanged = before !== undefined && (wrong !== undefined || !isSame(value, before.value));
  const label = `${field.name}${field.required && !before ? ` (${t`required`})` : ""}${isChanged ? ` (${t`changed`})` : ""}`;
  const hint = hintOf(field);
  return (
    <div className="form-control" data-changed={isChanged} data-field={field.path.join(".")}>
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
                  value={value === undefined || value === null ? "" : JSON.stringify(value)}
                  onChange={(event) =>
                    give(event.target.value === "" ? undefined : JSON.parse(event.target.value))
                  }
                >
                  <option value="">{asked ?? "–"}</option>
                  {options.map((option) => (
                    <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
                      {typeof option === "boolean" ? (option ? t`yes` : t`no`) : shown(field, option)}
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
                  className={`textarea form-text ${field.kind === "json" ? "mono" : ""}`}
                  rows={field.kind === "text" ? 1 : 2}
                  maxLength={before ? undefined : field.maxLength}
                  placeholder={asked}
                  value={text}
                  onChange={(event) => change(event.target.value)}
                />
              );
          }
        }}
      </Field>
      {isChanged && (
        <div className="form-was">
          <span className="faint">
            <Trans>was</Trans>
          </span>
          <del className="text" dir="auto">
            {visible(shown(field, before.value)) || t`(empty)`}
          </del>
          <Button
            size="small"
            kind="quiet"
            icon="undo"
            aria-label={t`Take back the change of ${field.name}`}
            onClick={takeBack}
          >
            <Trans>Take back</Trans>
          </Button>
        </div>
      )}
    </div>
  );
}

/** The text of the value that another text stands for; nothing if it stands for none. */
function read(field: FormField, text: string): string | undefined {
  try {
    return shown(field, entered(field, text));
  } catch {
    return undefined;
  }
}

/** The value of a control that was emptied: a text stays one, and what may be null is. */
function emptied(field: FormField, before: unknown): unknown {
  if (field.kind === "text" && typeof before === "string") return "";
  if (field.kind === "lines" && Array.isArray(before)) return [];
  return before !== undefined && field.nullable ? null : undefined;
}

function hintOf({ hint, kind, min, max }: FormField): string | undefined {
  const range =
    min !== undefined && max !== undefined
      ? t`${min} to ${max}.`
      : min !== undefined
        ? t`${min} or more.`
        : max !== undefined
          ? t`${max} or less.`
          : "";
  const how = kind === "lines" ? t`One on each line.` : kind === "json" ? t`As JSON.` : "";
  return [hint, range, how].filter(Boolean).join(" ") || undefined;
}

/** The input as JSON, for what the form cannot say. */
export function JsonInput({
  value,
  onChange,
  onWrong,
  fault,
  label = t`Input as JSON`,
}: {
  value: Input;
  onChange: (value: Input) => void;
  onWrong: (wrong: boolean) => void;
  fault?: string;
  label?: string;
}) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState<string>();
  const change = (next: string) => {
    setText(next);
    try {
      const read: unknown = JSON.parse(next);
      if (typeof read !== "object" || read === null || Array.isArray(read)) {
        throw new Error(t`it must be an object: ${"{ … }"}`);
      }
      setWrong(undefined);
      onWrong(false);
      onChange(read as Input);
    } catch (error) {
      setWrong(t`This is not JSON of an object: ${(error as Error).message}`);
      onWrong(true);
    }
  };
  return (
    <Field label={label} fault={wrong ?? fault}>
      {(props) => (
        <textarea
          {...props}
          translate="no"
          className="textarea mono form-text"
          rows={8}
          value={text}
          onChange={(event) => change(event.target.value)}
        />
      )}
    </Field>
  );
}

/** The controls whose text cannot be read, so that nothing else than what is shown is sent. */
export function useWrong(): { isWrong: boolean; onWrong: (path: string, isWrong: boolean) => void } {
  const [wrong, setWrong] = useState<ReadonlySet<string>>(new Set());
  const onWrong = (path: string, isWrong: boolean) =>
    setWrong((all) => {
      const next = new Set(all);
      if (isWrong) next.add(path);
      else next.delete(path);
      return next;
    });
  return { isWrong: wrong.size > 0, onWrong };
}
