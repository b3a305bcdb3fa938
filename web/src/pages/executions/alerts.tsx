/** What nobody can run: without the table of the page of what is stuck, for the overview. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { visible } from "../../lib/visible";
import { Mark } from "../../ui/status";
import { Ago } from "../../ui/time";
import type { Unserved } from "./waiting";
import "./alerts.css";

/** What nobody can run, a line for each queue and model. */
export function Alerts({ pairs }: { pairs: Unserved[] }) {
  if (pairs.length === 0) return null;
  return (
    <ul className="executions-alerts" aria-label={t`Nobody can run it`}>
      {pairs.map(({ queue, model, tasks, since }) => (
        <li key={`${queue} ${model}`}>
          <Mark tone="bad" icon="warn">
            <Trans>
              No worker runs {visible(model)} in queue {visible(queue)}
            </Trans>
          </Mark>{" "}
          <Trans>
            <Link
              href={`/tasks?status=pending&queue=${encodeURIComponent(queue)}&model=${encodeURIComponent(model)}`}
            >
              <Plural value={tasks} one="# task waits" other="# tasks wait" />
            </Link>
            , the oldest for <Ago at={since} plain />
          </Trans>
        </li>
      ))}
    </ul>
  );
}
