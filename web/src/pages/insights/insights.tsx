/** /insights: how good confidences are, what a threshold would do, what it costs, how long it takes. */
import { plural, t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useApi, usePage } from "../../api/hooks";
import { count, duration, percent, ratio } from "../../lib/format";
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
    { id: "confidence", name: t`Confidence`, href: "/insights" },
    ...(may("executions: read") ? [{ id: "cost", name: t`Cost`, href: "/insights?tab=cost" }] : []),
    ...(may("metrics: read") ? [{ id: "latency", name: t`Latency`, href: "/insights?tab=latency" }] : []),
  ];
  const tab = tabs.find((each) => each.id === params.get("tab"))?.id ?? "confidence";
  return (
    <PageFrame title={t`Insights`}>
      <Tabs label={t`Insights`} tabs={tabs} current={tab} />
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
          aria-label={t`Template`}
          value={templateId ?? ""}
          onChange={(event) => set({ template: event.target.value, step: undefined })}
        >
          <option value="">{t`every template and task`}</option>
          {templates.data?.items.map(({ id }) => (
            <option key={id}>{id}</option>
          ))}
        </select>
        {templateId && (
          <select
            className="select"
            aria-label={t`Step`}
            value={stepId ?? ""}
            onChange={(event) => set({ step: event.target.value })}
          >
            <option value="">{t`every step`}</option>
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
            ? t`No output has met a gate yet`
            : plural(met, {
                one: "# output met a gate, and was not decided on yet",
                other: "# outputs met a gate, and none was decided on yet",
              })
        }
        command={'callboard tasks submit "Name a colour." --threshold 0.95 --sample-rate 0.1'}
        needs="tasks: create"
        action={
          <div className="row wrap">
            <RunExample of="review" />
            <Link className="button" href="/docs/how-to/threshold">
              <Trans>How to choose a threshold</Trans>
            </Link>
          </div>
        }
      >
        <Trans>
          The confidence of each output that meets a gate is kept beside what its reviewer decided. From that
          record, this page shows how much a confidence says, and what another threshold would have done.
        </Trans>
      </Empty>
    );
  }
  return (
    <div className="insights-two">
      <Panel title={t`How much a confidence says`}>
        <div className="pad stack">
          <p className="soft small">
            <Trans>
              The share of the reviewed outputs that passed as they were. On the dashed line, an output passes
              as often as its confidence says.
            </Trans>
          </p>
          <Suspense fallback={<Loading lines={6} />}>
            <Chart
              label={t`Share that passed unchanged, by confidence; the table below has the figures`}
              x={deciles.map(({ from, to }) => (from + to) / 2)}
              xRange={[0, 1]}
              yRange={[0, 1]}
              xText={ratio}
              yText={(value) => percent(value)}
              lines={[
                {
                  label: t`as it says`,
                  kind: "dashed",
                  colour: "--control",
                  values: deciles.map(({ from, to }) => (from + to) / 2),
                },
                {
                  label: t`passed`,
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
    { name: t`none`, tally: noConfidence },
  ];
  return (
    <Scroll>
      <table className="plain-table insights-dense">
        <caption className="hide">
          <Trans>What became of outputs, by confidence</Trans>
        </caption>
        <thead>
          <tr>
            {[t`Confidence`, t`Passed`, t`Edited`, t`Rejected`, t`Unreviewed`, t`Passed as it was`].map(
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
    <Panel title={t`What another threshold would have done`}>
      <div className="pad stack">
        <Field
          label={t`Threshold ${ratio(at.threshold)}`}
          hint={t`Outputs with a lower confidence would have been held.`}
        >
          {(props) => (
            <input
              {...props}
              type="range"
              className="insights-slider"
              min={0}
              max={thresholds.length - 1}
              value={index}
              aria-valuetext={t`${ratio(at.threshold)}: ${at.reviewsSaved} reviews saved, ${at.rejectionsMissed} rejections missed`}
              onChange={(event) =>
                set({ threshold: thresholds[Number(event.target.value)]?.threshold.toFixed(2) })
              }
            />
          )}
        </Field>
        <dl className="figures insights-result">
          <div>
            <dt>
              <Trans>Reviews saved</Trans>
            </dt>
            <dd>{count(at.reviewsSaved)}</dd>
            <dd className="faint small">
              <Plural value={at.reviews} one="# review left" other="# reviews left" />
            </dd>
          </div>
          <div>
            <dt>
              <Trans>Rejections missed</Trans>
            </dt>
            <dd>{count(at.rejectionsMissed)}</dd>
            <dd className="faint small">
              <Trans>of {count(at.rejectionsKnown)} known</Trans>
            </dd>
          </div>
          <div>
            <dt>
              <Trans>Share of rejections missed</Trans>
            </dt>
            <dd>{expected === undefined ? t`unknown` : percent(expected)}</dd>
            <dd className="faint small">
              {expected === undefined ? t`too few reviews` : t`between ${percent(low)} and ${percent(high)}`}
            </dd>
          </div>
        </dl>
        <Suspense fallback={<Loading lines={6} />}>
          <Chart
            label={t`Reviews saved and rejections missed, by threshold`}
            x={thresholds.map(({ threshold }) => threshold)}
            xRange={[0, 1]}
            xText={ratio}
            yText={(value) => (Number.isInteger(value) ? count(value) : "")}
            mark={at.threshold}
            lines={[
              {
                label: t`reviews saved`,
                colour: "--accent",
                values: thresholds.map((each) => each.reviewsSaved),
              },
              {
                label: t`rejections missed`,
                colour: "--bad",
                values: thresholds.map((each) => each.rejectionsMissed),
              },
            ]}
          />
        </Suspense>
        <ul className="insights-legend small">
          <li>
            <i style={{ background: "var(--accent)" }} /> <Trans>reviews saved</Trans>
          </li>
          <li>
            <i style={{ background: "var(--bad)" }} /> <Trans>rejections missed</Trans>
          </li>
        </ul>
        {at.unreviewed > 0 && (
          <p className="small soft">
            <Plural
              value={at.unreviewed}
              one="# output without a review would also pass."
              other="# outputs without a review would also pass."
            />{" "}
            <Trans>
              The share of bad ones among them is estimated from reviews of outputs with a similar confidence.
            </Trans>{" "}
            {at.unreviewedUnknown > 0 && (
              <Trans>For {count(at.unreviewedUnknown)} of them, there are no such reviews.</Trans>
            )}
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
    <Panel title={plural(windowDays, { one: "Reviews of # day", other: "Reviews of # days" })}>
      <div className="pad insights-reviews">
        <dl className="figures insights-figures">
          <div>
            <dt>
              <Trans>Decided</Trans>
            </dt>
            <dd>{count(decided)}</dd>
            <dd className="faint small">
              <Trans>of {count(created)} held</Trans>
            </dd>
          </div>
          <div>
            <dt>
              <Trans>Waited, on average</Trans>
            </dt>
            <dd>{decided > 0 ? duration(avgWaitTimeMs) : none}</dd>
          </div>
          <div>
            <dt>
              <Trans>Confidence, on average</Trans>
            </dt>
            <dd>{decided > 0 ? ratio(avgConfidence) : none}</dd>
          </div>
          <div>
            <dt>
              <Trans>Escalated</Trans>
            </dt>
            <dd>{created > 0 ? percent(escalationRate) : none}</dd>
          </div>
          <div>
            <dt>
              <Trans>Today (UTC)</Trans>
            </dt>
            <dd>{count(statistics.approvedToday + statistics.rejectedToday)}</dd>
            <dd className="faint small">
              <Trans>
                {count(statistics.approvedToday)} approved, {count(statistics.rejectedToday)} rejected
              </Trans>
            </dd>
          </div>
        </dl>
        {topReviewers.length > 0 && (
          <Scroll>
            <table className="plain-table insights-dense">
              <thead>
                <tr>
                  <th scope="col">
                    <Trans>Who decided most</Trans>
                  </th>
                  <th scope="col" className="num">
                    <Trans>Approved</Trans>
                  </th>
                  <th scope="col" className="num">
                    <Trans>Rejected</Trans>
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
