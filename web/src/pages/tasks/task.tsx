/** A task: what was asked, what is answered as it is written, its attempts and what happened to it. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { api, type DataOf, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count, duration, instant, money, ratio, tail } from "../../lib/format";
import { freshKey } from "../../lib/fresh-key";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import type { LiveEvent } from "../../live/socket";
import { useMay } from "../../session/session";
import { Button, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { Correction } from "../../ui/correction";
import { Erase } from "../../ui/erase";
import { Files } from "../../ui/files";
import { Icon } from "../../ui/icons";
import { LongText } from "../../ui/long-text";
import { obstacleOf, Status, stateOf } from "../../ui/status";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { Turns } from "../../ui/turns";
import { Fact } from "../executions/drawer";
import { Unpriced } from "../executions/executions";
import { historyOf } from "./history";
import { Output } from "./output";
import { type Draft, Submit } from "./submit";
import { Duration } from "./tasks";
import "../../ui/plain.css";
import "../executions/executions.css";
import "./tasks.css";

const Texts = lazy(() => import("../executions/texts").then(({ Texts }) => ({ default: Texts })));

type Task = DataOf<"/api/tasks/{id}">;
const PATH = "/api/tasks/{id}" as const;

export default function TaskPage() {
  const { id = "" } = useRoute();
  return <One key={id} id={id} />;
}

function One({ id }: { id: string }) {
  const [seen, setSeen] = useState<LiveEvent[]>([]);
  useLive(["task.*"], { taskId: id }, (event) => {
    if (event.event === "task.delta" || event.resource.id !== id) return;
    setSeen((all) => (all.some(({ cursor }) => cursor === event.cursor) ? all : [...all.slice(-99), event]));
  });
  const task = useApi(PATH, { path: { id } });
  return (
    <PageFrame
      title={`${visible(task.data?.title ?? t`Task`)} ${tail(id)}`}
      actions={task.data && <Actions task={task.data} />}
    >
      <Loaded query={task} lines={8}>
        {(data) => <Shown task={data} seen={seen} />}
      </Loaded>
    </PageFrame>
  );
}

function Shown({ task, seen }: { task: Task; seen: LiveEvent[] }) {
  const state = stateOf(task);
  return (
    <>
      <div className="executions-summary">
        <span data-task-state={state}>
          <Status state={state} filled />
        </span>
        {task.status === "pending" && task.waitingFor && (
          <span>
            <Trans>waits for {obstacleOf(task.waitingFor)}</Trans>
          </span>
        )}
        <span>
          <Trans>
            created <Ago at={task.createdAt} />
          </Trans>
        </span>
        {task.tags.map((tag) => (
          <Link key={tag} className="tag cut" href={`/tasks?tags=${encodeURIComponent(tag)}`}>
            {visible(tag)}
          </Link>
        ))}
      </div>
      {state === "awaiting_approval" && (
        <p className="notice" data-tone="warn">
          <span className="grow">
            <Trans>The output waits for a reviewer.</Trans>
          </span>
          <Link href={`/review/${task.id}`}>
            <Trans>Review it</Trans>
          </Link>
        </p>
      )}
      {task.error && (
        <div className="notice" data-tone="bad">
          <span className="status" data-tone="bad">
            <Icon name="warn" />
          </span>
          <div className="grow">
            <strong translate="no" className="mono">
              {task.error.code}
            </strong>
            <div className="executions-wrap">{visible(task.error.message)}</div>
          </div>
        </div>
      )}
      <div className="tasks-columns">
        <div className="stack">
          <Panel title={t`Output`}>
            <div className="tasks-output">
              <Output taskId={task.id} status={task.status} output={task.output} />
            </div>
            <Correction taskId={task.id} correction={task.correction} />
          </Panel>
          {task.function ? (
            <Panel title={t`Args`}>
              <LongText text={JSON.stringify(task.args ?? {}, null, 2)} label={t`Text: args`} />
            </Panel>
          ) : (
            <Panel title={t`Prompt`}>
              <LongText text={task.prompt ?? ""} label={t`Text: prompt`} />
            </Panel>
          )}
          {task.retryOf && <Attempts task={task} before={task.retryOf} />}
          {task.files && task.files.length > 0 && (
            <Panel title={task.files.length === 1 ? t`File` : t`Files`}>
              <Files ids={task.files} />
            </Panel>
          )}
          {task.systemPrompt && (
            <Panel title={t`System prompt`}>
              <LongText text={task.systemPrompt} label={t`Text: system prompt`} />
            </Panel>
          )}
          {task.messages && task.messages.length > 0 && (
            <Panel title={t`Earlier turns`}>
              <Turns messages={task.messages} />
            </Panel>
          )}
          {task.context && Object.keys(task.context).length > 0 && (
            <Panel title={t`Context`}>
              <LongText text={JSON.stringify(task.context, null, 2)} label={t`Text: context`} />
            </Panel>
          )}
        </div>
        <div className="stack">
          <Panel title={t`Figures`}>
            <Figures task={task} />
          </Panel>
          <Panel title={t`History`}>
            <History task={task} seen={seen} />
          </Panel>
        </div>
      </div>
    </>
  );
}

/** The texts of a task beside those of the one that it tries again, once they are asked for. */
function Attempts({ task, before }: { task: Task; before: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Panel
      title={t`Beside the task that it tries again`}
      actions={
        <Button size="small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Trans>Compare</Trans>
        </Button>
      }
    >
      {isOpen && (
        <div className="pad">
          <Suspense fallback={<Loading lines={3} />}>
            <Texts
              title={tail(task.id)}
              one={{ name: t`This task`, taskId: task.id }}
              other={{ name: t`Task ${tail(before)}`, taskId: before }}
            />
          </Suspense>
        </div>
      )}
    </Panel>
  );
}

function Figures({ task }: { task: Task }) {
  const { usage } = task;
  return (
    <dl className="facts tasks-facts">
      {task.function ? (
        <Fact name={t`Function`}>
          <span translate="no" className="mono">
            {task.function}
          </span>
        </Fact>
      ) : (
        <Fact name={t`Model`}>{task.model}</Fact>
      )}
      <Fact name={t`Queue`}>
        <Link href={`/tasks?queue=${encodeURIComponent(task.queue)}`}>{task.queue}</Link>
      </Fact>
      <Fact name={t`Priority`}>{task.priority}</Fact>
      <Fact name={t`Attempt`}>
        {task.attempt || "–"}
        {task.retryCount > 0 && (
          <span className="soft">
            {" "}
            <Trans>({task.retryCount} retried)</Trans>
          </span>
        )}
        {task.workersLost !== undefined && (
          <span className="soft">
            {" "}
            <Plural
              value={task.workersLost}
              one="(# worker was lost with it)"
              other="(# workers were lost with it)"
            />
          </span>
        )}
      </Fact>
      <Fact name={t`Duration`}>
        <Duration task={task} />
      </Fact>
      <Fact name={t`Time limit`}>{duration(task.timeoutMs)}</Fact>
      <Fact name={t`Tokens`}>{usage ? t`${count(usage.input)} in, ${count(usage.output)} out` : "–"}</Fact>
      <Fact name={t`Cost`}>{usage?.priceUnknown ? <Unpriced /> : money(usage?.totalCost)}</Fact>
      {task.confidence !== undefined && (
        <Fact name={t`Confidence`}>
          {ratio(task.confidence)} <span className="soft">{task.confidenceSource}</span>
        </Fact>
      )}
      {task.finishReason && <Fact name={t`Finish`}>{visible(task.finishReason)}</Fact>}
      <Fact name={t`Worker`}>
        {task.workerId ? (
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
      {task.planExecutionId && (
        <Fact name={t`Execution`}>
          <Link href={`/executions/${task.planExecutionId}?step=${task.stepId}`}>
            {task.stepId}{" "}
            <span translate="no" className="mono">
              {tail(task.planExecutionId)}
            </span>
          </Link>
        </Fact>
      )}
      {task.retryOf && (
        <Fact name={t`Tries again`}>
          <Link href={`/tasks/${task.retryOf}`} translate="no" className="mono">
            {tail(task.retryOf)}
          </Link>
        </Fact>
      )}
      <Fact name={t`Id`}>
        <span translate="no" className="mono">
          {task.id}
        </span>
      </Fact>
    </dl>
  );
}

function History({ task, seen }: { task: Task; seen: LiveEvent[] }) {
  return (
    <ol className="tasks-history">
      {historyOf(task, seen).map(({ at, state, words, note }) => (
        <li key={`${at} ${words}`}>
          <Status state={state} word={words} />
          <span className="soft executions-wrap">{note && visible(note)}</span>
          <time dateTime={at} data-tip={instant(at)} className="faint">
            {at.slice(11, 19)}
          </time>
        </li>
      ))}
    </ol>
  );
}

function Actions({ task }: { task: Task }) {
  const client = useQueryClient();
  const may = useMay();
  const [, navigate] = useLocation();
  const [again, setAgain] = useState<Draft>();
  const [erases, setErases] = useState(false);
  // Pressed again after a lost answer, it is the same retry.
  const [key] = useState(freshKey);
  const [busy, setBusy] = useState(false);
  const path = { id: task.id };
  const cancel = async () => {
    setBusy(true);
    try {
      await unwrap(api.DELETE("/api/tasks/{id}", { params: { path } }));
      toast(t`It is cancelled.`);
    } catch (error) {
      toastError(error, t`It was not cancelled`);
    }
    setBusy(false);
    await client.invalidateQueries({ queryKey: [PATH, { path }] });
  };
  const isOpen = task.status === "pending" || task.status === "running";
  const isLost = task.status === "failed" || task.status === "cancelled" || task.status === "rejected";
  const retry = async () => {
    setBusy(true);
    try {
      const header = { "Idempotency-Key": key };
      const made = await unwrap(api.POST("/api/tasks/{id}/retry", { params: { path, header } }));
      toast(t`It is tried again, as a new task.`);
      navigate(`/tasks/${(made as { id: string }).id}`);
    } catch (error) {
      toastError(error, t`It was not tried again`);
    }
    setBusy(false);
  };
  const draft = (): Draft => ({
    prompt: task.prompt ?? "",
    systemPrompt: task.systemPrompt,
    model: task.model,
    queue: task.queue,
    priority: String(task.priority),
    maxTokens: task.maxTokens === undefined ? "" : String(task.maxTokens),
    tags: task.tags.join(", "),
  });
  return (
    <>
      {isLost && !task.planExecutionId && (
        <Button
          icon="undo"
          needs="tasks: create"
          busy={busy}
          data-tip={t`The same task again, as a new one of yours`}
          onClick={() => void retry()}
        >
          <Trans>Retry</Trans>
        </Button>
      )}
      {may("tasks: create") && !task.function && (
        <Button icon="undo" onClick={() => setAgain(draft())}>
          <Trans>Submit again</Trans>
        </Button>
      )}
      {isOpen && (
        <Button kind="danger" icon="stop" needs="tasks: cancel" busy={busy} onClick={() => void cancel()}>
          <Trans>Cancel</Trans>
        </Button>
      )}
      {!isOpen && !task.erasedAt && (
        <Button kind="danger" needs="tasks: erase texts" onClick={() => setErases(true)}>
          <Trans>Erase texts</Trans>
        </Button>
      )}
      {erases && (
        <Erase
          of="this task"
          onClose={() => setErases(false)}
          erase={async (reason) => {
            await unwrap(api.DELETE("/api/tasks/{id}/texts", { params: { path }, body: { reason } }));
            await client.invalidateQueries({ queryKey: [PATH, { path }] });
          }}
        >
          <Trans>
            Prompt, context, output, edit, comment and the words of its error are gone for good, though not
            from backups. Status, usage, cost and tags stay, and the history of its approval still verifies.
          </Trans>
        </Erase>
      )}
      {again && <Submit from={again} onClose={() => setAgain(undefined)} />}
    </>
  );
}
