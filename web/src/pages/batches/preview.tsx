/** What a file has: which columns become which fields, the first rows, and its faults by line. */
import { plural, t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { count } from "../../lib/format";
import { visible } from "../../lib/visible";
import { Field, Panel } from "../../ui/basics";
import { Scroll } from "../../ui/sized";
import { Mark } from "../../ui/status";
import { isObject, lineOf } from "./columns";
import type { FileRow, Found, Media } from "./file";

type Props = {
  found: Found;
  media: Media;
  keyColumn: string | undefined;
  onKeyColumn: (name: string | undefined) => void;
  /** The types of the fields of the input; undefined while no template is chosen. */
  types: Map<string, string> | undefined;
  schema: unknown;
};

const CELL = 120;

export function Preview({ found, media, keyColumn, onKeyColumn, types, schema }: Props) {
  const { columns, first, rows, done } = found;
  const isCsv = media === "text/csv";
  const hasKeys = keyColumn !== undefined || first.some(({ key }) => key !== undefined);
  const inputs = columns.filter((name) => name !== keyColumn || types?.has(name));
  return (
    <>
      <Panel
        title={t`First rows`}
        actions={
          <span className="soft" role="status">
            {done ? plural(rows, { one: "# row", other: "# rows" }) : t`${count(rows)} rows so far`}
          </span>
        }
      >
        <Scroll>
          <table className="plain-table batches-preview">
            <thead>
              <tr>
                <th scope="col" className="num">
                  <Trans>Line</Trans>
                </th>
                {hasKeys && (
                  <th scope="col">
                    <Trans>Key</Trans>
                  </th>
                )}
                {inputs.map((name) => (
                  <th key={name} scope="col" translate="no">
                    {visible(name)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {first.map((row) => (
                <tr key={row.number} data-fault={row.fault !== undefined}>
                  <td className="num faint">{row.line}</td>
                  {hasKeys && <Value value={row.key} />}
                  {row.input ? (
                    inputs.map((name) => <Value key={name} value={row.input?.[name]} />)
                  ) : (
                    <td colSpan={Math.max(1, inputs.length)}>{row.fault}</td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </Panel>
      <Panel title={t`Columns`}>
        <div className="batches-pad stack">
          {isCsv && (
            <Field
              label={t`Key column`}
              hint={t`By its key you find a row again: an id. Each key stands there once.`}
            >
              {(props) => (
                <select
                  {...props}
                  className="select"
                  value={keyColumn ?? ""}
                  onChange={(event) => onKeyColumn(event.target.value || undefined)}
                >
                  <option value="">{t`none: the number of the row`}</option>
                  {columns.map((name) => (
                    <option key={name} value={name}>
                      {visible(name)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          )}
          {types && <Fields names={inputs} types={types} schema={schema} />}
        </div>
      </Panel>
      {types && <Faults found={found} />}
    </>
  );
}

function Value({ value }: { value: unknown }) {
  const line = lineOf(value);
  return (
    <td translate="no" dir="auto">
      {line === undefined ? (
        <span className="faint">–</span>
      ) : (
        visible(line.slice(0, CELL)).replaceAll("\n", " ⏎ ")
      )}
    </td>
  );
}

/** Which columns are fields of the input, which are not, and which fields are missing. */
function Fields({ names, types, schema }: { names: string[]; types: Map<string, string>; schema: unknown }) {
  const required = isObject(schema) && Array.isArray(schema.required) ? (schema.required as string[]) : [];
  const lacks = required.filter((name) => !names.includes(name));
  return (
    <>
      <ul className="batches-columns" aria-label={t`Fields of the input`}>
        {names.map((name) => (
          <li key={name}>
            {types.has(name) ? (
              <Mark tone="good" icon="check">
                <span translate="no">{visible(name)}</span> <span className="faint">{types.get(name)}</span>
              </Mark>
            ) : (
              <span data-tip={t`The template's inputSchema does not declare it.`}>
                <Mark tone="mute" icon="dot">
                  <span translate="no">{visible(name)}</span>{" "}
                  <span className="faint">
                    <Trans>not declared</Trans>
                  </span>
                </Mark>
              </span>
            )}
          </li>
        ))}
        {lacks.map((name) => (
          <li key={name}>
            <Mark tone="bad" icon="cross">
              <Trans>
                <span translate="no">{visible(name)}</span> is required, and no column has this name
              </Trans>
            </Mark>
          </li>
        ))}
      </ul>
      {types.size === 0 && (
        <p className="soft small">
          <Trans>The template declares no input: each column is a field of that name, a text.</Trans>
        </p>
      )}
    </>
  );
}

function Faults({ found: { faults, faulty, done, rows } }: { found: Found }) {
  if (faulty === 0) {
    return done ? (
      <p>
        <Mark tone="good" icon="check">
          <Plural value={rows} one="No fault was found in # row." other="No fault was found in # rows." />
        </Mark>
      </p>
    ) : null;
  }
  return (
    <Panel
      title={plural(faulty, { one: "# row has a fault", other: "# rows have a fault" })}
      actions={
        faulty > faults.length && (
          <span className="soft small">
            <Trans>the first {faults.length}</Trans>
          </span>
        )
      }
    >
      <ol className="batches-faults" aria-label={t`Faults`}>
        {faults.map((row) => (
          <li key={row.number}>
            <span className="faint">
              <Trans>line {count(row.line)}</Trans>
            </span>
            <Words row={row} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}

const Words = ({ row: { key, fault } }: { row: FileRow }) => (
  <span>
    {key && (
      <span translate="no" className="mono">
        {visible(key)}{" "}
      </span>
    )}
    {visible(fault ?? "")}
  </span>
);
