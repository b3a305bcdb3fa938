/** One budget: how it stands, what it is for, and its changes. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { api, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { instant, money, percent } from "../../lib/format";
import { Button, Loaded, PageFrame, Panel } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";
import { EditBudget } from "./edit";
import { Match, PERIODS, RULES, RunsOut, SpentBar, useRate, useSpending } from "./parts";
import { type Budget, leftOf } from "./rate";
import "../../ui/plain.css";

export default function BudgetPage() {
  const { id = "" } = useRoute();
  useSpending();
  const read = useApi("/api/budgets/{id}", { path: { id } });
  const of = read.data;
  return (
    <PageFrame
      title={of ? `${money(of.limit)} ${PERIODS[of.period] ?? of.period}` : t`Budget`}
      actions={of && <Actions of={of} />}
    >
      <Loaded query={read} lines={6}>
        {(budget) => <Shown of={budget} />}
      </Loaded>
    </PageFrame>
  );
}

function Shown({ of }: { of: Budget }) {
  const { rate, isMean } = useRate(of);
  return (
    <>
      <Panel title={t`As it stands`}>
        <div className="pad stack">
          <SpentBar of={of} marks />
          <p className="budgets-legend small soft">
            <span>
              <span className="budgets-bar">
                <i data-tone="good" style={{ width: "100%" }} />
              </span>
              <Trans>spent</Trans>
            </span>
            <span>
              <span className="budgets-bar">
                <i data-tone="reserved" style={{ width: "100%" }} />
              </span>
              <Trans>reserved for what runs</Trans>
            </span>
            {of.alertAt.length > 0 && (
              <span>
                <Trans>the lines: an alert is sent at {of.alertAt.map((at) => percent(at)).join(", ")}</Trans>
              </span>
            )}
          </p>
          <dl className="figures budgets-figures">
            <div>
              <dt>
                <Trans>Spent</Trans>
              </dt>
              <dd>{money(of.spent)}</dd>
              <dd className="faint small">
                <Trans>of {money(of.limit)}</Trans>
              </dd>
            </div>
            <div>
              <dt>
                <Trans>Reserved</Trans>
              </dt>
              <dd>{money(of.reserved ?? 0)}</dd>
              <dd className="faint small">
                <Trans>the most that running tasks can cost</Trans>
              </dd>
            </div>
            <div>
              <dt>
                <Trans>Left</Trans>
              </dt>
              <dd>{money(leftOf(of))}</dd>
            </div>
            <div>
              <dt>
                <Trans>Runs out</Trans>
              </dt>
              <dd>
                <RunsOut of={of} />
              </dd>
              <dd className="faint small">
                <Trans>
                  at {money(rate)} a day, {isMean ? t`the mean of the period` : t`as in the last 24 hours`}
                </Trans>
              </dd>
            </div>
          </dl>
        </div>
      </Panel>
      <Panel title={t`What it is`}>
        <dl className="facts pad">
          <dt>
            <Trans>For</Trans>
          </dt>
          <dd>
            <Match of={of} />
          </dd>
          <dt>
            <Trans>Period</Trans>
          </dt>
          <dd>
            {of.periodStart && of.periodEnd ? (
              <Trans>
                {instant(of.periodStart)} to {instant(of.periodEnd)}, midnights of {of.timezone}
              </Trans>
            ) : (
              t`in all: it never begins anew`
            )}
          </dd>
          <dt>
            <Trans>What does not fit</Trans>
          </dt>
          <dd>{RULES[of.onExceed] ?? of.onExceed}</dd>
          <dt>
            <Trans>Created</Trans>
          </dt>
          <dd>
            <Trans>
              <Ago at={of.createdAt} />: earlier costs do not count
            </Trans>
          </dd>
        </dl>
        {of.onExceed === "wait" && (
          <p className="pad small soft">
            <Trans>
              Work that waits for it is among <Link href="/executions/stuck">what is stuck</Link>.
            </Trans>
          </p>
        )}
      </Panel>
    </>
  );
}

function Actions({ of }: { of: Budget }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [asks, setAsks] = useState<"edit" | "delete">();
  return (
    <>
      <Button needs="budgets: manage" onClick={() => setAsks("edit")}>
        <Trans>Edit</Trans>
      </Button>
      <Button needs="budgets: manage" kind="danger" onClick={() => setAsks("delete")}>
        <Trans>Delete</Trans>
      </Button>
      {asks === "edit" && <EditBudget of={of} onClose={() => setAsks(undefined)} />}
      {asks === "delete" && (
        <Confirm
          title={t`Delete this budget`}
          verb={t`Delete`}
          onClose={() => setAsks(undefined)}
          run={async () => {
            await unwrap(api.DELETE("/api/budgets/{id}", { params: { path: { id: of.id } } }));
            await client.invalidateQueries({ queryKey: ["/api/budgets"] });
            navigate("/budgets");
            toast(t`The budget was deleted.`);
          }}
        >
          <p>
            <Trans>
              Nothing bounds these tasks any more, unless another budget does. Tasks that wait for it go on.
            </Trans>
          </p>
        </Confirm>
      )}
    </>
  );
}
