/** The steps of a plan or a template, in the order of the document. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { memo } from "react";
import type { Schemas } from "../../api/client";
import { duration } from "../../lib/format";
import { Mark } from "../../ui/status";
import { partsOf } from "../../ui/turns";
import "../../ui/plain.css";
import "./definition.css";

type Step = Schemas["Step"];

export function Steps({
  steps,
  hitl,
  defaults,
}: {
  steps: Step[];
  hitl?: Schemas["Hitl"];
  defaults?: Schemas["Defaults"];
}) {
  return (
    <ol className="definition-steps">
      {steps.map((step, index) => (
        <StepRow key={step.id} step={step} number={index + 1} gate={gateOf(step, hitl)} defaults={defaults} />
      ))}
    </ol>
  );
}

/** When the output of a step waits for a reviewer, as the reference of approvals has it. */
export function gateOf(step: { id: string; requiresApproval?: boolean }, hitl?: Schemas["Hitl"]) {
  if (step.requiresApproval || hitl?.requiredFor?.includes(step.id)) return "always";
  return hitl?.confidenceThreshold !== undefined && !hitl.requiredFor?.length ? "threshold" : "none";
}

const StepRow = memo(function StepRow({
  step,
  number,
  gate,
  defaults,
}: {
  step: Step;
  number: number;
  gate: string;
  defaults?: Schemas["Defaults"];
}) {
  const model = step.model ?? defaults?.model;
  const queue = step.queue ?? defaults?.queue;
  const limit = step.timeoutMs ?? defaults?.timeoutMs;
  return (
    <li className="definition-step">
      <span className="faint num">{number}</span>
      <div className="stack">
        <div className="row wrap">
          <strong translate="no" className="mono">
            {step.id}
          </strong>
          <Gate gate={gate} />
          {step.condition && (
            <span className="tag">
              <Trans>conditional</Trans>
            </span>
          )}
        </div>
        <div className="row wrap small soft">
          {step.dependsOn.length > 0 ? (
            <span>
              <Trans>
                after{" "}
                <span translate="no" className="mono">
                  {step.dependsOn.join(", ")}
                </span>
              </Trans>
            </span>
          ) : (
            <span>
              <Trans>starts at once</Trans>
            </span>
          )}
          <span className="faint">·</span>
          {step.function ? (
            <span>
              <Trans>
                calls{" "}
                <span translate="no" className="mono">
                  {step.function}
                </span>
              </Trans>
            </span>
          ) : (
            <span>{model ?? t`default model`}</span>
          )}
          {queue && (
            <>
              <span className="faint">·</span>
              <span>
                <Trans>queue {queue}</Trans>
              </span>
            </>
          )}
          {limit !== undefined && (
            <>
              <span className="faint">·</span>
              <span>
                <Trans>at most {duration(limit)}</Trans>
              </span>
            </>
          )}
        </div>
        {step.condition && (
          <div className="small">
            <span className="faint">
              <Trans>runs if</Trans>{" "}
            </span>
            <code translate="no" className="text">
              {step.condition}
            </code>
          </div>
        )}
        <details>
          <summary>{step.function ? t`Args` : t`Prompt`}</summary>
          {step.systemPrompt && (
            <>
              <h3>
                <Trans>System</Trans>
              </h3>
              <div className="text definition-prompt">{step.systemPrompt}</div>
            </>
          )}
          {step.messages?.map((message, index) => (
            <div key={index}>
              <h3>{message.role}</h3>
              {partsOf(message.content).map(({ type, text, file }, part) => (
                <div key={part} className="text definition-prompt">
                  {file ? `${type}: ${file}` : text}
                </div>
              ))}
            </div>
          ))}
          {(step.systemPrompt || step.messages?.length) && (
            <h3>
              <Trans>Prompt</Trans>
            </h3>
          )}
          <div className="text definition-prompt">
            {step.function ? JSON.stringify(step.args ?? {}, null, 2) : step.prompt}
          </div>
        </details>
      </div>
    </li>
  );
});

export function Gate({ gate }: { gate: string }) {
  if (gate === "always") {
    return (
      <Mark tone="warn" icon="hand">
        <Trans>always reviewed</Trans>
      </Mark>
    );
  }
  if (gate === "threshold") {
    return (
      <Mark tone="mute" icon="hand">
        <Trans>reviewed below the threshold</Trans>
      </Mark>
    );
  }
  return null;
}
