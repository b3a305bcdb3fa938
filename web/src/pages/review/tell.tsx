/** What is said of decisions: one message that counts those that wait, and one of what did not work. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { instant } from "../../lib/format";
import { keyOf } from "../../lib/keys";
import { TimeLeft } from "../../ui/time";
import { toast } from "../../ui/toast";
import { type Choice, type Outcome, UNDO_MS, undoable, type Waiting } from "./decisions";

/** A decision was made: it can be taken back until it is sent, and so can those before it that wait. */
export function tellMade(made: Waiting, takeBack: () => void) {
  const all = undoable();
  const isOnly = all.length <= 1;
  const { items, choice } = made;
  const what =
    items.length === 1
      ? (items[0]?.stepId ?? t`the output`)
      : plural(items.length, { one: "# output", other: "# outputs" });
  toast(
    isOnly ? (
      <>
        {saidOf(kindOf(choice), what)}{" "}
        <Trans>
          It is sent in <TimeLeft until={made.sendsAt} />.
        </Trans>
      </>
    ) : (
      <Trans>
        {counted(all)}. The last is sent in <TimeLeft until={made.sendsAt} />.
      </Trans>
    ),
    {
      name: DECISIONS,
      ms: UNDO_MS,
      action: {
        label: (
          <>
            {isOnly ? t`Undo` : t`Undo last`} <kbd translate="no">{keyOf("review.undo", "z")}</kbd>
          </>
        ),
        run: takeBack,
      },
    },
  );
}

export function tellTaken(taken: Waiting) {
  const many = taken.items.length;
  const left = undoable();
  const rest = left.length > 0 ? ` ${t`${counted(left)} before it.`}` : "";
  toast(
    plural(many, {
      one: "Taken back: nothing was sent.",
      other: "Taken back: none of the # was sent.",
    }) + rest,
    { name: DECISIONS },
  );
}

/** What became of a decision, where it is not what was meant. */
export function tellOutcomes(
  outcomes: Outcome[],
  made: Waiting,
  nameOf: (id: string | undefined) => string,
  open: (taskId: string) => void,
) {
  const failed = outcomes.filter((each) => each.error);
  const late = failed.filter(({ error }) => error?.code === "ALREADY_DECIDED");
  const refused = failed.filter((each) => !late.includes(each));
  const [first] = late;
  if (first) {
    const { decidedBy, decidedAt } = (first.error?.details ?? {}) as {
      decidedBy?: string;
      decidedAt?: string;
    };
    const by = nameOf(decidedBy);
    const who = decidedAt ? t`${by} at ${instant(decidedAt)}` : by;
    const text =
      late.length === 1
        ? t`${nameOfItem(first)} was decided already, by ${who}. Your decision was not needed.`
        : t`${late.length} were decided already by others. Your decisions on them were not needed.`;
    const written = late.find(
      ({ choice }) => choice.kind === "reject" || choice.modifiedOutput !== undefined,
    );
    const action = written && { label: t`See yours`, run: () => open(written.item.taskId) };
    toast(text, { ms: 10_000, name: "late", action });
  }
  const [one] = refused;
  if (one) {
    const text =
      refused.length === 1
        ? t`${nameOfItem(one)} was not decided: ${one.error?.message ?? ""}`
        : t`${refused.length} were not decided, and are marked in the list: ${one.error?.message ?? ""}`;
    const action = { label: t`Open it`, run: () => open(one.item.taskId) };
    toast(text, { tone: "bad", name: "refused", action });
  }
  if (made.items.length > 1 && undoable().length === 0) {
    const done = outcomes.length - failed.length;
    const all = plural(made.items.length, {
      one: `${done} of # output approved.`,
      other: `${done} of # outputs approved.`,
    });
    toast(all, { name: DECISIONS });
  }
}

const DECISIONS = "decisions";
const saidOf = (kind: "approve" | "edit" | "reject", what: string) =>
  ({
    approve: t`Approved ${what}.`,
    edit: t`Approved with the edit: ${what}.`,
    reject: t`Rejected ${what}.`,
  })[kind];

const nameOfItem = ({ item }: Outcome) => item.stepId ?? t`The output`;

const kindOf = (choice: Choice) =>
  choice.kind === "approve" && choice.modifiedOutput !== undefined ? "edit" : choice.kind;

/** As in `4 approved, 1 rejected`. */
function counted(all: Waiting[]): string {
  const many = { approve: 0, edit: 0, reject: 0 };
  for (const { items, choice } of all) many[kindOf(choice)] += items.length;
  const words = {
    approve: t`${many.approve} approved`,
    edit: t`${many.edit} approved with an edit`,
    reject: t`${many.reject} rejected`,
  };
  const parts = (["approve", "edit", "reject"] as const).filter((kind) => many[kind] > 0);
  return parts.map((kind) => words[kind]).join(", ");
}
