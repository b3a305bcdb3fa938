/** How the last runs of a template ended, the oldest first, each a link. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { usePage } from "../../api/hooks";
import { count, duration, instant, percent } from "../../lib/format";
import { lookOf } from "../../ui/status";

const LAST = 50;

export function Outcomes({ templateId }: { templateId: string }) {
  const { data } = usePage("/api/plans/executions", {
    query: {
      templateId,
      status: ["completed", "failed", "cancelled"],
      orderBy: "completedAt",
      limit: LAST,
    },
  } as never);
  const ended = data?.items ?? [];
  if (ended.length === 0) return null;
  const completed = ended.filter(({ status }) => status === "completed").length;
  return (
    <div className="executions-outcomes">
      <ol aria-label={t`The last ${count(ended.length)} outcomes`}>
        {ended.toReversed().map(({ id, status, startedAt, completedAt }) => {
          const { word, tone } = lookOf(status);
          const took =
            startedAt && completedAt ? duration(Date.parse(completedAt) - Date.parse(startedAt)) : "";
          return (
            <li key={id}>
              <Link
                href={`/executions/${id}`}
                data-tone={tone}
                data-tip={`${took ? t`${word} after ${took}` : word}\n${completedAt ? instant(completedAt) : ""}`}
              >
                <span className="hide">{word}</span>
              </Link>
            </li>
          );
        })}
      </ol>
      <span className="soft small">
        <Trans>
          {percent(completed / ended.length)} of the last {count(ended.length)} completed
        </Trans>
      </span>
    </div>
  );
}
