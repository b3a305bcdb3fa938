/** /insights: how good confidences are, what a threshold would do, what it costs, how long it takes. */
import { lazy, Suspense } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useApi, usePage } from "../../api/hooks";
import { count, duration, percent, plural, ratio } from "../../lib/format";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Empty, Field, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { Tabs } from "../../ui/tabs";
import { accepted, metGate, nearest, reviewed } from "./figures";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./insights.css";
import { Scroll } from "../../ui/sized";

const Chart = lazy(() => import("./chart"));
const Costs = lazy(() => import("./costs"));
const Latency = lazy(() => import("./latency"));

export default function Insights() {
  const may = useMay();
  const [params] = useParams();
  const tabs = [
    { id: "confidence", name: "Confidence", href: "/insights" },
    ...(may("executions: read") ? [{ id: "cost", name: "Cost", href: "/insights?tab=cost" }] : []),
    ...(may("metrics: read") ? [{ id: "latency", name: "Latency", href: "/insights?tab=latency" }] : []),
  ];
  const tab = tabs.find((each) => each.id === params.get("tab"))?.id ?? "confidence";
  return (
    <PageFrame title="Insights">
      <Tabs label="Insights" tabs={tabs} current={tab} />
      <Suspense fallback={<Loading />}>
        {tab === "confidence" && <Confidence />}
        {tab === "cost" && <Costs />}
        {tab === "latency" && <Latency />}
      </Suspense>
    </PageFrame>
  );
}

function Confidence() {
  useLive(["hitl.*"]);
  const [params, set] = useParams();
  const templateId = params.get("template") ?? undefined;
  const stepId = params.get("step") ?? undefined;
  const templates = usePage("/api/templates", { query: { limit: 100 } } as never);
  const one = useApi(
    "/api/templates/{id}",
    { path: { id: templateId ?? "" } },
    { enabled: templateId !== undefined },
  );
  const read = useApi("/api/hitl/calibration", { query: { templateId, stepId } });
  const stats = useApi("/api/hitl/stats");
  return (
    <>
      <div className="filters">
        <select
          className="select"
          aria-label="Template"
          value={templateId ?? ""}
          onChange={(event) => set({ template: event.target.value, step: undefined })}
        >
          <option value="">every template and task</option>
          {templates.data?.items.map(({ id }) => (
            <option key={id}>{id}</option>
          ))}
        </select>
        {templateId && (
          <select
            className="select"
            aria-label="Step"
            value={stepId ?? ""}
            onChange={(event) => set({ step: event.target.value })}
          >
            <option value="">every step</option>
            {one.data?.steps?.map(({ id }) => (
              <option key={id}>{id}</option>
            ))}
          </select>
        )}
      </div>
      <Loaded query={read}>{(calibration) => <Calibration calibration={calibration} />}</Loaded>
      <Loaded query={stats}>{(statistics) => <Reviews statistics={statistics} />}</Loaded>
    </>
  );
}

function Calibration({ calibration }: { calibration: Schemas["Calibration"] }) {
  const { deciles, noConfidence, thresholds } = calibration;
  const all = [...deciles, noConfidence];
  const met = all.reduce((sum, each) => sum + metGate(each), 0);
  if (all.every((each) => reviewed(each) === 0)) {
    return (
      <Empty
        title={
          met === 0
            ? "No output has met a gate yet"
            : `${plural(met, "output")} met a gate, and none was decided on yet`
        }
        command={'callboard tasks submit "Name a colour." --threshold 0.95 --sample-rate 0.1'}
        needs="tasks: create"
        action={
          <div className="row wrap">
            <RunExample of="review" />
            <Link className="button" href="/docs/how-to/threshold">
              How to choose a threshold
            </Link>
          </div>
        }
      >
        The confidence of each output that meets a gate is kept beside what its reviewer decided. From that
        record, this page shows how much a confidence says, and what another threshold would have done.
      </Empty>
    );
  }
  return (
    <div className="insights-two">
      <Panel title="How much a confidence says">
        <div className="pad stack">
          <p className="soft small">
            The share of the reviewed outputs that passed as they were. On the dashed line, an output passes
            as often as its confidence says.
          </p>
          <Suspense fallback={<Loading lines={6} />}>
            <Chart
              label="Share that passed unchanged, by confidence; the table below has the figures"
              x={deciles.map(({ from, to }) => (from + to) / 2)}
              xRange={[0, 1]}
              yRange={[0, 1]}
              xText={ratio}
              yText={(value) => percent(value)}
              lines={[
                {
                  label: "as it says",
                  kind: "dashed",
                  colour: "--control",
                  values: deciles.map(({ from, to }) => (from + to) / 2),
                },
                {
                  label: "passed",
                  colour: "--accent",
                  values: deciles.map((each) => accepted(each) ?? null),
                },
              ]}
            />
          </Suspense>
          <Deciles deciles={deciles} noConfidence={noConfidence} />
        </div>
      </Panel>
      <BackTest thresholds={thresholds} />
    </div>
  );
}

function Deciles({
  deciles,
  noConfidence,
}: {
  deciles: Schemas["Decile"][];
  noConfidence: Schemas["Tally"];
}) {
  const rows = [
    ...deciles.map((each) => ({
      name: `${ratio(each.from)} – ${ratio(each.to)}`,
      tally: each as Schemas["Tally"],
    })),
    { name: "none", tally: noConfidence },
  ];
  return (
    <Scroll>
      <table className="plain-table insights-dense">
        <caption className="hide">What became of outputs, by confidence</caption>
        <thead>
          <tr>
            {["Confidence", "Passed", "Edited", "Rejected", "Unreviewed", "Passed as it was"].map(
              (name, index) => (
                <th key={name} scope="col" className={index > 0 ? "num" : undefined}>
                  {name}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, tally }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {[tally.approved, tally.edited, tally.rejected, tally.unreviewed].map((value, index) => (
                <td key={index} className={value === 0 ? "num faint" : "num"}>
                  {count(value)}
                </td>
              ))}
              <td className="num">{percent(accepted(tally))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function BackTest({ thresholds }: { thresholds: Schemas["Threshold"][] }) {
  const [params, set] = useParams();
  const index = nearest(thresholds, Number(params.get("threshold") ?? 0.85));
  const at = thresholds[index];
  if (!at) return null;
  const { low, high, expected } = at.missedShare;
  return (
    <Panel title="What another threshold would have done">
      <div className="pad stack">
        <Field
          label={`Threshold ${ratio(at.threshold)}`}
          hint="Outputs with a lower confidence would have been held."
        >
          {(props) => (
            <input
              {...props}
              type="range"
              className="insights-slider"
              min={0}
              max={thresholds.length - 1}
              value={index}
              aria-valuetext={`${ratio(at.threshold)}: ${at.reviewsSaved} reviews saved, ${at.rejectionsMissed} rejections missed`}
              onChange={(event) =>
                set({ threshold: ratio(thresholds[Number(event.target.value)]?.threshold) })
              }
            />
          )}
        </Field>
        <dl className="figures insights-result">
          <div>
            <dt>Reviews saved</dt>
            <dd>{count(at.reviewsSaved)}</dd>
            <dd className="faint small">{plural(at.reviews, "review")} left</dd>
          </div>
          <div>
            <dt>Rejections missed</dt>
            <dd>{count(at.rejectionsMissed)}</dd>
            <dd className="faint small">of {count(at.rejectionsKnown)} known</dd>
          </div>
          <div>
            <dt>Share of rejections missed</dt>
            <dd>{expected === undefined ? "unknown" : percent(expected)}</dd>
            <dd className="faint small">
              {expected === undefined ? "too few reviews" : `between ${percent(low)} and ${percent(high)}`}
            </dd>
          </div>
        </dl>
        <Suspense fallback={<Loading lines={6} />}>
          <Chart
            label="Reviews saved and rejections missed, by threshold"
            x={thresholds.map(({ threshold }) => threshold)}
            xRange={[0, 1]}
            xText={ratio}
            yText={(value) => (Number.isInteger(value) ? count(value) : "")}
            mark={at.threshold}
            lines={[
              {
                label: "reviews saved",
                colour: "--accent",
                values: thresholds.map((each) => each.reviewsSaved),
              },
              {
                label: "rejections missed",
                colour: "--bad",
                values: thresholds.map((each) => each.rejectionsMissed),
              },
            ]}
          />
        </Suspense>
        <ul className="insights-legend small">
          <li>
            <i style={{ background: "var(--accent)" }} /> reviews saved
          </li>
          <li>
            <i style={{ background: "var(--bad)" }} /> rejections missed
          </li>
        </ul>
        {at.unreviewed > 0 && (
          <p className="small soft">
            {plural(at.unreviewed, "output")} without a review would also pass. The share of bad ones among
            them is estimated from reviews of outputs with a similar confidence.
            {at.unreviewedUnknown > 0 &&
              ` For ${count(at.unreviewedUnknown)} of them, there are no such reviews.`}
          </p>
        )}
      </div>
    </Panel>
  );
}

function Reviews({ statistics }: { statistics: Schemas["Statistics"] }) {
  const nameOf = useNames();
  const { decided, created, windowDays, avgWaitTimeMs, avgConfidence, escalationRate, topReviewers } =
    statistics;
  const none = <span className="faint">–</span>;
  return (
    <Panel title={`Reviews of ${plural(windowDays, "day")}`}>
      <div className="pad insights-reviews">
        <dl className="figures insights-figures">
          <div>
            <dt>Decided</dt>
            <dd>{count(decided)}</dd>
            <dd className="faint small">of {count(created)} held</dd>
          </div>
          <div>
            <dt>Waited, on average</dt>
            <dd>{decided > 0 ? duration(avgWaitTimeMs) : none}</dd>
          </div>
          <div>
            <dt>Confidence, on average</dt>
            <dd>{decided > 0 ? ratio(avgConfidence) : none}</dd>
          </div>
          <div>
            <dt>Escalated</dt>
            <dd>{created > 0 ? percent(escalationRate) : none}</dd>
          </div>
          <div>
            <dt>Today (UTC)</dt>
            <dd>{count(statistics.approvedToday + statistics.rejectedToday)}</dd>
            <dd className="faint small">
              {count(statistics.approvedToday)} approved, {count(statistics.rejectedToday)} rejected
            </dd>
          </div>
        </dl>
        {topReviewers.length > 0 && (
          <Scroll>
            <table className="plain-table insights-dense">
              <thead>
                <tr>
                  <th scope="col">Who decided most</th>
                  <th scope="col" className="num">
                    Approved
                  </th>
                  <th scope="col" className="num">
                    Rejected
                  </th>
                </tr>
              </thead>
              <tbody>
                {topReviewers.map((each) => (
                  <tr key={each.id}>
                    <th scope="row" translate="no">
                      {nameOf(each.id)}
                    </th>
                    <td className="num">{count(each.approvals)}</td>
                    <td className="num">{count(each.rejections)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </div>
    </Panel>
  );
}
