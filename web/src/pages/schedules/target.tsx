/** The work that a schedule starts, as it is shown. */
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
            The template{" "}
            <Link href={`/templates/${templateId}`}>
              <TemplateName id={templateId} />
            </Link>
            , {version ? <code translate="no">{version}</code> : "in its latest version at each run"}
          </>
        )}
        {planId && (
          <>
            The plan <Link href={`/plans/${planId}`}>{visible(nameOf({ planId }))}</Link>
          </>
        )}
        {task && (task.function ? `A call of ${visible(task.function)}` : "A task")}
      </div>
      {task ? (
        <LongText text={task.prompt ?? JSON.stringify(task.args ?? {}, null, 2)} label="Prompt" />
      ) : (
        <>
          <h3>Input</h3>
          <LongText text={JSON.stringify(input ?? {}, null, 2)} label="Input" />
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
      <h3>Settings</h3>
      <LongText text={JSON.stringify(of, null, 2)} label="Settings of the work" />
    </>
  );
}

const without = (of: Record<string, unknown>, names: string[]) =>
  Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));
