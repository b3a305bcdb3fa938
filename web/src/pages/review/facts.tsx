/** Facts about the task of an item. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { money, short } from "../../lib/format";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Ago } from "../../ui/time";
import { Extend } from "./extend";

/** A task by its page, for those who may read tasks. */
export function TaskLink({ id, children }: { id: string; children: string }) {
  const may = useMay()("tasks: read");
  if (!may) return <span className="mono">{id}</span>;
  return (
    <Link
      href={`/tasks/${id}`}
      translate={children === id ? "no" : undefined}
      className={children === id ? "mono" : undefined}
    >
      {children}
    </Link>
  );
}

export function Facts({ item }: { item: Approval }) {
  const { task } = item;
  const usage = task?.usage;
  return (
    <dl className="facts small">
      <dt>
        <Trans>Task</Trans>
      </dt>
      <dd>
        <TaskLink id={item.taskId}>{item.taskId}</TaskLink>
      </dd>
      <dt>
        <Trans>Model</Trans>
      </dt>
      <dd>{item.model}</dd>
      <dt>
        <Trans>Queue</Trans>
      </dt>
      <dd>{item.queue}</dd>
      {usage && (
        <>
          <dt>
            <Trans>Tokens</Trans>
          </dt>
          <dd>
            <Trans>
              {short(usage.input)} in, {short(usage.output)} out
            </Trans>
          </dd>
          <dt>
            <Trans>Cost</Trans>
          </dt>
          <dd>{usage.priceUnknown ? t`no price is known` : money(usage.totalCost)}</dd>
        </>
      )}
      {task?.finishReason && task.finishReason !== "stop" && (
        <>
          <dt>
            <Trans>Ended by</Trans>
          </dt>
          <dd>{task.finishReason}</dd>
        </>
      )}
      {task?.retryOf && (
        <>
          <dt>
            <Trans>Tries again</Trans>
          </dt>
          <dd>
            <Link href={`/review/${task.retryOf}`} translate="no" className="mono">
              {task.retryOf}
            </Link>
          </dd>
        </>
      )}
      <dt>
        <Trans>Due</Trans>
      </dt>
      <dd className="row">
        <Ago at={item.timeoutAt} /> <Extend item={item} />
      </dd>
      {item.tags.length > 0 && (
        <>
          <dt>
            <Trans>Tags</Trans>
          </dt>
          <dd>
            {item.tags.map((tag) => (
              <span key={tag} className="tag cut">
                {visible(tag)}
              </span>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}
