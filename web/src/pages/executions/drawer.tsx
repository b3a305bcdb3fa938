/** A step: its output as it is written, attempts, tokens, cost, worker, and why it failed. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { Link } from "wouter";
import { useApi } from "../../api/hooks";
import { count, money, ratio, tail } from "../../lib/format";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { Button, Command, Loading } from "../../ui/basics";
import { Correction } from "../../ui/correction";
import { Icon } from "../../ui/icons";
import { LongText } from "../../ui/long-text";
import { lookOf, obstacleOf, Status } from "../../ui/status";
import { Ago, Lasted } from "../../ui/time";
import { Output } from "../tasks/output";
import { Unpriced } from "./executions";
import { Items } from "./items";
import { itemStates, type StepView } from "./steps";

const Signal = lazy(() => import("./signal-form"));

export function Drawer({
  executionId,
  step,
  steps,
  onSelect,
  onClose,
}: {
  executionId: string;
  step: StepView;
  steps: StepView[];
  onSelect: (id: string) => void;
  onClose: () => void;
}) {
  const { result } = step;
  const behind = steps.filter(({ dependsOn }) => dependsOn.includes(step.id)).map(({ id }) => id);
  return (
    <aside className="executions-drawer" aria-label={t`Step ${step.id}`}>
      <header>
        <h2 className="cut">{step.id}</h2>
        <Status state={step.state} filled />
        <Button kind="quiet" size="small" icon="cross" aria-label={t`Close the step`} onClick={onClose} />
      </header>
      <div className="executions-drawer-body">
        {step.state === "awaiting_approval" && result?.taskId && (
          <p className="notice" data-tone="warn">
            <span className="grow">
              <Trans>Its output waits for a reviewer.</Trans>
            </span>
            <Link href={`/review/${result.taskId}`}>
              <Trans>Review it</Trans>
            </Link>
          </p>
        )}
        {result?.error && (
          <div className="notice" data-tone="bad">
            <span className="status" data-tone="bad">
              <Icon name="warn" />
            </span>
            <div className="grow">
              <strong translate="no" className="mono">
                {result.error.code}
              </strong>
              <div className="executions-wrap">{visible(result.error.message)}</div>
            </div>
          </div>
        )}
        {step.signal && (
          <Suspense fallback={<Loading lines={3} />}>
            <Signal executionId={executionId} step={step} />
          </Suspense>
        )}
        {step.items && <Items executionId={executionId} step={step.id} counts={step.items} />}
        <section>
          <h3>
            <Trans>Output</Trans>
          </h3>
          <Output
            taskId={result?.taskId}
            status={step.state}
            output={result?.output}
            label={t`Output of ${step.id}`}
          />
          {result?.outputTruncated && <Cut taskId={result.taskId} />}
          <Correction taskId={result?.taskId} correction={result?.correction} />
        </section>
        <Figures step={step} />
        <Around title={t`Depends on`} ids={step.dependsOn} steps={steps} onSelect={onSelect} />
        <Around title={t`Needed by`} ids={behind} steps={steps} onSelect={onSelect} />
        {step.condition && (
          <section>
            <h3>
              <Trans>Condition</Trans>
            </h3>
            <LongText text={step.condition} label={t`Condition`} />
          </section>
        )}
        {result?.taskId && <Prompt taskId={result.taskId} />}
      </div>
    </aside>
  );
}

function Figures({ step }: { step: StepView }) {
  const { result } = step;
  const taskId = result?.taskId;
  useLive(["task.*"], { taskId: taskId ?? "none" });
  const { data: task } = useApi(
    "/api/tasks/{id}",
    { path: { id: taskId ?? "" } },
    { enabled: taskId !== undefined },
  );
  const usage = result?.usage;
  const waits = step.state === "pending" ? (result?.waitingFor ?? t`the steps before it`) : undefined;
  return (
    <dl className="facts">
      {waits && (
        <Fact name={t`Waits for`}>
          {waits === "signal" ? t`the signal ${visible(step.signal ?? "")}` : obstacleOf(waits)}
        </Fact>
      )}
      {step.items && (
        <Fact name={t`Items`}>
          {itemStates(step.items)
            .map(([state, number]) => `${count(number)} ${lookOf(state).word}`)
            .join(", ")}
          {step.items.awaitingApproval ? t`, ${count(step.items.awaitingApproval)} with a reviewer` : ""}
        </Fact>
      )}
      <Fact name={t`Attempt`}>
        {result?.attempt ?? "–"}
        {task && task.retryCount > 0 && (
          <span className="soft">
            {" "}
            <Trans>({task.retryCount} retried)</Trans>
          </span>
        )}
      </Fact>
      <Fact name={t`Duration`}>
        {step.state === "running" ? (
          <Lasted from={result?.startedAt} />
        ) : (
          <Lasted from={result?.completedAt ? result.startedAt : undefined} to={result?.completedAt} />
        )}
      </Fact>
      <Fact name={t`Started`}>
        <Ago at={result?.startedAt} />
      </Fact>
      <Fact name={t`Tokens`}>{usage ? t`${count(usage.input)} in, ${count(usage.output)} out` : "–"}</Fact>
      <Fact name={t`Cost`}>{usage?.priceUnknown ? <Unpriced /> : money(usage?.totalCost)}</Fact>
      {result?.confidence !== undefined && <Fact name={t`Confidence`}>{ratio(result.confidence)}</Fact>}
      {result?.finishReason && <Fact name={t`Finish`}>{visible(result.finishReason)}</Fact>}
      <Fact name={t`Worker`}>
        {task?.workerId ? (
          <Link
            href={`/workers?worker=${task.workerId}`}
            translate="no"
            className="mono"
            data-tip={task.workerId}
          >
            {tail(task.workerId)}
          </Link>
        ) : (
          "–"
        )}
      </Fact>
      {step.function ? (
        <Fact name={t`Function`}>
          <span translate="no" className="mono">
            {step.function}
          </span>
        </Fact>
      ) : (
        <Fact name={t`Model`}>{task?.model ?? step.model ?? "–"}</Fact>
      )}
      <Fact name={t`Queue`}>{task?.queue ?? step.queue ?? "–"}</Fact>
      {result?.reusedFrom && (
        <Fact name={t`Taken over`}>
          <Link
            href={`/tasks/${result.reusedFrom}`}
            translate="no"
            className="mono"
            data-tip={result.reusedFrom}
          >
            {tail(result.reusedFrom)}
          </Link>
        </Fact>
      )}
      {taskId && (
        <Fact name={t`Task`}>
          <Link href={`/tasks/${taskId}`} translate="no" className="mono" data-tip={taskId}>
            {tail(taskId)}
          </Link>
        </Fact>
      )}
    </dl>
  );
}

/** Says that an output is not whole: one answer carries 8 MiB of outputs. */
export function Cut({ taskId }: { taskId: string | undefined }) {
  return (
    <p className="small soft" data-cut>
      <Trans>The output is longer than shown here.</Trans>{" "}
      {taskId && (
        <Link href={`/tasks/${taskId}`}>
          <Trans>The task has all of it.</Trans>
        </Link>
      )}
    </p>
  );
}

export function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Around({
  title,
  ids,
  steps,
  onSelect,
}: {
  title: string;
  ids: string[];
  steps: StepView[];
  onSelect: (id: string) => void;
}) {
  if (ids.length === 0) return null;
  const states = new Map(steps.map(({ id, state }) => [id, state]));
  return (
    <section>
      <h3>{title}</h3>
      <ul className="executions-around">
        {ids.slice(0, 20).map((id) => (
          <li key={id}>
            <Button size="small" kind="quiet" onClick={() => onSelect(id)}>
              {id}
            </Button>
            <Status state={states.get(id) ?? "pending"} />
          </li>
        ))}
        {ids.length > 20 && (
          <li className="soft">
            <Trans>and {ids.length - 20} more</Trans>
          </li>
        )}
      </ul>
    </section>
  );
}

function Prompt({ taskId }: { taskId: string }) {
  const { data } = useApi("/api/tasks/{id}", { path: { id: taskId } });
  const text = data?.args ? JSON.stringify(data.args, null, 2) : data?.prompt;
  if (!text) return null;
  const title = data?.args ? t`Args` : t`Prompt`;
  return (
    <section>
      <h3>{title}</h3>
      <LongText text={text} label={title} />
      <div className="executions-command">
        <Command>{`callboard tasks show ${taskId}`}</Command>
      </div>
    </section>
  );
}
