/** One budget: how it stands, what it is for, and its changes. */
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
      title={of ? `${money(of.limit)} ${PERIODS[of.period] ?? of.period}` : "Budget"}
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
      <Panel title="As it stands">
        <div className="pad stack">
          <SpentBar of={of} marks />
          <p className="budgets-legend small soft">
            <span>
              <span className="budgets-bar">
                <i data-tone="good" style={{ width: "100%" }} />
              </span>
              spent
            </span>
            <span>
              <span className="budgets-bar">
                <i data-tone="reserved" style={{ width: "100%" }} />
              </span>
              reserved for what runs
            </span>
            {of.alertAt.length > 0 && (
              <span>the lines: an alert is sent at {of.alertAt.map((at) => percent(at)).join(", ")}</span>
            )}
          </p>
          <dl className="figures budgets-figures">
            <div>
              <dt>Spent</dt>
              <dd>{money(of.spent)}</dd>
              <dd className="faint small">of {money(of.limit)}</dd>
            </div>
            <div>
              <dt>Reserved</dt>
              <dd>{money(of.reserved ?? 0)}</dd>
              <dd className="faint small">the most that running tasks can cost</dd>
            </div>
            <div>
              <dt>Left</dt>
              <dd>{money(leftOf(of))}</dd>
            </div>
            <div>
              <dt>Runs out</dt>
              <dd>
                <RunsOut of={of} />
              </dd>
              <dd className="faint small">
                at {money(rate)} a day, {isMean ? "the mean of the period" : "as in the last 24 hours"}
              </dd>
            </div>
          </dl>
        </div>
      </Panel>
      <Panel title="What it is">
        <dl className="facts pad">
          <dt>For</dt>
          <dd>
            <Match of={of} />
          </dd>
          <dt>Period</dt>
          <dd>
            {of.periodStart && of.periodEnd ? (
              <>
                {instant(of.periodStart)} to {instant(of.periodEnd)}, midnights of {of.timezone}
              </>
            ) : (
              "in all: it never begins anew"
            )}
          </dd>
          <dt>What does not fit</dt>
          <dd>{RULES[of.onExceed] ?? of.onExceed}</dd>
          <dt>Created</dt>
          <dd>
            <Ago at={of.createdAt} />: earlier costs do not count
          </dd>
        </dl>
        {of.onExceed === "wait" && (
          <p className="pad small soft">
            What waits for it is among <Link href="/executions/stuck">what is stuck</Link>.
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
        Edit
      </Button>
      <Button needs="budgets: manage" kind="danger" onClick={() => setAsks("delete")}>
        Delete
      </Button>
      {asks === "edit" && <EditBudget of={of} onClose={() => setAsks(undefined)} />}
      {asks === "delete" && (
        <Confirm
          title="Delete this budget"
          verb="Delete"
          onClose={() => setAsks(undefined)}
          run={async () => {
            await unwrap(api.DELETE("/api/budgets/{id}", { params: { path: { id: of.id } } }));
            await client.invalidateQueries({ queryKey: ["/api/budgets"] });
            navigate("/budgets");
            toast("The budget was deleted.");
          }}
        >
          <p>
            Nothing bounds these tasks any more, unless another budget does. Tasks that wait for it go on.
          </p>
        </Confirm>
      )}
    </>
  );
}
