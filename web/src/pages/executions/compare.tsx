/** Two runs of one plan side by side, step by step. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useApi, usePage } from "../../api/hooks";
import { count, duration, instant, money, tail } from "../../lib/format";
import { Button, Empty, Field, Loaded } from "../../ui/basics";
import { lookOf, Status } from "../../ui/status";
import { compared, type Difference, type Execution, type Plan, type StepView, stepsOf } from "./steps";
import { type Source, Texts } from "./texts";

export function Compare({
  execution,
  plan,
  otherId,
  onOther,
}: {
  execution: Execution;
  plan: Plan | undefined;
  otherId: string;
  onOther: (id: string) => void;
}) {
  const { templateId, planId } = execution;
  const query = templateId ? { templateId, limit: 100 } : { planId, limit: 100 };
  const runs = usePage("/api/plans/executions", { query });
  const others = runs.data?.items.filter(({ id }) => id !== execution.id) ?? [];
  const isKnown = others.some(({ id }) => id === otherId);
  return (
    <div className="stack executions-compare">
      <Field label={t`Compare with`}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={otherId}
            onChange={(event) => onOther(event.target.value)}
          >
            <option value="">
              {templateId ? t`Choose a run of the same template` : t`Choose a run of the same plan`}
            </option>
            {otherId && !isKnown && <option value={otherId}>{otherId}</option>}
            {others.map((it) => (
              <option key={it.id} value={it.id}>
                {`${tail(it.id)} · ${lookOf(it.status).word} · ${it.startedAt ? instant(it.startedAt) : t`not started`}`}
              </option>
            ))}
          </select>
        )}
      </Field>
      {otherId ? (
        <Against execution={execution} plan={plan} otherId={otherId} />
      ) : (
        runs.data &&
        others.length === 0 && (
          <Empty title={t`It is the only run`}>
            <Trans>Run it again to compare the outputs, the times and the cost.</Trans>
          </Empty>
        )
      )}
    </div>
  );
}

function Against({
  execution,
  plan,
  otherId,
}: {
  execution: Execution;
  plan: Plan | undefined;
  otherId: string;
}) {
  const other = useApi("/api/plans/executions/{id}", { path: { id: otherId } });
  const otherPlan = useApi(
    "/api/plans/{id}",
    { path: { id: other.data?.planId ?? "" } },
    { enabled: other.data !== undefined },
  );
  const [open, setOpen] = useState<string>();
  const [onlyDifferent, setOnly] = useState(false);
  return (
    <Loaded query={other}>
      {(data) => {
        const all = compared(stepsOf(plan, execution), stepsOf(otherPlan.data, data));
        const different = all.filter(({ differs }) => differs.length > 0);
        const rows = onlyDifferent ? different : all;
        return (
          <>
            <div className="row wrap">
              <span>
                {different.length === 0
                  ? t`Every step ended the same way with the same output.`
                  : plural(different.length, {
                      one: `# step of ${all.length} differs.`,
                      other: `# steps of ${all.length} differ.`,
                    })}
              </span>
              {different.length > 0 && (
                <label className="check">
                  <input type="checkbox" checked={onlyDifferent} onChange={() => setOnly(!onlyDifferent)} />
                  <Trans>Only these</Trans>
                </label>
              )}
            </div>
            <div className="executions-compare-scroll">
              <table>
                <thead>
                  <tr>
                    <th scope="col">
                      <Trans>Step</Trans>
                    </th>
                    <th scope="col">
                      <Trans>This run</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Time</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Tokens</Trans>
                    </th>
                    <th scope="col">
                      <Trans>Run {tail(otherId)}</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Time</Trans>
                    </th>
                    <th scope="col" className="num">
                      <Trans>Tokens</Trans>
                    </th>
                    <th scope="col">
                      <Trans>Output</Trans>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.slice(0, 500).map((row) => (
                    <tr key={row.id} data-differs={row.differs.length > 0}>
                      <th scope="row">{row.id}</th>
                      <Side step={row.one} />
                      <Side step={row.other} />
                      <td>
                        <Button
                          size="small"
                          kind="quiet"
                          aria-expanded={open === row.id}
                          onClick={() => setOpen(open === row.id ? undefined : row.id)}
                        >
                          {row.differs.includes("output")
                            ? t`differs`
                            : row.one?.result?.output === undefined
                              ? t`none`
                              : t`same`}
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
                <tfoot>
                  <tr>
                    <th scope="row">
                      <Trans>Whole</Trans>
                    </th>
                    <Sum execution={execution} />
                    <Sum execution={data} />
                    <td />
                  </tr>
                </tfoot>
              </table>
            </div>
            {open !== undefined && <Open row={all.find(({ id }) => id === open)} otherId={otherId} />}
          </>
        );
      }}
    </Loaded>
  );
}

function Side({ step }: { step: StepView | undefined }) {
  if (!step)
    return (
      <td colSpan={3} className="faint">
        <Trans>not in this run</Trans>
      </td>
    );
  return (
    <>
      <td>
        <Status state={step.state} />
      </td>
      <td className="num">{duration(step.result?.durationMs)}</td>
      <td className="num">{step.result?.usage ? count(step.result.usage.total) : "–"}</td>
    </>
  );
}

function Sum({ execution }: { execution: Execution }) {
  const { startedAt, completedAt, usage } = execution;
  const lasted = startedAt && completedAt ? Date.parse(completedAt) - Date.parse(startedAt) : undefined;
  return (
    <>
      <td>
        <Status state={execution.status} /> <span className="soft">{money(usage.totalCost)}</span>
      </td>
      <td className="num">{duration(lasted)}</td>
      <td className="num">{count(usage.total)}</td>
    </>
  );
}

/** The texts of a step in both runs. */
function Open({ row, otherId }: { row: Difference | undefined; otherId: string }) {
  if (!row) return null;
  const sourceOf = (step: StepView | undefined, name: string): Source => {
    const { taskId, output, outputTruncated } = step?.result ?? {};
    return { name, taskId, output, isCut: outputTruncated };
  };
  return (
    <Texts
      key={row.id}
      title={row.id}
      one={sourceOf(row.one, t`This run`)}
      other={sourceOf(row.other, t`Run ${tail(otherId)}`)}
    />
  );
}
