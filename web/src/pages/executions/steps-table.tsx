/** The steps as rows. */
import { t } from "@lingui/core/macro";
import { Link } from "wouter";
import { count, money } from "../../lib/format";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import { Ago, Lasted } from "../../ui/time";
import { itemsLine, type StepView, waitWord } from "./steps";

export function StepsTable({
  id,
  steps,
  selected,
}: {
  id: string;
  steps: StepView[];
  selected: string | undefined;
}) {
  const hrefOf = (step: StepView) => `/executions/${id}?view=table&step=${step.id}`;
  return (
    <Table
      label={t`Steps`}
      rows={steps}
      total={steps.length}
      keyOf={(step) => step.id}
      href={hrefOf}
      current={selected}
      columns={[
        {
          id: "id",
          header: t`Step`,
          width: "minmax(140px, 2fr)",
          cell: (step) => <Link href={hrefOf(step)}>{step.id}</Link>,
        },
        {
          id: "state",
          header: t`Status`,
          width: "150px",
          cell: (step) => (
            <>
              <Status state={step.state} word={waitWord(step)} />{" "}
              {step.items && <span className="soft">{itemsLine(step.items)}</span>}
            </>
          ),
        },
        {
          id: "attempt",
          header: t`Attempt`,
          width: "76px",
          number: true,
          phone: false,
          cell: (step) => step.result?.attempt ?? "–",
        },
        {
          id: "tokens",
          header: t`Tokens`,
          width: "84px",
          number: true,
          phone: false,
          cell: (step) => (step.result?.usage ? count(step.result.usage.total) : "–"),
        },
        {
          id: "cost",
          header: t`Cost`,
          width: "104px",
          number: true,
          phone: false,
          cell: (step) => money(step.result?.usage?.totalCost),
        },
        {
          id: "lasted",
          header: t`Duration`,
          width: "100px",
          number: true,
          cell: ({ state, result }) => (
            <Lasted
              from={result?.completedAt || state === "running" ? result?.startedAt : undefined}
              to={result?.completedAt}
            />
          ),
        },
        {
          id: "started",
          header: t`Started`,
          width: "96px",
          number: true,
          cell: (step) => <Ago at={step.result?.startedAt} />,
        },
      ]}
    />
  );
}
