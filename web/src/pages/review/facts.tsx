/** Facts about the task of an item. */
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
      <dt>Task</dt>
      <dd>
        <TaskLink id={item.taskId}>{item.taskId}</TaskLink>
      </dd>
      <dt>Model</dt>
      <dd>{item.model}</dd>
      <dt>Queue</dt>
      <dd>{item.queue}</dd>
      {usage && (
        <>
          <dt>Tokens</dt>
          <dd>
            {short(usage.input)} in, {short(usage.output)} out
          </dd>
          <dt>Cost</dt>
          <dd>{usage.priceUnknown ? "no price is known" : money(usage.totalCost)}</dd>
        </>
      )}
      {task?.finishReason && task.finishReason !== "stop" && (
        <>
          <dt>Ended by</dt>
          <dd>{task.finishReason}</dd>
        </>
      )}
      {task?.retryOf && (
        <>
          <dt>Tries again</dt>
          <dd>
            <Link href={`/review/${task.retryOf}`} translate="no" className="mono">
              {task.retryOf}
            </Link>
          </dd>
        </>
      )}
      <dt>Due</dt>
      <dd>
        <Ago at={item.timeoutAt} /> <Extend item={item} />
      </dd>
      {item.tags.length > 0 && (
        <>
          <dt>Tags</dt>
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
