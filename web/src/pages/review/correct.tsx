/** Correcting an output: a form made from its schema with the JSON beside it on demand, else the text itself. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useMemo, useRef } from "react";
import { formatted, isSame, parsed, writtenAs } from "../../lib/json";
import { usePreference } from "../../lib/preferences";
import { Button } from "../../ui/basics";
import type { Fault } from "../../ui/form/check";
import { type Input, InputForm } from "../../ui/form/form";
import { type FormField, formOf } from "../../ui/form/schema";
import { Icon } from "../../ui/icons";
import { Edit } from "./editor";

export type CorrectProps = {
  text: string;
  original: string;
  schema: unknown;
  faults: Fault[];
  /** `undefined` if the text says what the original says. */
  onChange: (text: string | undefined) => void;
  onWrong: (path: string, isWrong: boolean) => void;
  onDone: () => void;
};

export function Correct(props: CorrectProps) {
  const { text, original, schema, faults, onChange, onDone } = props;
  const before = useMemo(() => objectOf(original), [original]);
  const fields = useMemo(() => (before ? formOf(schema) : undefined), [before, schema]);
  if (before && fields && fields.length > 0) return <AsForm {...props} before={before} fields={fields} />;
  if (formatted(original) !== undefined)
    return (
      <>
        <AsJson {...props} focus />
        <Listed faults={faults} />
      </>
    );
  return (
    <>
      <Edit
        text={text}
        original={original}
        focus
        onChange={(next) => onChange(next === original ? undefined : next)}
        onDone={onDone}
      />
      <Listed faults={faults} />
    </>
  );
}

function AsForm(props: CorrectProps & { before: Input; fields: FormField[] }) {
  const { text, original, before, fields, faults, onChange, onWrong, onDone } = props;
  const [withJson, setWithJson] = usePreference("review.json", false);
  const now = useMemo(() => objectOf(text), [text]);
  // While the JSON beside it is not readable, the form shows what it said last.
  const last = useRef(now ?? before);
  if (now) last.current = now;
  const value = last.current;
  const form = useRef<HTMLFieldSetElement>(null);
  useEffect(() => {
    const controls = ":is(textarea, input, select)";
    const first =
      form.current?.querySelector<HTMLElement>(`[aria-invalid="true"]`) ??
      form.current?.querySelector<HTMLElement>(`[data-changed="true"] ${controls}, ${controls}`);
    first?.focus();
  }, []);
  const others = Object.keys(value).filter((name) => !fields.some((field) => field.name === name));
  const isJsonShown = withJson || !now;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys of the controls inside of it
    <div
      className="review-correct"
      data-json={isJsonShown}
      onKeyDown={(event) => {
        if (event.key !== "Escape" && !(event.key === "Enter" && (event.ctrlKey || event.metaKey))) return;
        event.preventDefault();
        onDone();
      }}
    >
      <div className="review-correct-form">
        <div className="review-correct-how">
          <Button size="small" aria-pressed={isJsonShown} onClick={() => setWithJson(!withJson || undefined)}>
            JSON
          </Button>
        </div>
        <fieldset ref={form} disabled={!now}>
          <legend className="hide">
            <Trans>Edited output</Trans>
          </legend>
          <InputForm
            fields={fields}
            value={value}
            before={before}
            root="output"
            faults={faults}
            onWrong={onWrong}
            onChange={(next) => onChange(isSame(next, before) ? undefined : writtenAs(original, next))}
          />
        </fieldset>
        {!now && (
          <p className="small soft">
            <Trans>The form is back once the JSON can be read.</Trans>
          </p>
        )}
        {others.length > 0 && (
          <p className="small soft">
            <Trans>
              Without a field, so in the JSON alone: <span translate="no">{others.join(", ")}</span>
            </Trans>
          </p>
        )}
        <Listed faults={faults.filter(({ field }) => !isShown(field, fields))} />
      </div>
      {isJsonShown && <AsJson {...props} focus={!now} />}
    </div>
  );
}

/** The JSON with line breaks; it is kept on as many lines as the output has. */
function AsJson({ text, original, onChange, onDone, focus }: CorrectProps & { focus: boolean }) {
  const typed = useRef<{ shown: string; text: string }>(undefined);
  const shown = typed.current?.text === text ? typed.current.shown : (formatted(text) ?? text);
  const change = (next: string) => {
    const read = parsed(next);
    const isBack = read && isSame(read.value, parsed(original)?.value);
    const kept = isBack ? original : read ? writtenAs(original, read.value) : next;
    typed.current = { shown: next, text: kept };
    onChange(isBack ? undefined : kept);
  };
  return (
    <Edit
      text={shown}
      original={formatted(original) ?? original}
      focus={focus}
      onChange={change}
      onDone={onDone}
    />
  );
}

/** Faults that no field shows. */
function Listed({ faults }: { faults: Fault[] }) {
  if (faults.length === 0) return null;
  return (
    <ul className="review-faults" aria-label={t`Faults`}>
      {faults.map(({ field, message }) => (
        <li key={`${field} ${message}`} className="status" data-tone="bad">
          <Icon name="warn" size={13} />
          <span>
            <strong translate="no">{field}</strong> {message}
          </span>
        </li>
      ))}
    </ul>
  );
}

function isShown(fault: string, fields: FormField[]): boolean {
  return fields.some((field) => {
    if (field.fields) return isShown(fault, field.fields);
    const name = ["output", ...field.path].join(".");
    return fault === name || fault.startsWith(`${name}.`) || fault.startsWith(`${name}[`);
  });
}

function objectOf(text: string): Input | undefined {
  const value = parsed(text)?.value;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Input) : undefined;
}
