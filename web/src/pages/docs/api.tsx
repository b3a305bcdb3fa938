/** The HTTP interface: every operation with what it takes and answers, from the server's own description. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { count } from "../../lib/format";
import { useParams } from "../../lib/search";
import { Empty, Loaded } from "../../ui/basics";
import { Search } from "../definition/search";
import {
  bounds,
  type Document,
  inner,
  matching,
  members,
  type Operation,
  operations,
  type Schema,
  typeText,
} from "./openapi";

export default function Api() {
  const read = useQuery<Document, Error>({
    queryKey: ["/api/openapi.json"],
    queryFn: async ({ signal }) => {
      const response = await fetch("/api/openapi.json", { signal });
      if (!response.ok) throw new Error(t`the server answered ${response.status}`);
      return response.json();
    },
  });
  return <Loaded query={read}>{(document) => <Operations document={document} />}</Loaded>;
}

function Operations({ document }: { document: Document }) {
  const [params, set] = useParams();
  const text = params.get("search") ?? "";
  const open = params.get("operation");
  const all = useMemo(() => operations(document), [document]);
  const found = useMemo(() => matching(all, text), [all, text]);
  const groups = useMemo(() => byTag(found), [found]);
  return (
    <>
      <div className="row wrap">
        <h1 className="grow">
          <Trans>HTTP API</Trans>
        </h1>
        <a className="button" href="/api/openapi.json" download="openapi.json">
          <Trans>OpenAPI document</Trans>
        </a>
      </div>
      <div className="filters" role="search">
        <Search label={t`Search operations`} />
        <span className="faint" role="status">
          <Trans>
            {count(found.length)} of {count(all.length)}
          </Trans>
        </span>
      </div>
      {found.length === 0 && <Empty title={t`No operation matches`} />}
      {[...groups].map(([tag, items]) => (
        <section key={tag} className="docs-tag">
          <h2>{tag}</h2>
          {items.map((each) => (
            <One
              key={each.id}
              document={document}
              operation={each}
              open={open === each.id}
              onToggle={(isOpen) => {
                if (isOpen && open !== each.id) set({ operation: each.id });
                if (!isOpen && open === each.id) set({ operation: undefined });
              }}
            />
          ))}
        </section>
      ))}
    </>
  );
}

function byTag(all: Operation[]): Map<string, Operation[]> {
  const groups = new Map<string, Operation[]>();
  for (const each of all) groups.set(each.tag, [...(groups.get(each.tag) ?? []), each]);
  return groups;
}

function One({
  document,
  operation,
  open: isNamed,
  onToggle,
}: {
  document: Document;
  operation: Operation;
  open: boolean;
  onToggle: (open: boolean) => void;
}) {
  const [open, setOpen] = useState(isNamed);
  const { method, path, summary, description, action, isPublic, parameters, body, answers } = operation;
  const good = answers.filter(({ status }) => status.startsWith("2") || status.startsWith("1"));
  const bad = answers.filter((answer) => !good.includes(answer));
  return (
    <details
      className="docs-operation"
      open={open}
      onToggle={(event) => {
        const now = event.currentTarget.open;
        if (now === open) return;
        setOpen(now);
        onToggle(now);
      }}
    >
      <summary>
        <span translate="no" className="docs-method mono" data-method={method}>
          {method}
        </span>
        <span translate="no" className="mono docs-path">
          {path}
        </span>
        <span className="soft docs-summary">
          <Said text={summary} />
        </span>
      </summary>
      {open && (
        <div className="docs-body stack">
          {description && description !== summary && (
            <p>
              <Said text={description} />
            </p>
          )}
          <p className="small soft">
            {isPublic
              ? t`Needs no credentials.`
              : action === "own account"
                ? t`Needs credentials.`
                : t`Needs credentials of a role that may do: ${action ?? ""}.`}
          </p>
          {parameters.length > 0 && (
            <div>
              <h3>
                <Trans>Parameters</Trans>
              </h3>
              <Rows
                document={document}
                rows={parameters.map(({ name, in: where, required, description: said, schema }) => ({
                  name,
                  where,
                  required: required === true,
                  schema: { ...schema, description: said ?? schema?.description },
                }))}
                depth={0}
              />
            </div>
          )}
          {body.slice(0, 1).map(({ schema, required }) => (
            <div key="body">
              <h3>
                <Trans>Body: {[...new Set(body.map((each) => each.type))].join(", ")}</Trans>
                {!required && t` (may be absent)`}
              </h3>
              {schema && <Members document={document} schema={schema} depth={0} />}
            </div>
          ))}
          {good.map(({ status, description: said, type, schema }) => (
            <div key={status}>
              <h3>
                {status} {said} {type && <span className="faint">{type}</span>}
              </h3>
              {schema && <Members document={document} schema={schema} depth={0} />}
            </div>
          ))}
          {bad.length > 0 && (
            <p className="small soft">
              <Trans>
                Refusals: {[...new Set(bad.map(({ status }) => status))].join(", ")}, in the form of every
                refusal.
              </Trans>
            </p>
          )}
        </div>
      )}
    </details>
  );
}

type Row = { name: string; where?: string; required: boolean; schema: Schema };

function Members({ document, schema, depth }: { document: Document; schema: Schema; depth: number }) {
  const found = members(document, inner(document, schema));
  if (found.length === 0) return <p className="small soft">{typeText(document, schema)}</p>;
  return (
    <>
      {depth === 0 && typeText(document, schema).startsWith("list of") && (
        <p className="small soft">
          <Trans>A list of:</Trans>
        </p>
      )}
      <Rows
        document={document}
        rows={found.map(([name, member, required]) => ({ name, required, schema: member }))}
        depth={depth}
      />
    </>
  );
}

function Rows({ document, rows, depth }: { document: Document; rows: Row[]; depth: number }) {
  return (
    <ul className="docs-members">
      {rows.map((row) => (
        <Member key={`${row.where ?? ""} ${row.name}`} document={document} row={row} depth={depth} />
      ))}
    </ul>
  );
}

/** A text of the description, with its code in backticks. */
function Said({ text = "" }: { text?: string }) {
  return text.split("`").map((part, index) =>
    index % 2 ? (
      <code translate="no" key={index}>
        {part}
      </code>
    ) : (
      part
    ),
  );
}

function Member({ document, row, depth }: { document: Document; row: Row; depth: number }) {
  const [open, setOpen] = useState(false);
  const { name, where, required, schema } = row;
  const at = inner(document, schema);
  const hasMembers = depth < 8 && members(document, at).length > 0;
  const said = schema.description ?? at.description;
  const limit = bounds(schema.$ref ? at : schema);
  return (
    <li>
      <div className="row wrap">
        <span translate="no" className="mono">
          {name}
        </span>
        <span className="faint small">{typeText(document, schema)}</span>
        {where && (
          <span className="faint small">
            <Trans>in {where}</Trans>
          </span>
        )}
        {required && (
          <span className="tag">
            <Trans>required</Trans>
          </span>
        )}
      </div>
      {(said || limit) && (
        <div className="small soft docs-said">
          <Said text={said} /> {limit && <span className="faint">{limit}</span>}
        </div>
      )}
      {hasMembers && (
        <details onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary className="small">
            <Trans>Members of {name}</Trans>
          </summary>
          {open && <Members document={document} schema={at} depth={depth + 1} />}
        </details>
      )}
    </li>
  );
}
