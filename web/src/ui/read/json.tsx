/** JSON member by member: texts with their line breaks, lists of like objects as tables. */
import { t } from "@lingui/core/macro";
import type { ReactNode } from "react";
import { isWritten } from "../../lib/json";
import { visible } from "../../lib/visible";

type Members = Record<string, unknown>;
const DEEPEST = 8;
const MOST_COLUMNS = 8;

/** Only an object or an array has members; a large one is read as text. */
export function Members({ value }: { value: unknown }) {
  return <div className="read-json">{shown(value, 0)}</div>;
}

function shown(value: unknown, depth: number): ReactNode {
  if (isPlain(value) || depth > DEEPEST) return <Plain value={value} />;
  if (Array.isArray(value)) return <List items={value} depth={depth} />;
  const members = Object.entries(value as Members);
  if (members.length === 0) return <span className="faint">{t`no members`}</span>;
  return (
    <dl className="read-members">
      {members.map(([name, member]) => (
        <div key={name} data-plain={isPlain(member)}>
          <dt translate="no">{visible(name)}</dt>
          <dd>{shown(member, depth + 1)}</dd>
        </div>
      ))}
    </dl>
  );
}

function List({ items, depth }: { items: unknown[]; depth: number }) {
  if (items.length === 0) return <span className="faint">{t`empty list`}</span>;
  const columns = columnsOf(items);
  if (!columns)
    return (
      <ol className="read-list">
        {items.map((item, index) => (
          <li key={index}>{shown(item, depth + 1)}</li>
        ))}
      </ol>
    );
  return (
    <div
      className="markdown-table"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
      tabIndex={0}
      role="region"
      aria-label={columns.map(visible).join(", ")}
    >
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th
                key={name}
                scope="col"
                translate="no"
                className={isNumbers(items, name) ? "num" : undefined}
              >
                {visible(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(items as Members[]).map((item, row) => (
            <tr key={row}>
              {columns.map((name) => (
                <td key={name} className={isNumbers(items, name) ? "num" : undefined}>
                  {name in item && <Plain value={item[name]} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The columns of a list whose items are flat objects of few members. */
function columnsOf(items: unknown[]): string[] | undefined {
  const isFlat = (item: unknown) =>
    !isPlain(item) && !Array.isArray(item) && Object.values(item as Members).every(isPlain);
  if (!items.every(isFlat)) return undefined;
  const names = [...new Set(items.flatMap((item) => Object.keys(item as Members)))];
  return names.length > 0 && names.length <= MOST_COLUMNS ? names : undefined;
}

/** Numbers stand at the end of their column. */
const isNumbers = (items: unknown[], name: string) =>
  (items as Members[]).every((item) => typeof item[name] === "number" || isWritten(item[name]));

const isPlain = (value: unknown) => typeof value !== "object" || value === null || isWritten(value);

/** A text stands as it is; one that could be taken for a number, a word of JSON or nothing is quoted. */
function Plain({ value }: { value: unknown }) {
  if (typeof value !== "string")
    return (
      <span className="mono" translate="no">
        {JSON.stringify(value)}
      </span>
    );
  const isDoubtful =
    value.trim() !== value || value === "" || /^(true|false|null|-?\d[\d.eE+-]*)$/.test(value);
  return (
    <span className="read-text" translate="no" dir="auto">
      {isDoubtful ? `"${visible(value)}"` : visible(value)}
    </span>
  );
}
