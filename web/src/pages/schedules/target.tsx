/** The work that a schedule starts, as it is shown. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { useNameOf } from "../../lib/names";
import { visible } from "../../lib/visible";
import { LongText } from "../../ui/long-text";
import { TemplateName } from "../../ui/template-name";
import type { Target } from "./read";

export function TargetShown({ target }: { target: Target }) {
  const nameOf = useNameOf();
  const { task, planId, templateId, version, input } = target;
  const rest = Object.fromEntries(
    Object.entries(target).filter(
      ([name]) => !["task", "planId", "templateId", "version", "input"].includes(name),
    ),
  );
  return (
    <div className="pad stack">
      <div>
        {templateId && (
          <>
            <Trans>
              The template{" "}
              <Link href={`/templates/${templateId}`}>
                <TemplateName id={templateId} />
              </Link>
              ,
            </Trans>{" "}
            {version ? <code translate="no">{version}</code> : t`in its latest version at each run`}
          </>
        )}
        {planId && (
          <Trans>
            The plan <Link href={`/plans/${planId}`}>{visible(nameOf({ planId }))}</Link>
          </Trans>
        )}
        {task && (task.function ? t`A call of ${visible(task.function)}` : t`A task`)}
      </div>
      {task ? (
        <LongText text={task.prompt ?? JSON.stringify(task.args ?? {}, null, 2)} label={t`Prompt`} />
      ) : (
        <>
          <h3>
            <Trans>Input</Trans>
          </h3>
          <LongText text={JSON.stringify(input ?? {}, null, 2)} label={t`Input`} />
        </>
      )}
      <Rest of={task ? without(task, ["prompt", "args", "function"]) : rest} />
    </div>
  );
}

function Rest({ of }: { of: Record<string, unknown> }) {
  if (Object.keys(of).length === 0) return null;
  return (
    <>
      <h3>
        <Trans>Settings</Trans>
      </h3>
      <LongText text={JSON.stringify(of, null, 2)} label={t`Settings of the work`} />
    </>
  );
}

const without = (of: Record<string, unknown>, names: string[]) =>
  Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));
