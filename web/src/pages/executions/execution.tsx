/** One execution: graph, timeline, table and comparison of one selection, which stands in the address. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { api, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count, money, tail } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Button, Loaded, Loading, PageFrame } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Erase } from "../../ui/erase";
import { lookOf, Status } from "../../ui/status";
import { TemplateName } from "../../ui/template-name";
import { Ago, Lasted } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { Compare } from "./compare";
import { Drawer } from "./drawer";
import { Unpriced } from "./executions";
import { countsOf, type Execution, type Plan, type StepView, stepsOf, withStep } from "./steps";
import { StepsTable } from "./steps-table";
import { Timeline } from "./timeline";
import "./executions.css";

// Asked for with the page, so that it is there when the plan has been read.
const graph = import("./graph");
const Graph = lazy(() => graph);
const Fork = lazy(() => import("./fork").then(({ Fork }) => ({ default: Fork })));

const VIEWS = ["graph", "timeline", "table", "compare"] as const;
type View = (typeof VIEWS)[number];
const WORDS: Record<View, string> = {
  graph: t`Graph`,
  timeline: t`Timeline`,
  table: t`Table`,
  compare: t`Compare`,
};
const PATH = "/api/plans/executions/{id}" as const;

export default function ExecutionPage() {
  const { id = "" } = useRoute();
  const client = useQueryClient();
  useLive(["execution.*", "step.*"], { executionId: id }, (event) => {
    if (!event.event.startsWith("step.")) return;
    const key = [PATH, { path: { id } }];
    // What was asked before the event may answer with what was before it.
    if (client.getQueryData(key)) void client.cancelQueries({ queryKey: key });
    client.setQueryData<Execution>(key, (known) => known && withStep(known, event));
  });
  const execution = useApi(PATH, { path: { id } });
  const planId = execution.data?.planId;
  const plan = useApi("/api/plans/{id}", { path: { id: planId ?? "" } }, { enabled: planId !== undefined });
  const name = execution.data?.title ?? plan.data?.name ?? t`Execution`;
  return (
    <PageFrame
      title={`${visible(name)} ${tail(id)}`}
      fill
      actions={execution.data && <Actions of={execution.data} plan={plan.data} />}
    >
      <Loaded query={execution} lines={8}>
        {(data) =>
          plan.isPending && plan.fetchStatus !== "idle" ? (
            <Loading lines={8} />
          ) : (
            <Shown execution={data} plan={plan.data} />
          )
        }
      </Loaded>
    </PageFrame>
  );
}

function Shown({ execution, plan }: { execution: Execution; plan: Plan | undefined }) {
  const [params, set] = useParams();
  const wanted = params.get("view");
  const view: View = VIEWS.find((it) => it === wanted) ?? "graph";
  const steps = useMemo(() => stepsOf(plan, execution), [plan, execution]);
  const selected = params.get("step") ?? undefined;
  const step = steps.find(({ id }) => id === selected);
  const select = (id: string | undefined) => set({ step: id });
  const go = (by: number) => {
    const place = steps.findIndex(({ id }) => id === selected);
    const next = steps[Math.min(steps.length - 1, Math.max(0, place + by))];
    if (next) select(next.id);
  };
  useKeys(t`Execution`, [
    { id: "executions.next", key: "j", label: t`Next step`, run: () => go(1) },
    { id: "executions.previous", key: "k", label: t`Previous step`, run: () => go(-1) },
    { id: "executions.close", key: "Escape", label: t`Close the step`, run: () => select(undefined) },
  ]);
  return (
    <>
      <Summary execution={execution} steps={steps} />
      <div className="tabs executions-tabs" role="tablist" aria-label={t`Views`}>
        {VIEWS.map((it) => (
          <button
            key={it}
            type="button"
            role="tab"
            id={`tab-${it}`}
            aria-selected={it === view}
            aria-controls="execution-view"
            onClick={() => set({ view: it === "graph" ? undefined : it })}
          >
            {WORDS[it]}
          </button>
        ))}
      </div>
      <div className="executions-split" data-open={step !== undefined && view !== "compare"}>
        <div className="executions-view" id="execution-view" role="tabpanel" aria-labelledby={`tab-${view}`}>
          {view === "graph" && (
            <Suspense fallback={<Loading />}>
              <Graph key={execution.id} steps={steps} selected={selected} onSelect={select} />
            </Suspense>
          )}
          {view === "timeline" && (
            <Timeline execution={execution} steps={steps} selected={selected} onSelect={select} />
          )}
          {view === "table" && <StepsTable id={execution.id} steps={steps} selected={selected} />}
          {view === "compare" && (
            <Compare
              execution={execution}
              plan={plan}
              otherId={params.get("with") ?? ""}
              onOther={(other) => set({ with: other || undefined })}
            />
          )}
        </div>
        {step && view !== "compare" && (
          <Drawer
            key={step.id}
            executionId={execution.id}
            step={step}
            steps={steps}
            onSelect={select}
            onClose={() => select(undefined)}
          />
        )}
      </div>
    </>
  );
}

function Summary({ execution, steps }: { execution: Execution; steps: StepView[] }) {
  const { usage, error } = execution;
  return (
    <>
      <div className="executions-summary">
        <span data-execution-state={execution.status}>
          <Status state={execution.status} filled />
        </span>
        <ul aria-label={t`Steps by state`} className="executions-counts">
          {countsOf(steps).map(([state, number]) => (
            <li key={state}>
              <Status state={state} word={`${count(number)} ${lookOf(state).word}`} />
            </li>
          ))}
        </ul>
        <span>
          {execution.startedAt ? (
            <Trans>
              started <Ago at={execution.startedAt} />
            </Trans>
          ) : (
            <Trans>
              starts <Ago at={execution.startAt} />
            </Trans>
          )}
        </span>
        <span>
          <Lasted from={execution.startedAt} to={execution.completedAt} />
        </span>
        <span>
          <Plural value={usage.total} one="# token" other="# tokens" />
        </span>
        <span>{usage.priceUnknown ? <Unpriced /> : money(usage.totalCost)}</span>
        {execution.forkedFrom && (
          <Link href={`/executions/${execution.forkedFrom.executionId}`}>
            <Trans>
              fork of{" "}
              <span translate="no" className="mono">
                {tail(execution.forkedFrom.executionId)}
              </span>
            </Trans>
          </Link>
        )}
        {execution.batchId && (
          <Link href={`/batches/${execution.batchId}`} data-tip={execution.batchId}>
            <Trans>
              row{" "}
              <span translate="no" className="mono">
                {visible(execution.key ?? "")}
              </span>{" "}
              of a batch
            </Trans>
          </Link>
        )}
        {execution.templateId && (
          <Link href={`/templates/${execution.templateId}`}>
            <TemplateName id={execution.templateId} />
          </Link>
        )}
      </div>
      {error && execution.status !== "cancelled" && (
        <div className="notice" data-tone="bad">
          <div className="grow">
            <strong translate="no" className="mono">
              {error.code}
            </strong>{" "}
            {error.stepId && (
              <Trans>
                in{" "}
                <Link className="text-link" href={`/executions/${execution.id}?step=${error.stepId}`}>
                  {error.stepId}
                </Link>
              </Trans>
            )}
            <div className="executions-wrap">{visible(error.message)}</div>
          </div>
        </div>
      )}
    </>
  );
}

function Actions({ of: execution, plan }: { of: Execution; plan: Plan | undefined }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [params] = useParams();
  const [asks, setAsks] = useState(false);
  const [forks, setForks] = useState(false);
  const [erases, setErases] = useState(false);
  const [busy, setBusy] = useState<string>();
  const path = { id: execution.id };
  const run = async (name: string, call: () => Promise<unknown>, failed: string) => {
    setBusy(name);
    try {
      await call();
    } catch (error) {
      toastError(error, failed);
    }
    setBusy(undefined);
    await client.invalidateQueries({ queryKey: [PATH, { path }] });
  };
  const cancel = () => {
    setAsks(false);
    void run(
      "cancel",
      () => unwrap(api.DELETE("/api/plans/executions/{id}", { params: { path } })),
      t`It was not cancelled`,
    );
  };
  const retry = () =>
    run(
      "retry",
      () => unwrap(api.POST("/api/plans/executions/{id}/retry", { params: { path } })),
      t`It was not retried`,
    );
  const again = () =>
    run(
      "again",
      async () => {
        const body = { input: execution.input as Record<string, unknown> | undefined };
        const params = { path: { id: execution.planId } };
        const begun = (await unwrap(api.POST("/api/plans/{id}/execute", { params, body }))) as {
          id?: string;
        };
        if (!begun.id) return;
        const first = `/executions/${begun.id}`;
        toast(t`It runs again, with the same input.`, {
          action: {
            label: t`Compare`,
            run: () => navigate(`${first}?view=compare&with=${execution.id}`),
          },
        });
        navigate(first);
      },
      t`It was not started`,
    );
  const isRunning = execution.status === "running" || execution.status === "pending";
  const isStopped = execution.status === "failed" || execution.status === "cancelled";
  const left = (execution.progress?.running ?? 0) + (execution.progress?.pending ?? 0);
  return (
    <>
      {isStopped && (
        <Button
          icon="undo"
          needs="executions: retry"
          busy={busy === "retry"}
          data-tip={t`Keeps the completed outputs; runs the failed and cancelled steps again.`}
          onClick={() => void retry()}
        >
          <Trans>Retry</Trans>
        </Button>
      )}
      {!isRunning && (
        <Button icon="executions" needs="plans: execute" busy={busy === "again"} onClick={() => void again()}>
          <Trans>Run again</Trans>
        </Button>
      )}
      {plan && (
        <Button
          icon="fork"
          needs="plans: execute"
          data-tip={t`Starts a new execution that takes over the steps that stay the same.`}
          onClick={() => setForks(true)}
        >
          <Trans>Fork</Trans>
        </Button>
      )}
      {forks && plan && (
        <Suspense>
          <Fork
            execution={execution}
            plan={plan}
            step={params.get("step") ?? undefined}
            onClose={() => setForks(false)}
          />
        </Suspense>
      )}
      {!isRunning && !execution.erasedAt && (
        <Button kind="danger" needs="tasks: erase texts" onClick={() => setErases(true)}>
          <Trans>Erase texts</Trans>
        </Button>
      )}
      {erases && (
        <Erase
          of="this execution"
          onClose={() => setErases(false)}
          erase={async (reason) => {
            const params = { path };
            await unwrap(api.DELETE("/api/plans/executions/{id}/texts", { params, body: { reason } }));
            await client.invalidateQueries({ queryKey: [PATH, { path }] });
          }}
        >
          <Trans>
            Its input and title, the payloads of its signals and the texts of all its tasks are gone for good,
            though not from backups. Status, usage, cost and tags stay.
          </Trans>
        </Erase>
      )}
      {isRunning && (
        <Button
          kind="danger"
          icon="stop"
          needs="executions: cancel"
          busy={busy === "cancel"}
          onClick={() => setAsks(true)}
        >
          <Trans>Cancel</Trans>
        </Button>
      )}
      {asks && (
        <Dialog
          title={t`Cancel this execution?`}
          onClose={() => setAsks(false)}
          onSubmit={cancel}
          footer={
            <>
              <Button onClick={() => setAsks(false)}>
                <Trans>Keep it</Trans>
              </Button>
              <Button kind="danger" icon="stop" type="submit">
                <Plural value={left} one="Cancel # step" other="Cancel # steps" />
              </Button>
            </>
          }
        >
          <p>
            <Plural
              value={left}
              one="# step that has not ended is cancelled. Completed outputs are kept; Retry goes on from them."
              other="# steps that have not ended are cancelled. Completed outputs are kept; Retry goes on from them."
            />
          </p>
        </Dialog>
      )}
    </>
  );
}
