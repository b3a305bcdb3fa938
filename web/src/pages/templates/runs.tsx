/** The last runs of a template: how they ended, and how long each step took beside the others of its kind. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get, type Schemas } from "../../api/client";
import { usePage } from "../../api/hooks";
import { count, duration, instant, ratio } from "../../lib/format";
import { useRoving } from "../../lib/roving";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Button, Empty, Loaded, Panel } from "../../ui/basics";
import { Icon } from "../../ui/icons";
import { Scroll } from "../../ui/sized";
import { lookOf } from "../../ui/status";
import { LAST_ENDED, Outcomes } from "../executions/outcomes";
import { type Column, columnsOf, SHADES, type StepTime, shadeOf, slowest, timesOf } from "./durations";
import "./runs.css";

type Execution = Schemas["Execution"];
const PATH = "/api/plans/executions/{id}" as const;
/** Each run is a request of its own. */
const FIRST = 20;
const MOST_STEPS = 40;

export default function Runs({ template }: { template: Schemas["Template"] }) {
  useLive(["execution.*"]);
  const { id } = template;
  const ended = usePage("/api/plans/executions", { query: { templateId: id, ...LAST_ENDED } });
  const [shown, setShown] = useState(FIRST);
  return (
    <Loaded query={ended}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title={t`No run has ended yet`}>
            <Trans>How its runs end and how long their steps take is shown here.</Trans>
          </Empty>
        ) : (
          <>
            <Panel
              title={t`The last ${count(items.length)} outcomes`}
              actions={
                <Link href={`/executions?templateId=${encodeURIComponent(id)}`}>
                  <Trans>All executions</Trans>
                </Link>
              }
            >
              <div className="pad">
                <Outcomes templateId={id} />
              </div>
            </Panel>
            <Panel
              title={t`Duration of the steps`}
              actions={
                items.length > shown && (
                  <Button size="small" onClick={() => setShown(LAST_ENDED.limit)}>
                    <Plural value={items.length} one="Show # run" other="Show # runs" />
                  </Button>
                )
              }
            >
              <Durations runs={items.slice(0, shown)} known={template.steps?.map((step) => step.id) ?? []} />
            </Panel>
          </>
        )
      }
    </Loaded>
  );
}

function Durations({ runs, known }: { runs: Execution[]; known: string[] }) {
  // Of an execution only the times are kept: its outputs may be large.
  const read = useQueries({
    queries: runs.map(({ id }) => ({
      queryKey: [PATH, { path: { id } }, "times"],
      queryFn: async ({ signal }: { signal: AbortSignal }) => ({
        times: timesOf(await get(PATH, { path: { id } }, signal)),
      }),
    })),
  });
  const times = read.map(({ data }) => data?.times);
  const all = columnsOf(
    known,
    times.filter((it) => it !== undefined),
  );
  const columns = slowest(all, MOST_STEPS);
  const roving = useRoving(runs.length * columns.length, 0);
  const lost = read.filter(({ isError }) => isError).length;
  return (
    <>
      <Legend />
      {all.length > columns.length && (
        <p className="pad soft">
          <Trans>
            The {count(columns.length)} steps of {count(all.length)} that take longest.
          </Trans>
        </p>
      )}
      {lost > 0 && (
        <p className="pad soft">
          <Plural value={lost} one="# run could not be read." other="# runs could not be read." />
        </p>
      )}
      <Scroll>
        <table className="templates-durations" aria-label={t`Duration of the steps`}>
          <thead>
            <tr>
              <th scope="col">
                <Trans>Run</Trans>
              </th>
              {columns.map(({ id }) => (
                <th key={id} scope="col" translate="no">
                  <span className="cut" data-tip={id}>
                    {id}
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody {...roving.around}>
            {runs.map((run, row) => (
              <tr key={run.id}>
                <th scope="row">
                  <RunName run={run} />
                </th>
                {columns.map((column, index) => (
                  <Cell
                    key={column.id}
                    href={`/executions/${run.id}?step=${encodeURIComponent(column.id)}`}
                    time={times[row]?.[column.id]}
                    isRead={times[row] !== undefined}
                    column={column}
                    link={roving.of(row * columns.length + index)}
                  />
                ))}
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">
                <Trans>Median</Trans>
              </th>
              {columns.map((column) => (
                <td key={column.id}>{duration(column.median)}</td>
              ))}
            </tr>
          </tfoot>
        </table>
      </Scroll>
    </>
  );
}

function RunName({ run }: { run: Execution }) {
  const { icon, tone, word } = lookOf(run.status);
  return (
    <Link href={`/executions/${run.id}`} className="templates-run">
      <span className="status" data-tone={tone}>
        <Icon name={icon} size={14} />
        <span className="hide">{word}</span>
      </span>
      <span className="cut">{run.title ? visible(run.title) : instant(run.completedAt ?? "")}</span>
    </Link>
  );
}

function Cell({
  href,
  time,
  isRead,
  column,
  link,
}: {
  href: string;
  time: StepTime | undefined;
  isRead: boolean;
  column: Column;
  link: object;
}) {
  const { state, ms } = time ?? { state: "pending" };
  const look = lookOf(state);
  const isTimed = ms !== undefined;
  const times = isTimed && column.median ? t`${ratio(ms / column.median)} times the median` : undefined;
  return (
    <td data-shade={shadeOf(ms, column.median)}>
      <Link href={href} data-tip={[`${column.id}: ${look.word}`, times].filter(Boolean).join("\n")} {...link}>
        {isRead && (!isTimed || state !== "completed") && (
          <span className="status" data-tone={look.tone}>
            <Icon name={look.icon} size={13} />
            <span className="hide">{look.word} </span>
          </span>
        )}
        {isTimed ? duration(ms) : !isRead && "…"}
      </Link>
    </td>
  );
}

function Legend() {
  const words = [
    t`less than half the median`,
    t`about the median`,
    ...SHADES.map((times) => t`from ${count(times)} times on`),
  ];
  return (
    <ul className="templates-shades small soft" aria-label={t`Shades`}>
      {words.map((word, index) => (
        <li key={word}>
          <i data-shade={index - 1} />
          {word}
        </li>
      ))}
    </ul>
  );
}
