/** The output as it came, and what differs from it. */
import { lazy, useState } from "react";
import type { Approval } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count } from "../../lib/format";
import { formatted } from "../../lib/json";
import { Button } from "../../ui/basics";
import { LongText } from "../../ui/long-text";
import { useTask } from "./around";

const Diff = lazy(() => import("./editor").then((it) => ({ default: it.Diff })));

/** The output as it is; JSON with line breaks, unless the reviewer wants it raw. */
export function Output({ text }: { text: string }) {
  const [raw, setRaw] = useState(false);
  const pretty = formatted(text);
  return (
    <>
      <LongText label="Output" text={pretty !== undefined && !raw ? pretty : text} />
      <p className="review-under small faint">
        {count(text.length)} characters
        {pretty !== undefined && (
          <Button size="small" kind="quiet" onClick={() => setRaw(!raw)}>
            {raw ? "Formatted" : "As it is"}
          </Button>
        )}
      </p>
    </>
  );
}

/** The output of the task that this one tries again. */
export function useEarlier(item: Approval): string | undefined {
  const retryOf = useTask(item)?.retryOf;
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
    return <Diff before={read(output)} after={read(after)} names={["Output", "Edited output"]} />;
  return <Diff before={read(earlier ?? "")} after={read(output)} names={["Rejected output", "Output"]} />;
}

/** JSON is compared line by line. */
const read = (text: string) => formatted(text) ?? text;
