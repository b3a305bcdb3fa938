/** When each step ran: a bar from its start to its end, on one scale. */
import { t } from "@lingui/core/macro";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { useNow } from "../../lib/clock";
import { duration } from "../../lib/format";
import { Icon } from "../../ui/icons";
import { lookOf } from "../../ui/status";
import { fromTo } from "../../ui/time";
import { barsOf, type Execution, type StepView } from "./steps";

const ROW = 30;

export function Timeline({
  execution,
  steps,
  selected,
  onSelect,
}: {
  execution: Execution;
  steps: StepView[];
  selected: string | undefined;
  onSelect: (id: string) => void;
}) {
  const now = useNow();
  const start = execution.startedAt ? Date.parse(execution.startedAt) : now;
  const end = Math.max(execution.completedAt ? Date.parse(execution.completedAt) : now, start + 1);
  const bars = barsOf(steps, start, end);
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: steps.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const place = steps.findIndex(({ id }) => id === selected);
  useEffect(() => {
    if (place >= 0) virtual.scrollToIndex(place, { align: "auto" });
  }, [place, virtual]);
  return (
    <div className="executions-timeline" ref={scroller}>
      <div className="executions-scale" aria-hidden="true">
        <span />
        <div>
          {[0, 0.25, 0.5, 0.75, 1].map((share) => (
            <span key={share} style={{ left: `${share * 100}%` }}>
              {duration((end - start) * share)}
            </span>
          ))}
        </div>
      </div>
      <ul style={{ height: virtual.getTotalSize() }} aria-label={t`Timeline of ${steps.length} steps`}>
        {virtual.getVirtualItems().map((item) => {
          const step = steps[item.index] as StepView;
          const bar = bars[item.index];
          const look = lookOf(step.state);
          return (
            <li key={step.id} style={{ transform: `translateY(${item.start}px)` }}>
              <button
                type="button"
                className="executions-bar-row"
                aria-pressed={step.id === selected}
                data-step={step.id}
                data-state={step.state}
                onClick={() => onSelect(step.id)}
              >
                <span className="executions-bar-name">
                  <span className="status" data-tone={look.tone}>
                    <Icon name={look.icon} spin={look.spin} size={14} />
                  </span>
                  <span className="cut">{step.id}</span>
                </span>
                <span className="executions-bar-track">
                  {bar?.from === undefined ? (
                    <span className="executions-bar-note faint">{look.word}</span>
                  ) : (
                    <Drawn step={step} from={bar.from} to={bar.to ?? 1} now={now} />
                  )}
                </span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Drawn({ step, from, to, now }: { step: StepView; from: number; to: number; now: number }) {
  const look = lookOf(step.state);
  const { startedAt, completedAt } = step.result ?? {};
  const begun = startedAt ? Date.parse(startedAt) : now;
  const lasted = (completedAt ? Date.parse(completedAt) : now) - begun;
  const tip = `${look.word}\n${fromTo(begun, completedAt)}`;
  // The words stand behind the bar, before it, or, where neither has room, on its end.
  const place = to <= 0.75 ? "behind" : from > 0.3 ? "before" : "on";
  return (
    <>
      <span
        className="executions-bar"
        data-tone={look.tone}
        data-tip={tip}
        style={{ left: `${from * 100}%`, width: `${Math.max(0, to - from) * 100}%` }}
      />
      <span
        className="executions-bar-note"
        data-place={place}
        style={
          place === "behind"
            ? { left: `${to * 100}%` }
            : { right: place === "before" ? `${(1 - from) * 100}%` : `calc(${(1 - to) * 100}% + 4px)` }
        }
      >
        {look.word} · {duration(Math.max(0, lasted))}
      </span>
    </>
  );
}
