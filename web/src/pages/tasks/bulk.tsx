/** Cancelling all that match: the number first, then the act, then what came of it. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { count, plural } from "../../lib/format";
import { Button, Failed, Loading } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { cancelAll, type Matching, matching, type Outcome, type TaskQuery } from "./matching";

export type Target = { filter: TaskQuery; words: string } | { chosen: Matching; words: string };

export function CancelMatching({ target, onClose }: { target: Target; onClose: () => void }) {
  const client = useQueryClient();
  const [found, setFound] = useState<Matching | undefined>("chosen" in target ? target.chosen : undefined);
  const [error, setError] = useState<Error>();
  const [outcome, setOutcome] = useState<Outcome>();
  const [state, setState] = useState<"asks" | "works" | "done">("asks");
  const stopped = useRef(false);
  const once = useRef(target).current;
  useEffect(() => {
    stopped.current = false;
    if ("filter" in once) matching(once.filter).then(setFound, setError);
    return () => {
      stopped.current = true;
    };
  }, [once]);
  const go = async () => {
    if (!found || found.ids.length === 0) return onClose();
    setState("works");
    setOutcome(await cancelAll(found.ids, setOutcome, () => stopped.current));
    setState("done");
    await client.invalidateQueries({ queryKey: ["/api/tasks"] });
  };
  const number = found?.ids.length ?? 0;
  return (
    <Dialog
      title={`Cancel tasks: ${target.words}`}
      onClose={onClose}
      onSubmit={() => void (state === "asks" ? go() : state === "done" && onClose())}
      footer={<Footer state={state} number={number} isReady={found !== undefined} onClose={onClose} />}
    >
      {error && <Failed error={error} what="They could not be counted" />}
      {!error && !found && <Loading lines={2} />}
      {found && state === "asks" && <Told found={found} />}
      {found && outcome && state !== "asks" && <Progress outcome={outcome} of={number} />}
    </Dialog>
  );
}

function Footer({
  state,
  number,
  isReady,
  onClose,
}: {
  state: "asks" | "works" | "done";
  number: number;
  isReady: boolean;
  onClose: () => void;
}) {
  if (state === "works") return <Button onClick={onClose}>Stop here</Button>;
  if (state === "done" || (isReady && number === 0)) return <Button type="submit">Close</Button>;
  return (
    <>
      <Button onClick={onClose}>Keep them</Button>
      <Button type="submit" kind="danger" icon="stop" busy={!isReady}>
        {isReady ? `Cancel ${plural(number, "task")}` : "Counting"}
      </Button>
    </>
  );
}

function Told({ found }: { found: Matching }) {
  if (found.ids.length === 0)
    return <p>Nothing that matches is pending or running: there is nothing to cancel.</p>;
  return (
    <>
      <p>
        <strong>{plural(found.ids.length, "task")}</strong> {found.ids.length === 1 ? "matches" : "match"} and{" "}
        {found.ids.length === 1 ? "has" : "have"} not ended: {count(found.pending)} pending,{" "}
        {count(found.running)} running. These are cancelled, and nothing else; what is created from now on is
        not.
      </p>
      {found.steps > 0 && (
        <p className="notice" data-tone="warn">
          {count(found.steps)} of them {found.steps === 1 ? "is a step" : "are steps"} of executions, which
          fail with them.
        </p>
      )}
    </>
  );
}

function Progress({ outcome, of }: { outcome: Outcome; of: number }) {
  const { done, cancelled, ended, failed } = outcome;
  return (
    <div className="stack" role="status">
      <span className="bar" aria-hidden="true">
        <i style={{ width: `${(done / of) * 100}%` }} />
      </span>
      <p>
        {count(cancelled)} of {plural(of, "task")} cancelled
        {ended > 0 && `, ${count(ended)} ended before`}
        {failed.length > 0 && `, ${count(failed.length)} refused`}.
      </p>
      {failed.slice(0, 5).map(({ id, why }) => (
        <p key={id} className="small">
          <span className="mono">{id}</span>: {why}
        </p>
      ))}
    </div>
  );
}
