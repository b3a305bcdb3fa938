/** The output of a task: as it is written while it runs, else as it is stored. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { LongText } from "../../ui/long-text";
import { Reader } from "../../ui/read/reader";
import { Mark } from "../../ui/status";
import { useStream } from "./stream";

const WITHOUT: Record<string, string> = {
  pending: t`Not yet.`,
  awaiting_approval: t`It is shown here once a reviewer has approved it.`,
};

export function Output({
  taskId,
  status,
  output,
  label = t`Text: output`,
}: {
  taskId: string | undefined;
  status: string;
  output: string | undefined;
  label?: string;
}) {
  if (taskId && status === "running") return <Written key={taskId} taskId={taskId} label={label} />;
  if (output !== undefined) return <Reader text={output} label={label} />;
  return <p className="faint tasks-none">{WITHOUT[status] ?? t`None.`}</p>;
}

function Written({ taskId, label }: { taskId: string; label: string }) {
  const { text, missing, state } = useStream(taskId);
  return (
    <div className="tasks-written" data-stream={state}>
      {missing > 0 && (
        <p className="small soft">
          <Trans>
            {missing} characters of this attempt are not kept while it runs; the output will have them.
          </Trans>
        </p>
      )}
      {text === "" ? (
        <p className="faint tasks-none">
          <Trans>Nothing is written yet.</Trans>
        </p>
      ) : (
        <LongText text={text} label={label} />
      )}
      <p className="small" aria-live="off">
        {state === "lost" ? (
          <Mark tone="warn" icon="warn">
            <Trans>The stream was lost; it is opened again.</Trans>
          </Mark>
        ) : (
          state !== "ended" && (
            <Mark tone="run" icon="running">
              {text === "" ? t`waiting for the first word` : t`being written`}
            </Mark>
          )
        )}
      </p>
    </div>
  );
}
