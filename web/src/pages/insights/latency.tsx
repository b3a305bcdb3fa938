/** The durations of tasks by model and queue, from the metrics. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { count, duration, instant, percent } from "../../lib/format";
import { Button, Empty, Loaded, Loading, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Scroll } from "../../ui/sized";
import { type Bucket, buckets, names, quantile, type Sample, useMetrics, value } from "./metrics";

const Chart = lazy(() => import("./chart"));
const COLOURS = ["--accent", "--good", "--warn", "--bad", "--text-2"];

export default function Latency() {
  const read = useMetrics();
  return (
    <>
      <div className="filters">
        <span className="soft small">
          <Trans>
            As read{read.dataUpdatedAt > 0 && t` on ${instant(read.dataUpdatedAt)}`}. Counts begin with the
            server's start.
          </Trans>
        </span>
        <Button size="small" busy={read.isFetching} onClick={() => void read.refetch()}>
          <Trans>Read again</Trans>
        </Button>
      </div>
      <Loaded query={read}>{(samples) => <Found samples={samples} />}</Loaded>
    </>
  );
}

function Found({ samples }: { samples: Sample[] }) {
  const models = names(samples, "svc_task_run_seconds_count", "model");
  const queues = names(samples, "svc_task_queue_wait_seconds_count", "queue");
  const total = names(samples, "svc_tasks_duration_seconds", "model");
  const counts = ["svc_task_run_seconds_count", "svc_task_queue_wait_seconds_count"];
  if (!samples.some(({ name, value }) => counts.includes(name) && value > 0)) {
    return (
      <Empty
        title={t`No task has run since the server's start`}
        command={'callboard tasks submit "Say hello." --wait'}
        needs="tasks: create"
        action={<RunExample of="task" />}
      >
        <Trans>How long tasks wait and run is shown here, by queue and by model.</Trans>
      </Empty>
    );
  }
  return (
    <>
      <div className="insights-two">
        <Histogram
          title={t`Time with a worker, of each attempt`}
          what={t`Model`}
          name="svc_task_run_seconds"
          label="model"
          keys={models}
          samples={samples}
        />
        <Histogram
          title={t`Wait for the first worker`}
          what={t`Queue`}
          name="svc_task_queue_wait_seconds"
          label="queue"
          keys={queues}
          samples={samples}
        />
      </div>
      <Panel
        title={t`From creation to end, reviews included`}
        actions={
          <span className="soft small">
            <Trans>tasks of the last 5 to 10 minutes</Trans>
          </span>
        }
      >
        <Scroll>
          <table className="plain-table insights-dense">
            <thead>
              <tr>
                <th scope="col">
                  <Trans>Model</Trans>
                </th>
                {["p50", "p90", "p99"].map((each) => (
                  <th key={each} scope="col" className="num">
                    {each}
                  </th>
                ))}
                <th scope="col" className="num">
                  <Trans>Tasks since the start</Trans>
                </th>
              </tr>
            </thead>
            <tbody>
              {total.map((model) => (
                <tr key={model}>
                  <th scope="row">{model}</th>
                  {["0.5", "0.9", "0.99"].map((quantile) => (
                    <td key={quantile} className="num">
                      {seconds(value(samples, "svc_tasks_duration_seconds", { model, quantile }))}
                    </td>
                  ))}
                  <td className="num">
                    {count(value(samples, "svc_tasks_duration_seconds_count", { model }) ?? 0)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </Panel>
    </>
  );
}

const seconds = (value: number | undefined) =>
  value === undefined || Number.isNaN(value) ? "–" : duration(value * 1000);

function Histogram({
  title,
  what,
  name,
  label,
  keys,
  samples,
}: {
  title: string;
  what: string;
  name: string;
  label: string;
  keys: string[];
  samples: Sample[];
}) {
  const all = keys.map((key) => ({ key, buckets: buckets(samples, name, { [label]: key }) }));
  const drawn = all.filter((each) => (each.buckets.at(-1)?.upTo ?? 0) > 0).slice(0, COLOURS.length);
  const bounds = drawn[0]?.buckets.filter(({ to }) => Number.isFinite(to)).map(({ to }) => to) ?? [];
  const x = bounds.map((bound) => Math.log10(bound));
  return (
    <Panel title={title}>
      <div className="pad stack">
        {drawn.length > 0 && (
          <>
            <Suspense fallback={<Loading lines={6} />}>
              <Chart
                label={t`${title}: the share that was done within a time`}
                x={x}
                xRange={[x[0] ?? 0, x.at(-1) ?? 1]}
                xText={(value) => duration(10 ** value * 1000)}
                yText={(value) => percent(value)}
                yRange={[0, 1]}
                height={200}
                lines={drawn.map((each, index) => ({
                  label: each.key,
                  colour: COLOURS[index] ?? "--accent",
                  values: shares(each.buckets),
                }))}
              />
            </Suspense>
            <ul className="insights-legend small">
              {drawn.map((each, index) => (
                <li key={each.key}>
                  <i style={{ background: `var(${COLOURS[index]})` }} /> {each.key}
                </li>
              ))}
              <li className="faint">
                <Trans>share done within a time</Trans>
              </li>
            </ul>
          </>
        )}
        <Scroll>
          <table className="plain-table insights-dense">
            <thead>
              <tr>
                <th scope="col">{what}</th>
                {["p50", "p90", "p99", t`Count`].map((each) => (
                  <th key={each} scope="col" className="num">
                    {each}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {all.map((each) => (
                <tr key={each.key}>
                  <th scope="row">{each.key}</th>
                  {[0.5, 0.9, 0.99].map((share) => (
                    <td key={share} className="num">
                      {range(quantile(each.buckets, share))}
                    </td>
                  ))}
                  <td className="num">{count(each.buckets.at(-1)?.upTo ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
        <p className="small faint">
          <Trans>A histogram knows a percentile only as the range of its bucket.</Trans>
        </p>
      </div>
    </Panel>
  );
}

function shares(all: Bucket[]): number[] {
  const total = all.at(-1)?.upTo ?? 0;
  return all.filter(({ to }) => Number.isFinite(to)).map(({ upTo }) => (total === 0 ? 0 : upTo / total));
}

function range(found: { from: number; to: number } | undefined): string {
  if (!found) return "–";
  if (!Number.isFinite(found.to)) return t`over ${duration(found.from * 1000)}`;
  if (found.from === 0) return `≤ ${duration(found.to * 1000)}`;
  return `${duration(found.from * 1000)} – ${duration(found.to * 1000)}`;
}
