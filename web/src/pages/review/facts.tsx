/** Facts about the task of an item. */
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { money, short } from "../../lib/format";
import { visible } from "../../lib/visible";
import { Ago } from "../../ui/time";
import { useTask } from "./around";

export function Facts({ item }: { item: Approval }) {
  const task = useTask(item);
  const usage = task?.usage;
  return (
    <dl className="facts small">
      <dt>Task</dt>
      <dd>
        <Link href={`/tasks/${item.taskId}`} translate="no" className="mono">
          {item.taskId}
        </Link>
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
        <Ago at={item.timeoutAt} />
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
