/** /budgets: what tasks may cost, what is spent of it, and when it runs out. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useState } from "react";
import { Link } from "wouter";
import { useRows } from "../../api/hooks";
import { money } from "../../lib/format";
import { useMay } from "../../session/session";
import { Button, Empty, PageFrame } from "../../ui/basics";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { NewBudget } from "./edit";
import { Match, PERIODS, RunsOut, SpentBar, useSpending } from "./parts";
import { type Budget, leftOf } from "./rate";

export default function Budgets() {
  useSpending();
  const may = useMay();
  const [makes, setMakes] = useState(false);
  const list = useRows("/api/budgets");
  const columns: Column<Budget>[] = [
    {
      id: "limit",
      header: t`Budget`,
      width: "minmax(150px, 1fr)",
      cell: (it) => (
        <Link href={`/budgets/${it.id}`} data-tip={it.id}>
          {money(it.limit)} {PERIODS[it.period] ?? it.period}
        </Link>
      ),
    },
    { id: "match", header: t`For`, width: "minmax(170px, 2fr)", cell: (it) => <Match of={it} /> },
    {
      id: "bar",
      header: t`Spent and reserved`,
      width: "minmax(140px, 1.4fr)",
      cell: (it) => <SpentBar of={it} />,
    },
    { id: "spent", header: t`Spent`, width: "92px", number: true, cell: (it) => money(it.spent) },
    { id: "left", header: t`Left`, width: "92px", number: true, cell: (it) => money(leftOf(it)) },
    {
      id: "out",
      header: t`Runs out`,
      width: "164px",
      named: true,
      cell: (it) => <RunsOut of={it} />,
    },
    {
      id: "end",
      header: t`Next period`,
      width: "100px",
      number: true,
      phone: false,
      cell: (it) => <Ago at={it.periodEnd} />,
    },
  ];
  return (
    <PageFrame
      title={t`Budgets`}
      fill
      actions={
        <>
          {list.data && (
            <span className="soft">
              <Plural value={list.total} one="# budget" other="# budgets" />
            </span>
          )}
          <Link className="button" href="/insights?tab=cost">
            <Trans>What was spent</Trans>
          </Link>
          <Button needs="budgets: manage" kind="primary" onClick={() => setMakes(true)}>
            <Trans>New budget</Trans>
          </Button>
        </>
      }
    >
      <Listed
        list={list}
        empty={
          <Empty
            title={t`No budget bounds what tasks may cost`}
            command="callboard budgets create 50 --period month --tag team:search --on-exceed reject"
            needs="budgets: manage"
            action={
              <div className="row wrap">
                {may("budgets: manage") && (
                  <Button onClick={() => setMakes(true)}>
                    <Trans>New budget</Trans>
                  </Button>
                )}
                <Link className="button" data-kind="quiet" href="/docs/reference/control#budgets">
                  <Trans>How budgets work</Trans>
                </Link>
              </div>
            }
          >
            <Trans>
              A budget is an amount for a day, a week, a month or in all. Tasks that do not fit wait, are
              refused, or only announced.
            </Trans>
          </Empty>
        }
        label={t`Budgets`}
        keyOf={(it) => it.id}
        href={(it) => `/budgets/${it.id}`}
        columns={columns}
      />
      {makes && <NewBudget onClose={() => setMakes(false)} />}
    </PageFrame>
  );
}
