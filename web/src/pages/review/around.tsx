/** What stands around a step: its neighbours, the inputs of the execution, the outputs that it was made from. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { Approval, Schemas } from "../../api/client";
import { useApi } from "../../api/hooks";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Loaded } from "../../ui/basics";
import { Files } from "../../ui/files";
import { Icon } from "../../ui/icons";
import { LongText } from "../../ui/long-text";
import { Reader } from "../../ui/read/reader";
import { lookOf, stateOf } from "../../ui/status";
import { Turns } from "../../ui/turns";

type Execution = Schemas["Execution"];
type StepResult = Schemas["StepResult"];

/** The execution of an item and its plan, if it is a step's and the user may read them. */
export function useAround(item: Approval | undefined) {
  const may = useMay();
  const id = may("executions: read") ? item?.planExecutionId : undefined;
  const enabled = id !== undefined;
  useLive(["execution.*", "step.*"], { executionId: id ?? "none" });
  const execution = useApi("/api/plans/executions/{id}", { path: { id: id ?? "" } }, { enabled });
  const planId = execution.data?.planId;
  const plan = useApi(
    "/api/plans/{id}",
    { path: { id: planId ?? "" } },
    { enabled: planId !== undefined && may("plans: read") },
  );
  const steps = plan.data?.steps ?? [];
  const before = steps.find((step) => step.id === item?.stepId)?.dependsOn ?? [];
  const after = steps.filter((step) => step.dependsOn.includes(item?.stepId ?? "")).map((step) => step.id);
  return { execution, before, after, plan };
}

export function Neighbours({ item, around }: { item: Approval; around: ReturnType<typeof useAround> }) {
  if (!item.planExecutionId) return null;
  const { execution, before, after } = around;
  return (
    <Loaded query={execution} lines={2}>
      {(execution) => {
        const { completed, total, failed, awaitingApproval } = execution.progress ?? {
          completed: 0,
          total: 0,
          failed: 0,
          awaitingApproval: 0,
        };
        return (
          <div className="stack">
            <div className="review-graph">
              <Column title={t`Before`} ids={before} execution={execution} />
              <span className="faint" aria-hidden="true">
                <Icon name="next" />
              </span>
              <Column title={t`This step`} ids={[item.stepId ?? ""]} execution={execution} current />
              <span className="faint" aria-hidden="true">
                <Icon name="next" />
              </span>
              <Column title={t`After`} ids={after} execution={execution} />
            </div>
            <p className="small soft">
              <Trans>
                {completed} of {total} steps completed
              </Trans>
              {failed ? `, ${t`${failed} failed`}` : ""}
              {awaitingApproval > 1 ? `, ${t`${awaitingApproval} wait for a reviewer`}` : ""}.{" "}
              <Link href={`/executions/${execution.id}?step=${item.stepId}`}>
                <Trans>The whole execution</Trans>
              </Link>
            </p>
          </div>
        );
      }}
    </Loaded>
  );
}

function Column({
  title,
  ids,
  execution,
  current = false,
}: {
  title: string;
  ids: string[];
  execution: Execution;
  current?: boolean;
}) {
  const shown = ids.slice(0, 4);
  return (
    <ul aria-label={title}>
      {ids.length === 0 && (
        <li className="faint review-node-none">{title === "Before" ? t`first step` : t`last step`}</li>
      )}
      {shown.map((id) => {
        const step = execution.steps?.[id] as StepResult | undefined;
        const look = lookOf(step ? stateOf(step) : "pending");
        return (
          <li key={id} className="review-node" data-current={current} data-tip={`${id}: ${look.word}`}>
            <span className="status" data-tone={look.tone}>
              <Icon name={look.icon} size={13} />
              <span className="hide">{look.word}</span>
            </span>
            <span className="cut">{id}</span>
          </li>
        );
      })}
      {ids.length > shown.length && (
        <li className="faint small">
          <Trans>and {ids.length - shown.length} more</Trans>
        </li>
      )}
    </ul>
  );
}

/** What the output was made from. */
export function Sources({ item, around }: { item: Approval; around: ReturnType<typeof useAround> }) {
  const { execution, before } = around;
  const input = execution.data?.input;
  const hasInput = input && Object.keys(input).length > 0;
  const { task } = item;
  const context = task?.context;
  const isShown = (task?.shown?.length ?? 0) > 0;
  return (
    <>
      {task?.shown?.map((text, index) => {
        const title = task.shown?.length === 1 ? t`Source` : t`Source ${index + 1}`;
        return (
          <Source key={index} title={title} open>
            <Reader label={title} text={text} />
          </Source>
        );
      })}
      {task?.systemPrompt && (
        <Source title={t`System prompt`} open={!isShown}>
          <LongText label={t`System prompt`} text={task.systemPrompt} />
        </Source>
      )}
      {task?.messages && task.messages.length > 0 && (
        <Source title={t`Earlier turns`} open>
          <Turns messages={task.messages} />
        </Source>
      )}
      {task?.files && task.files.length > 0 && (
        <Source title={task.files.length === 1 ? t`File` : t`Files`} open>
          <Files ids={task.files} />
        </Source>
      )}
      {item.function ? (
        <Source title={t`Args of ${item.function}`} open>
          <Reader label={t`Args`} text={item.args ? JSON.stringify(item.args) : (item.prompt ?? "")} />
        </Source>
      ) : (
        <Source title={t`Prompt`} open={!isShown}>
          <LongText label={t`Prompt`} text={item.prompt ?? ""} />
        </Source>
      )}
      {context && Object.keys(context).length > 0 && (
        <Source title={t`Context`}>
          <Reader label={t`Context`} text={JSON.stringify(context)} />
        </Source>
      )}
      {hasInput && (
        <Source title={t`Inputs of the execution`}>
          <Reader label={t`Inputs`} text={JSON.stringify(input)} />
        </Source>
      )}
      {before.map((id) => {
        const step = execution.data?.steps?.[id] as StepResult | undefined;
        return (
          <Source
            key={id}
            title={t`Output of ${id}`}
            note={step && step.status !== "completed" ? lookOf(step.status).word : undefined}
          >
            <Reader label={t`Output of ${id}`} text={step?.output ?? ""} />
          </Source>
        );
      })}
    </>
  );
}

function Source({
  title,
  note,
  open,
  children,
}: {
  title: string;
  note?: string;
  open?: boolean;
  children: React.ReactNode;
}) {
  return (
    <details className="review-source" open={open}>
      <summary>
        {title} {note && <span className="faint">{note}</span>}
      </summary>
      {children}
    </details>
  );
}
