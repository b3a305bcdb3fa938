/** The output as it came, and what differs from it. */
import { t } from "@lingui/core/macro";
import { lazy, useEffect, useRef } from "react";
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { formatted } from "../../lib/json";
import { Reader } from "../../ui/read/reader";

const Diff = lazy(() => import("../../ui/diff").then(({ Diff }) => ({ default: Diff })));

/** `onEnd` is called once its end was in view. */
export function Output({ text, onEnd }: { text: string; onEnd: () => void }) {
  return <Reader label={t`Output`} text={text} end={<End onSeen={onEnd} />} />;
}

function End({ onSeen }: { onSeen: () => void }) {
  const mark = useRef<HTMLSpanElement>(null);
  const call = useRef(onSeen);
  call.current = onSeen;
  useEffect(() => {
    if (!mark.current) return;
    const observer = new IntersectionObserver((found) => {
      if (found.some(({ isIntersecting }) => isIntersecting)) call.current();
    });
    observer.observe(mark.current);
    return () => observer.disconnect();
  }, []);
  return <span ref={mark} className="review-end" />;
}

/** The output of the task that this one tries again. */
export function useEarlier(item: Approval): string | undefined {
  const retryOf = item.task?.retryOf;
  const earlier = useApi(
    "/api/hitl/{taskId}",
    { path: { taskId: retryOf ?? "" } },
    { enabled: retryOf !== undefined },
  );
  return earlier.data?.output;
}

export function Compared({ item, edit, earlier }: { item: Approval; edit?: string; earlier?: string }) {
  const output = item.output ?? "";
  const after = item.decision?.modifiedOutput ?? edit;
  if (after !== undefined)
    return (
      <Diff
        className="review-editor"
        before={read(output)}
        after={read(after)}
        names={[t`Output`, t`Edited output`]}
      />
    );
  return (
    <Diff
      className="review-editor"
      before={read(earlier ?? "")}
      after={read(output)}
      names={[t`Rejected output`, t`Output`]}
    />
  );
}

/** JSON is compared line by line. */
const read = (text: string) => formatted(text) ?? text;
