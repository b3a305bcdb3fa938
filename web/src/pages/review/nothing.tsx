/** The empty list: what was done, and what still waits. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { usePage } from "../../api/hooks";
import { Button, Empty } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { useDoneToday } from "./done";

export function Done() {
  return (
    <Empty
      title={t`Nothing waits for you`}
      command={`callboard tasks submit "Answer this customer: where is my parcel?" --require-approval`}
      needs="tasks: create"
    >
      <Trans>What a gate holds appears here as it happens.</Trans>
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
  const doneText = plural(done, { one: "All done: # output today", other: "All done: # outputs today" });
  if (!isFiltered)
    return (
      <Empty title={done > 0 ? doneText : t`Nothing waits`} action={<RunExample of="review" />}>
        <Trans>Every output that waited was decided.</Trans>
      </Empty>
    );
  if (isMine)
    return (
      <Empty
        title={done > 0 ? doneText : t`Nothing waits for you`}
        action={
          waiting > 0 && (
            <Button onClick={clear}>
              <Trans>Show what waits for others</Trans>
            </Button>
          )
        }
      >
        {waiting > 0
          ? plural(waiting, {
              one: "# output waits for others. You may decide it too.",
              other: "# outputs wait for others. You may decide them too.",
            })
          : t`Nothing waits for others either.`}
      </Empty>
    );
  return (
    <Empty
      title={t`Nothing matches`}
      action={
        <Button onClick={clear}>
          <Trans>Clear the filters</Trans>
        </Button>
      }
    >
      {waiting > 0
        ? plural(waiting, {
            one: "# output waits without the filters.",
            other: "# outputs wait without the filters.",
          })
        : t`Nothing else waits.`}
    </Empty>
  );
}
