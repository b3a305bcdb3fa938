/** /batches/compare: two batches side by side, by field and by row; what differs is marked. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type InfiniteData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { Link } from "wouter";
import { ApiError, api, unwrap } from "../../api/client";
import { useApi, usePage } from "../../api/hooks";
import { count, instant, money, percent } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Empty, Failed, Field, Loading, PageFrame, Panel } from "../../ui/basics";
import { listOf } from "../../ui/filters";
import { Scroll } from "../../ui/sized";
import { Mark, Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { isObject, lineOf } from "./columns";
import type { Batch, BatchRow } from "./read";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./batches.css";

const OUTCOMES = ["differs", "equal", "unfinished", "failed", "onlyA", "onlyB"] as const;
type Outcome = (typeof OUTCOMES)[number];
const WORDS: Record<Outcome, string> = {
  differs: t`differ`,
  equal: t`equal`,
  unfinished: t`not finished`,
  failed: t`failed`,
  onlyA: t`only in A`,
  onlyB: t`only in B`,
};

type Side = Partial<BatchRow> & Pick<BatchRow, "row" | "key">;
type Item = { key: string; outcome: Outcome; fields: string[]; a?: Side; b?: Side };
type Agreement = { decided: number; agrees: number };
/** As docs/reference/batches.md has it. */
type Comparison = {
  isComplete: boolean;
  compared: number;
  step?: string;
  rows: { both: number; onlyA: number; onlyB: number };
  equal: number;
  differs: number;
  unfinished: number;
  failed: { a: number; b: number; either: number };
  byField: { field: string; equal: number; differs: number }[];
  cost: { a: number; b: number };
  agreement?: { a: Agreement; b: Agreement };
  items: Item[];
  nextCursor?: number;
};

export default function ComparePage() {
  const [params, set] = useParams();
  useLive(["batch.*"]);
  const [a, b] = [params.get("a") ?? "", params.get("b") ?? ""];
  return (
    <PageFrame title={t`Compare batches`} fill>
      <div className="filters batches-choose">
        <Choice label="A" value={a} onChange={(id) => set({ a: id || undefined })} />
        <Choice label="B" value={b} onChange={(id) => set({ b: id || undefined })} />
      </div>
      {a && b ? (
        a === b ? (
          <Empty title={t`It is the same batch twice`}>
            <Trans>Choose another one beside it.</Trans>
          </Empty>
        ) : (
          <Compared key={`${a} ${b}`} a={a} b={b} />
        )
      ) : (
        <Empty title={t`Choose two batches`}>
          <Trans>
            Rows with the same key are set side by side: which outputs differ, in which fields, and which of
            the two the reviewers' decisions agree with.
          </Trans>
        </Empty>
      )}
    </PageFrame>
  );
}

function Choice(props: { label: string; value: string; onChange: (id: string) => void }) {
  const { label, value, onChange } = props;
  const nameOf = useNameOf();
  const list = usePage("/api/batches", { query: { limit: 100 } });
  const one = useApi("/api/batches/{id}", { path: { id: value } }, { enabled: value !== "", retry: false });
  const isListed = list.data?.items.some(({ id }) => id === value);
  const words = (batch: Batch) =>
    visible(`${batch.name ?? nameOf(batch)} · ${batch.version} · ${instant(batch.createdAt)}`);
  return (
    <Field label={t`Batch ${label}`}>
      {(field) => (
        <select
          {...field}
          className="select"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="">{t`Choose a batch`}</option>
          {value && !isListed && <option value={value}>{one.data ? words(one.data) : value}</option>}
          {list.data?.items.map((batch) => (
            <option key={batch.id} value={batch.id}>
              {words(batch)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

const PATH = "/api/batches/{id}/compare/{other}";
/** A comparison of large batches is asked for again while the server makes it. */
const AGAIN_MS = 1_000;

function useComparison(a: string, b: string, query: Record<string, string | undefined>) {
  return useInfiniteQuery<Comparison, ApiError, InfiniteData<Comparison>, unknown[], number | undefined>({
    queryKey: [PATH, { path: { id: a, other: b } }, query],
    queryFn: async ({ pageParam, signal }) => {
      const given = Object.entries({ ...query, limit: "50", cursor: pageParam && String(pageParam) });
      const search = new URLSearchParams(given.filter((each): each is [string, string] => Boolean(each[1])));
      const call = api.GET as unknown as (path: string, init: object) => Promise<never>;
      const at = `/api/batches/${encodeURIComponent(a)}/compare/${encodeURIComponent(b)}?${search}`;
      return (await unwrap(call(at, { signal }))) as unknown as Comparison;
    },
    initialPageParam: undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: ({ state }) => (state.data?.pages.some((page) => !page.isComplete) ? AGAIN_MS : false),
    retry: (tries, error) => error instanceof ApiError && error.retryable && tries < 30,
    retryDelay: AGAIN_MS,
  });
}

function Compared({ a, b }: { a: string; b: string }) {
  const [params, set] = useParams();
  const outcomes = listOf(params.get("outcome"));
  const shown = outcomes.length > 0 ? outcomes : ["differs"];
  const fields = listOf(params.get("fields"));
  const read = useComparison(a, b, {
    outcome: shown.join(","),
    fields: fields.join(",") || undefined,
    step: params.get("step") ?? undefined,
  });
  const pages = read.data?.pages;
  const first = pages?.at(-1);
  const items = useMemo(() => pages?.flatMap(({ items }) => items) ?? [], [pages]);
  // Fields that are left out of the comparison can be taken in again.
  const names = useRef<string[]>([]);
  for (const { field } of first?.byField ?? []) {
    if (!names.current.includes(field)) names.current = [...names.current, field];
  }
  for (const field of fields) if (!names.current.includes(field)) names.current = [...names.current, field];
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = read;
  if (read.error && !first) return <Failed error={read.error} retry={() => void read.refetch()} />;
  if (!first) return <Loading lines={8} />;
  const toggle = (outcome: Outcome) => {
    const next = shown.includes(outcome) ? shown.filter((it) => it !== outcome) : [...shown, outcome];
    set({ outcome: next.join(",") || undefined });
  };
  const numbers: Record<Outcome, number> = {
    differs: first.differs,
    equal: first.equal,
    unfinished: first.unfinished,
    failed: first.failed.either,
    onlyA: first.rows.onlyA,
    onlyB: first.rows.onlyB,
  };
  return (
    <>
      <div className="batches-top" data-two={names.current.length > 0}>
        <div className="stack">
          <p role="status">
            {!first.isComplete && (
              <Mark tone="run" icon="running">
                <Trans>{count(first.compared)} rows are compared so far.</Trans>{" "}
              </Mark>
            )}
            {sentence(first)}
          </p>
          <fieldset className="batches-counts">
            <legend className="hide">
              <Trans>Rows by outcome</Trans>
            </legend>
            {OUTCOMES.map(
              (outcome) =>
                (numbers[outcome] > 0 || shown.includes(outcome)) && (
                  <button
                    key={outcome}
                    type="button"
                    aria-pressed={shown.includes(outcome)}
                    onClick={() => toggle(outcome)}
                  >
                    <OutcomeMark outcome={outcome} />
                    <strong className="num">{count(numbers[outcome])}</strong>
                  </button>
                ),
            )}
          </fieldset>
          <Sums comparison={first} />
        </div>
        {names.current.length > 0 && (
          <ByField
            names={names.current}
            byField={first.byField}
            chosen={fields}
            set={(names) => set({ fields: names.join(",") || undefined })}
          />
        )}
      </div>
      {items.length === 0 && !hasNextPage ? (
        <Empty title={t`No row is ${shown.map((it) => WORDS[it as Outcome] ?? it).join(` ${t`or`} `)}`} />
      ) : (
        <Table
          key={shown.join()}
          label={t`Rows of both`}
          rows={items}
          more={() => {
            if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
          }}
          keyOf={({ key, outcome }) => `${outcome} ${key}`}
          columns={COLUMNS}
        />
      )}
    </>
  );
}

function sentence({ rows, equal, differs, unfinished, failed }: Comparison): string {
  const compared = equal + differs;
  const said = [
    compared === 0
      ? plural(rows.both, {
          one: "No output can be compared in # common row.",
          other: "No output can be compared in # common rows.",
        })
      : differs === 0
        ? plural(compared, {
            one: "The outputs of # row are equal.",
            other: "The outputs of # rows are equal.",
          })
        : plural(compared, {
            one: `${count(differs)} of # output differ, ${percent(differs / compared, 1)}.`,
            other: `${count(differs)} of # outputs differ, ${percent(differs / compared, 1)}.`,
          }),
  ];
  if (unfinished > 0)
    said.push(
      plural(unfinished, {
        one: "# row has not ended on both sides.",
        other: "# rows have not ended on both sides.",
      }),
    );
  if (failed.either > 0)
    said.push(
      plural(failed.either, {
        one: "# row has no output to compare.",
        other: "# rows have no output to compare.",
      }),
    );
  return said.join(" ");
}

function OutcomeMark({ outcome }: { outcome: Outcome }) {
  const look = {
    differs: ["warn", "warn"],
    equal: ["good", "check"],
    unfinished: ["run", "clock"],
    failed: ["bad", "cross"],
    onlyA: ["mute", "dot"],
    onlyB: ["mute", "dot"],
  } as const;
  const [tone, icon] = look[outcome];
  return (
    <Mark tone={tone} icon={icon}>
      {WORDS[outcome]}
    </Mark>
  );
}

function Sums({ comparison: { cost, agreement, failed } }: { comparison: Comparison }) {
  const share = (of: Agreement | undefined) =>
    of && of.decided > 0 ? t`${percent(of.agrees / of.decided)}, ${of.agrees} of ${of.decided}` : "–";
  const isDecided = agreement && agreement.a.decided + agreement.b.decided > 0;
  const rows: [name: string, a: string, b: string][] = [
    [t`Cost`, money(cost.a), money(cost.b)],
    [t`Without an output`, count(failed.a), count(failed.b)],
    ...(isDecided
      ? ([[t`As reviewers decided`, share(agreement.a), share(agreement.b)]] as [string, string, string][])
      : []),
  ];
  return (
    <table className="plain-table batches-sums">
      <caption className="hide">
        <Trans>Figures of both batches</Trans>
      </caption>
      <thead>
        <tr>
          <th scope="col">
            <span className="hide">
              <Trans>Figure</Trans>
            </span>
          </th>
          <th scope="col" className="num">
            A
          </th>
          <th scope="col" className="num">
            B
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, a, b]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td className="num">{a}</td>
            <td className="num">{b}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function ByField({
  names,
  byField,
  chosen,
  set,
}: {
  names: string[];
  byField: Comparison["byField"];
  chosen: string[];
  set: (names: string[]) => void;
}) {
  return (
    <Panel title={t`By field`}>
      <Scroll>
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">
                <Trans>Compare</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Equal</Trans>
              </th>
              <th scope="col" className="num">
                <Trans>Differ</Trans>
              </th>
              <th scope="col">
                <Trans>Share that differs</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {names.map((field) => {
              const found = byField.find((each) => each.field === field);
              const isOn = chosen.length === 0 || chosen.includes(field);
              const all = found ? found.equal + found.differs : 0;
              const share = found && all > 0 ? found.differs / all : 0;
              return (
                <tr key={field}>
                  <th scope="row">
                    <label className="check">
                      <input
                        type="checkbox"
                        checked={isOn}
                        onChange={() => set(nextFields(names, chosen, field))}
                      />
                      <span translate="no">{visible(field)}</span>
                    </label>
                  </th>
                  <td className="num">{found ? count(found.equal) : "–"}</td>
                  <td className="num">{found ? count(found.differs) : "–"}</td>
                  <td>
                    <span className="row batches-percent">
                      <span className="bar batches-share" aria-hidden="true">
                        <i style={{ width: `${share * 100}%` }} />
                      </span>
                      {found ? (
                        percent(share, 1)
                      ) : (
                        <span className="faint">
                          <Trans>left out</Trans>
                        </span>
                      )}
                    </span>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

/** All fields are compared where none is named. */
function nextFields(all: string[], chosen: string[], field: string): string[] {
  const on = chosen.length === 0 ? all : chosen;
  const next = on.includes(field) ? on.filter((it) => it !== field) : [...on, field];
  return next.length === all.length ? [] : next;
}

const COLUMNS: Column<Item>[] = [
  {
    id: "key",
    header: t`Key`,
    width: "minmax(90px, 1fr)",
    cell: ({ key }) => (
      <span translate="no" className="cut mono">
        {visible(key)}
      </span>
    ),
  },
  {
    id: "outcome",
    header: t`Rows`,
    width: "110px",
    cell: ({ outcome }) => <OutcomeMark outcome={outcome} />,
  },
  {
    id: "a",
    header: "A",
    width: "minmax(200px, 4fr)",
    named: true,
    cell: (it) => <Cells of={it.a} item={it} />,
  },
  {
    id: "b",
    header: "B",
    width: "minmax(200px, 4fr)",
    named: true,
    cell: (it) => <Cells of={it.b} item={it} />,
  },
];

/** The fields that are shown of an output beside those that differ. */
const OTHERS = 4;
const CELL = 400;

function Cells({ of, item: { outcome, fields } }: { of: Side | undefined; item: Item }) {
  if (!of)
    return (
      <span className="faint">
        <Trans>no such row</Trans>
      </span>
    );
  const { output, status, executionId } = of;
  return (
    <div className="batches-side">
      {status && status !== "completed" && <Status state={status} />}
      {of.error && <span className="soft small">{visible(of.error.message.slice(0, CELL))}</span>}
      {isObject(output) ? (
        <dl>
          {namesOf(output, fields).map((name) => (
            <div key={name} className="batches-value" data-differs={fields.includes(name)}>
              <dt translate="no">
                {visible(name)}
                {fields.includes(name) && (
                  <span className="hide">
                    {" "}
                    <Trans>differs</Trans>
                  </span>
                )}
              </dt>
              <dd translate="no" dir="auto">
                <Line value={output[name]} />
              </dd>
            </div>
          ))}
        </dl>
      ) : (
        output !== undefined && (
          <div className="batches-value" data-differs={outcome === "differs"} translate="no" dir="auto">
            <Line value={output} />
          </div>
        )
      )}
      {executionId && status !== "removed" && (
        <Link href={`/executions/${executionId}`} className="small">
          <Trans>execution of row {count(of.row)}</Trans>
        </Link>
      )}
    </div>
  );
}

/** What differs first, also where this side has no such member. */
function namesOf(output: Record<string, unknown>, fields: string[]): string[] {
  const others = Object.keys(output).filter((name) => !fields.includes(name));
  return [...fields, ...others.slice(0, OTHERS)];
}

function Line({ value }: { value: unknown }) {
  const line = lineOf(value);
  return line === undefined ? (
    <span className="faint">
      <Trans>none</Trans>
    </span>
  ) : (
    visible(line.slice(0, CELL))
  );
}
