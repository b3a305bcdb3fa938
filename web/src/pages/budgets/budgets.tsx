/** /budgets: what tasks may cost, what is spent of it, and when it runs out. */
import { useState } from "react";
import { Link } from "wouter";
import { useRows } from "../../api/hooks";
import { money, plural } from "../../lib/format";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Loading, PageFrame } from "../../ui/basics";
import { type Column, Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { NewBudget } from "./edit";
import { Match, PERIODS, RunsOut, SpentBar, useSpending } from "./parts";
import { type Budget, leftOf } from "./rate";

export default function Budgets() {
  useSpending();
  const may = useMay();
  const [makes, setMakes] = useState(false);
  const { rows, total, more, data, error, refetch } = useRows("/api/budgets");
  const columns: Column<Budget>[] = [
    {
      id: "limit",
      header: "Budget",
      width: "minmax(150px, 1fr)",
      cell: (it) => (
        <Link href={`/budgets/${it.id}`} data-tip={it.id}>
          {money(it.limit)} {PERIODS[it.period] ?? it.period}
        </Link>
      ),
    },
    { id: "match", header: "For", width: "minmax(170px, 2fr)", cell: (it) => <Match of={it} /> },
    {
      id: "bar",
      header: "Spent and reserved",
      width: "minmax(140px, 1.4fr)",
      cell: (it) => <SpentBar of={it} />,
    },
    { id: "spent", header: "Spent", width: "92px", number: true, cell: (it) => money(it.spent) },
    { id: "left", header: "Left", width: "92px", number: true, cell: (it) => money(leftOf(it)) },
    {
      id: "out",
      header: "Runs out",
      width: "164px",
      named: true,
      cell: (it) => <RunsOut of={it} />,
    },
    {
      id: "end",
      header: "Next period",
      width: "100px",
      number: true,
      phone: false,
      cell: (it) => <Ago at={it.periodEnd} />,
    },
  ];
  return (
    <PageFrame
      title="Budgets"
      fill
      actions={
        <>
          {data && <span className="soft">{plural(total, "budget")}</span>}
          <Link className="button" href="/insights?tab=cost">
            What was spent
          </Link>
          <Button needs="budgets: manage" kind="primary" onClick={() => setMakes(true)}>
            New budget
          </Button>
        </>
      }
    >
      {error && !data ? (
        <Failed error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading />
      ) : total === 0 ? (
        <Empty
          title="No budget bounds what tasks may cost"
          command="callboard budgets create 50 --period month --tag team:search --on-exceed reject"
          needs="budgets: manage"
          action={
            <div className="row wrap">
              {may("budgets: manage") && <Button onClick={() => setMakes(true)}>New budget</Button>}
              <Link className="button" data-kind="quiet" href="/docs/reference/control#budgets">
                How budgets work
              </Link>
            </div>
          }
        >
          A budget is an amount for a day, a week, a month or in all. Tasks that do not fit wait, are refused,
          or only announced.
        </Empty>
      ) : (
        <Table
          label="Budgets"
          rows={rows}
          total={total}
          more={more}
          keyOf={(it) => it.id}
          href={(it) => `/budgets/${it.id}`}
          columns={columns}
        />
      )}
      {makes && <NewBudget onClose={() => setMakes(false)} />}
    </PageFrame>
  );
}
