/** The outputs or the prompts of two tasks, and what they differ in. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense, useState } from "react";
import type { DataOf } from "../../api/client";
import { useApi } from "../../api/hooks";
import { count } from "../../lib/format";
import { formatted } from "../../lib/json";
import { visible } from "../../lib/visible";
import { Loading } from "../../ui/basics";
import { LongText } from "../../ui/long-text";
import { Cut } from "./drawer";
import "../../ui/filters.css";
import "./texts.css";

const Diff = lazy(() => import("../../ui/diff").then(({ Diff }) => ({ default: Diff })));

/** So much of each is compared; a task's page has all of it. */
const COMPARED = 200_000;

/** One of the two. Without its own `output` it has that of the task. */
export type Source = { name: string; taskId?: string; output?: string; isCut?: boolean };
type Kind = "output" | "prompt";

export function Texts({ title, one, other }: { title: string; one: Source; other: Source }) {
  const [kind, choose] = useState<Kind>("output");
  const before = useText(other, kind);
  const after = useText(one, kind);
  const kinds: [Kind, string][] = [
    ["output", t`Output`],
    ["prompt", t`Prompt`],
  ];
  return (
    <section className="executions-texts" aria-label={t`Texts of ${title}`}>
      <div className="row wrap">
        <h2>{title}</h2>
        <fieldset className="filter-states">
          <legend className="hide">
            <Trans>Text</Trans>
          </legend>
          {kinds.map(([each, word]) => (
            <button
              key={each}
              type="button"
              className="filter-state"
              aria-pressed={each === kind}
              onClick={() => choose(each)}
            >
              {word}
            </button>
          ))}
        </fieldset>
      </div>
      {before.isPending || after.isPending ? (
        <Loading lines={3} />
      ) : (
        <Difference
          before={{ ...other, text: before.text }}
          after={{ ...one, text: after.text }}
          isOutput={kind === "output"}
        />
      )}
    </section>
  );
}

function useText({ taskId, output }: Source, kind: Kind): { text: string | undefined; isPending: boolean } {
  const needed = taskId !== undefined && (kind === "prompt" || output === undefined);
  const { data, isLoading } = useApi("/api/tasks/{id}", { path: { id: taskId ?? "" } }, { enabled: needed });
  const text = kind === "output" ? (output ?? data?.output) : askedOf(data);
  return { text: text === undefined ? undefined : (formatted(text) ?? text), isPending: isLoading };
}

/** What a model is asked, or a function is called with. */
const askedOf = (task: DataOf<"/api/tasks/{id}"> | undefined) =>
  task?.args ? JSON.stringify(task.args) : task?.prompt;

type Shown = Source & { text: string | undefined };

function Difference({ before, after, isOutput }: { before: Shown; after: Shown; isOutput: boolean }) {
  const sides = [before, after];
  const [first] = sides.filter(({ text }) => text !== undefined);
  const isOne = before.text === undefined || after.text === undefined;
  if (!first)
    return (
      <p className="soft">
        <Trans>Neither has one.</Trans>
      </p>
    );
  const isLong = sides.some(({ text }) => (text?.length ?? 0) > COMPARED);
  return (
    <>
      {isOne || before.text === after.text ? (
        <>
          <p className="soft">{isOne ? t`Only one has it: ${first.name}` : t`Both are the same.`}</p>
          <LongText text={first.text ?? ""} label={first.name} />
        </>
      ) : (
        <>
          <div className="executions-texts-names small soft" aria-hidden="true">
            <span>− {before.name}</span>
            <span>+ {after.name}</span>
          </div>
          <Suspense fallback={<Loading lines={3} />}>
            <Diff
              className="executions-diff"
              before={visible(before.text?.slice(0, COMPARED) ?? "")}
              after={visible(after.text?.slice(0, COMPARED) ?? "")}
              names={[before.name, after.name]}
            />
          </Suspense>
          {isLong && (
            <p className="small soft">
              <Trans>The first {count(COMPARED)} characters of each are compared.</Trans>
            </p>
          )}
        </>
      )}
      {isOutput && sides.map((side) => side.isCut && <Cut key={side.name} taskId={side.taskId} />)}
    </>
  );
}
