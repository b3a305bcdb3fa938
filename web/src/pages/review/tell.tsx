/** What is said of decisions: one message that counts those that wait, and one of what did not work. */
import { instant, plural } from "../../lib/format";
import { keyOf } from "../../lib/keys";
import { TimeLeft } from "../../ui/time";
import { toast } from "../../ui/toast";
import { type Choice, type Outcome, UNDO_MS, undoable, type Waiting } from "./decisions";

/** A decision was made: it can be taken back until it is sent, and so can those before it that wait. */
export function tellMade(made: Waiting, takeBack: () => void) {
  const all = undoable();
  const isOnly = all.length <= 1;
  const { items, choice } = made;
  const what = items.length === 1 ? (items[0]?.stepId ?? "the output") : plural(items.length, "output");
  toast(
    <>
      {isOnly ? `${VERBS[kindOf(choice)]} ${what}. It` : `${counted(all)}. The last`} is sent in{" "}
      <TimeLeft until={made.sendsAt} />.
    </>,
    {
      name: DECISIONS,
      ms: UNDO_MS,
      action: {
        label: (
          <>
            {isOnly ? "Undo" : "Undo last"} <kbd translate="no">{keyOf("review.undo", "z")}</kbd>
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
  const rest = left.length > 0 ? ` ${counted(left)} before it.` : "";
  toast(
    many === 1 ? `Taken back: nothing was sent.${rest}` : `Taken back: none of the ${many} was sent.${rest}`,
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
    const when = decidedAt ? ` at ${instant(decidedAt)}` : "";
    const text =
      late.length === 1
        ? `${nameOfItem(first)} was decided already, by ${nameOf(decidedBy)}${when}. Your decision was not needed.`
        : `${late.length} were decided already by others. Your decisions on them were not needed.`;
    const written = late.find(
      ({ choice }) => choice.kind === "reject" || choice.modifiedOutput !== undefined,
    );
    const action = written && { label: "See yours", run: () => open(written.item.taskId) };
    toast(text, { ms: 10_000, name: "late", action });
  }
  const [one] = refused;
  if (one) {
    const text =
      refused.length === 1
        ? `${nameOfItem(one)} was not decided: ${one.error?.message}`
        : `${refused.length} were not decided, and are marked in the list: ${one.error?.message}`;
    const action = { label: "Open it", run: () => open(one.item.taskId) };
    toast(text, { tone: "bad", name: "refused", action });
  }
  if (made.items.length > 1 && undoable().length === 0) {
    const done = outcomes.length - failed.length;
    toast(`${done} of ${plural(made.items.length, "output")} approved.`, { name: DECISIONS });
  }
}

const DECISIONS = "decisions";
const VERBS = { approve: "Approved", edit: "Approved with the edit:", reject: "Rejected" };

const nameOfItem = ({ item }: Outcome) => item.stepId ?? "The output";

const kindOf = (choice: Choice) =>
  choice.kind === "approve" && choice.modifiedOutput !== undefined ? "edit" : choice.kind;

/** As in `4 approved, 1 rejected`. */
function counted(all: Waiting[]): string {
  const many = { approve: 0, edit: 0, reject: 0 };
  for (const { items, choice } of all) many[kindOf(choice)] += items.length;
  const words = { approve: "approved", edit: "approved with an edit", reject: "rejected" };
  const parts = (["approve", "edit", "reject"] as const).filter((kind) => many[kind] > 0);
  return parts.map((kind) => `${many[kind]} ${words[kind]}`).join(", ");
}
