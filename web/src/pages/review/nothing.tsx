/** The empty list: what was done, and what still waits. */
import { usePage } from "../../api/hooks";
import { plural } from "../../lib/format";
import { Button, Empty } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { useDoneToday } from "./done";

export function Done() {
  return (
    <Empty
      title="Nothing waits for you"
      command={`callboard tasks submit "Answer this customer: where is my parcel?" --require-approval`}
      needs="tasks: create"
    >
      What a gate holds appears here as it happens.
    </Empty>
  );
}

type Props = {
  /** Only "Assigned to me" narrows the list. */
  isMine: boolean;
  isFiltered: boolean;
  clear: () => void;
};

export function Nothing({ isMine, isFiltered, clear }: Props) {
  const done = useDoneToday();
  const all = usePage("/api/hitl/pending", { query: { limit: 1, includeExpired: true } });
  const waiting = all.data?.total ?? 0;
  const doneText = `All done: ${plural(done, "output")} today`;
  if (!isFiltered)
    return (
      <Empty title={done > 0 ? doneText : "Nothing waits"} action={<RunExample of="review" />}>
        Every output that waited was decided.
      </Empty>
    );
  if (isMine)
    return (
      <Empty
        title={done > 0 ? doneText : "Nothing waits for you"}
        action={waiting > 0 && <Button onClick={clear}>Show what waits for others</Button>}
      >
        {waiting > 0
          ? `${plural(waiting, "output waits", "outputs wait")} for others. You may decide ${waiting === 1 ? "it" : "them"} too.`
          : "Nothing waits for others either."}
      </Empty>
    );
  return (
    <Empty title="Nothing matches" action={<Button onClick={clear}>Clear the filters</Button>}>
      {waiting > 0
        ? `${plural(waiting, "output waits", "outputs wait")} without the filters.`
        : "Nothing else waits."}
    </Empty>
  );
}
