/** The rows of a batch as a table: the members of the output are its columns, and a row opens its execution. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useRef } from "react";
import { Link } from "wouter";
import { money, ratio } from "../../lib/format";
import type { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Empty } from "../../ui/basics";
import { listOf, TextFilter } from "../../ui/filters";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { CODES } from "../executions/cause";
import { confidentSteps, fieldsOf, isObject, lineOf } from "./columns";
import {
  type Batch,
  type BatchRow,
  type Place,
  type Read,
  type RowQuery,
  useAllRows,
  useSomeRows,
} from "./read";

type Params = ReturnType<typeof useParams>[0];
type Change = ReturnType<typeof useParams>[1];

/** The filters of the rows in the address. */
export const NAMES = ["status", "error", "decision", "min", "max", "step", "differs", "order"];

const ORDERS: Record<string, string> = {
  "": t`in the order of the file`,
  "confidence.asc": t`least certain first`,
  "confidence.desc": t`most certain first`,
  "cost.desc": t`dearest first`,
  "duration.desc": t`slowest first`,
  "key.asc": t`by key`,
};
const DECISIONS: Record<string, string> = {
  "": t`decided or not`,
  "approved,edited": "approved",
  edited: t`approved, edited`,
  rejected: "rejected",
  none: t`not decided`,
};

/** The query of the filters in the address; undefined if all rows are asked for, in their order. */
export function queryOf(params: Params): RowQuery | undefined {
  if (!NAMES.some((name) => params.has(name))) return undefined;
  const [orderBy, order] = (params.get("order") ?? "").split(".");
  const text = (name: string) => params.get(name) || undefined;
  const number = (name: string) => (params.get(name) ? Number(params.get(name)) : undefined);
  const status = listOf(params.get("status"));
  const decision = listOf(params.get("decision"));
  return {
    status: status.length > 0 ? status : undefined,
    errorCode: text("error") && [text("error")],
    decision: decision.length > 0 ? decision : undefined,
    step: text("step"),
    minConfidence: number("min"),
    maxConfidence: number("max"),
    differsFrom: text("differs"),
    orderBy: orderBy || undefined,
    order: orderBy ? order : undefined,
  } as RowQuery;
}

/** The rows that the address asks for, as they come into view. */
export function useRead(batch: Batch, query: RowQuery | undefined): Read {
  const all = useAllRows(batch.id, batch.status === "loading" ? 0 : batch.rows, query === undefined);
  const some = useSomeRows(batch.id, query ?? {}, query !== undefined);
  return query === undefined ? all : some;
}

export function RowFilters({ params, set, steps }: { params: Params; set: Change; steps: string[] }) {
  const [min, max] = [params.get("min"), params.get("max")];
  const step = params.get("step") ?? "";
  return (
    <>
      <Select name="error" label={t`Cause`} params={params} set={set}>
        <option value="">{t`any cause`}</option>
        {CODES.map((code) => (
          <option key={code}>{code}</option>
        ))}
      </Select>
      <Select name="decision" label={t`Decision`} params={params} set={set}>
        {Object.entries(DECISIONS).map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </Select>
      {(steps.length > 1 || step) && (
        <Select name="step" label={t`Step`} params={params} set={set}>
          <option value="">{t`of the last step`}</option>
          {(steps.includes(step) || !step ? steps : [step, ...steps]).map((id) => (
            <option key={id}>{id}</option>
          ))}
        </Select>
      )}
      <Select name="order" label={t`Order`} params={params} set={set}>
        {Object.entries(ORDERS).map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </Select>
      {params.has("differs") && (
        <TextFilter name="differs" label={t`Differs from`} params={params} set={set} />
      )}
      {(min || max) && (
        <span className="soft small">
          <Trans>
            confidence {ratio(Number(min ?? 0))} to {ratio(Number(max ?? 1))}
          </Trans>
        </span>
      )}
    </>
  );
}

function Select({
  name,
  label,
  params,
  set,
  children,
}: {
  name: string;
  label: string;
  params: Params;
  set: Change;
  children: React.ReactNode;
}) {
  return (
    <select
      className="select"
      aria-label={label}
      value={params.get(name) ?? ""}
      onChange={(event) => set({ [name]: event.target.value || undefined })}
    >
      {children}
    </select>
  );
}

/** What was seen of the rows so far: the members of their outputs, and the steps that have a confidence. */
export type Seen = { fields: string[]; steps: string[] };

/** Columns that are shown stay where they are, also where other rows come into view. */
export function useSeen(rows: readonly BatchRow[], schema: unknown): Seen {
  const seen = useRef<Seen>({ fields: [], steps: [] });
  seen.current = {
    fields: merged(seen.current.fields, fieldsOf(schema, rows)),
    steps: merged(seen.current.steps, confidentSteps(rows)),
  };
  return seen.current;
}

type Props = { batch: Batch; read: Read; isFiltered: boolean; seen: Seen; step: string | undefined };

export function Rows({ batch, read, isFiltered, seen: { fields, steps }, step }: Props) {
  const may = useMay();
  if (batch.status === "loading") {
    return (
      <Empty title={t`The rows arrive`}>
        <Trans>Each is stored as it comes; they start once all are there.</Trans>
      </Empty>
    );
  }
  const mayOpen = may("executions: read");
  const href = ({ row }: Place) =>
    mayOpen && row?.executionId && row.status !== "removed" ? `/executions/${row.executionId}` : undefined;
  const of = step ?? steps.at(-1);
  return (
    <Listed
      label={t`Rows`}
      list={{ ...read, data: read.isPending ? undefined : read.places, rows: read.places }}
      onRange={read.onRange}
      fixed={!isFiltered}
      keyOf={keyOf}
      href={href as (place: Place) => string}
      columns={[
        keyColumn(href),
        {
          id: "status",
          header: t`Status`,
          width: "124px",
          cell: ({ row }) => row && <Status state={row.status} />,
        },
        ...outputColumns(fields),
        ...(of === undefined
          ? []
          : [
              {
                id: "confidence",
                header: t`Confidence`,
                width: "104px",
                number: true,
                cell: ({ row }: Place) => row && ratio(row.steps?.[of]?.confidence),
              },
            ]),
        {
          id: "cost",
          header: t`Cost`,
          width: "80px",
          number: true,
          cell: ({ row }) => row && money(row.cost),
        },
        {
          id: "error",
          header: t`Fault`,
          width: "minmax(150px, 2fr)",
          cell: ({ row }) => row && <Fault row={row} />,
        },
      ]}
      empty={
        <Empty title={t`No row matches`}>
          <Trans>Clear the filters to see all.</Trans>
        </Empty>
      }
    />
  );
}

const keyOf = ({ number }: Place) => String(number);
const merged = (known: string[], more: string[]) =>
  more.every((name) => known.includes(name)) ? known : [...new Set([...known, ...more])];

function keyColumn(href: (place: Place) => string | undefined): Column<Place> {
  return {
    id: "key",
    header: t`Key`,
    width: "minmax(110px, 1fr)",
    cell: (place) => {
      const { row, number } = place;
      if (!row) return <span className="skeleton w50" role="img" aria-label={t`Row ${number} is read`} />;
      const to = href(place);
      const key = (
        <span translate="no" className="mono">
          {visible(row.key) || "–"}
        </span>
      );
      const tip = t`row ${number}`;
      return to ? (
        <Link href={to} className="cut" data-tip={tip}>
          {key}
        </Link>
      ) : (
        <span className="cut" data-tip={tip}>
          {key}
        </span>
      );
    },
  };
}

function outputColumns(fields: string[]): Column<Place>[] {
  if (fields.length === 0) {
    const cell = ({ row }: Place) => row && <Cell value={row.output} />;
    return [{ id: "output", header: t`Output`, width: "minmax(220px, 4fr)", cell }];
  }
  return fields.map((name) => ({
    id: `output.${name}`,
    header: name,
    width: "minmax(110px, 2fr)",
    named: true,
    // An output that is no object as its template declares it is shown whole, in the first column.
    cell: ({ row }) =>
      row &&
      (isObject(row.output) ? (
        <Cell value={row.output[name]} />
      ) : (
        <Cell value={name === fields[0] ? row.output : undefined} />
      )),
  }));
}

/** The most characters of a cell: the row's execution has all. */
const CELL = 300;

export function Cell({ value }: { value: unknown }) {
  const line = lineOf(value);
  if (line === undefined) return <span className="faint">–</span>;
  return (
    <span className="cut" translate="no" dir="auto">
      {visible(line.slice(0, CELL)).replaceAll("\n", " ")}
    </span>
  );
}

function Fault({ row }: { row: BatchRow }) {
  const { error } = row;
  if (!error) return <span className="faint">–</span>;
  const message = visible(error.message);
  return (
    <span className="cut" data-tip={`${error.code}\n${message.slice(0, 400)}`}>
      {row.status !== "invalid" && (
        <span translate="no" className="mono">
          {error.code}{" "}
        </span>
      )}
      <span className={row.status === "invalid" ? undefined : "soft"}>{message.slice(0, CELL)}</span>
    </span>
  );
}
