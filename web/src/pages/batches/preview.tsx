/** What a file has: which columns become which fields, the first rows, and its faults by line. */
import { count, plural } from "../../lib/format";
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
        title="First rows"
        actions={
          <span className="soft" role="status">
            {done ? plural(rows, "row") : `${count(rows)} rows so far`}
          </span>
        }
      >
        <Scroll>
          <table className="plain-table batches-preview">
            <thead>
              <tr>
                <th scope="col" className="num">
                  Line
                </th>
                {hasKeys && <th scope="col">Key</th>}
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
      <Panel title="Columns">
        <div className="batches-pad stack">
          {isCsv && (
            <Field
              label="Key column"
              hint="By its key you find a row again: an id. Each key stands there once."
            >
              {(props) => (
                <select
                  {...props}
                  className="select"
                  value={keyColumn ?? ""}
                  onChange={(event) => onKeyColumn(event.target.value || undefined)}
                >
                  <option value="">none: the number of the row</option>
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
      <ul className="batches-columns" aria-label="Fields of the input">
        {names.map((name) => (
          <li key={name}>
            {types.has(name) ? (
              <Mark tone="good" icon="check">
                <span translate="no">{visible(name)}</span> <span className="faint">{types.get(name)}</span>
              </Mark>
            ) : (
              <span data-tip="The template's inputSchema does not declare it.">
                <Mark tone="mute" icon="dot">
                  <span translate="no">{visible(name)}</span> <span className="faint">not declared</span>
                </Mark>
              </span>
            )}
          </li>
        ))}
        {lacks.map((name) => (
          <li key={name}>
            <Mark tone="bad" icon="cross">
              <span translate="no">{visible(name)}</span> is required, and no column has this name
            </Mark>
          </li>
        ))}
      </ul>
      {types.size === 0 && (
        <p className="soft small">
          The template declares no input: each column is a field of that name, a text.
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
          No fault was found in {plural(rows, "row")}.
        </Mark>
      </p>
    ) : null;
  }
  return (
    <Panel
      title={`${plural(faulty, "row has", "rows have")} a fault`}
      actions={faulty > faults.length && <span className="soft small">the first {faults.length}</span>}
    >
      <ol className="batches-faults" aria-label="Faults">
        {faults.map((row) => (
          <li key={row.number}>
            <span className="faint">line {count(row.line)}</span>
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
