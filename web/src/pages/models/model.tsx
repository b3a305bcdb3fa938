/** One model: use and limits, who runs it, its prices, and the fall-backs from it. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { count, percent } from "../../lib/format";
import { runsModel } from "../../lib/serves";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Field, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { ClosedModel, isClosed } from "../../ui/closed-model";
import { Dialog } from "../../ui/dialog";
import { Scroll } from "../../ui/sized";
import { Status } from "../../ui/status";
import { toast } from "../../ui/toast";
import { fallbacksOf, gaugesOf, type Model, perMillion } from "./figures";
import { Meter } from "./meter";

export function ModelPage({ name }: { name: string }) {
  const { rows, more, hasNextPage, isFetchingNextPage, data, error, refetch } = useRows("/api/models");
  const model = rows.find((each) => each.name === name);
  const [sets, setSets] = useState(false);
  // The list is by name, so a model beyond the first page is looked for further on.
  if (!model && hasNextPage && !isFetchingNextPage) more();
  return (
    <PageFrame
      title={visible(name)}
      actions={
        <>
          <Link className="button" data-kind="quiet" href="/models">
            <Trans>All models</Trans>
          </Link>
          <Link className="button" href={`/tasks?model=${encodeURIComponent(name)}`}>
            <Trans>Its tasks</Trans>
          </Link>
          {model && (
            <Button needs="models: manage" onClick={() => setSets(true)}>
              <Trans>Limits</Trans>
            </Button>
          )}
        </>
      }
    >
      {error && !data ? (
        <Failed error={error} retry={() => void refetch()} />
      ) : !data || (!model && hasNextPage) ? (
        <Loading />
      ) : !model ? (
        <Empty title={t`Nothing is known of this model`}>
          <Trans>
            No worker announces it by its name, it has no limits, and nothing has called it since the start.
          </Trans>
        </Empty>
      ) : (
        <>
          {isClosed(model) && (
            <div className="notice" data-tone="warn" role="status">
              <div className="grow row wrap">
                <strong>
                  <Trans>It is closed</Trans>
                </strong>
                <ClosedModel of={model} />
              </div>
            </div>
          )}
          <div className="models-two">
            <Use of={model} />
            <Workers of={model} />
            <Prices of={model} />
            <Fallbacks of={model} />
          </div>
          {sets && <Limits of={model} onClose={() => setSets(false)} />}
        </>
      )}
    </PageFrame>
  );
}

function Use({ of }: { of: Model }) {
  return (
    <Panel title={t`In the last minute`}>
      <dl className="facts pad">
        {gaugesOf(of).map((gauge) => (
          <div key={gauge.id} style={{ display: "contents" }}>
            <dt>{gauge.label}</dt>
            <dd>
              <Meter of={gauge} large />
            </dd>
          </div>
        ))}
      </dl>
      <p className="pad small soft">
        <Trans>
          What runs counts with an estimate of its tokens until its answer comes. Without room, tasks of this
          model wait, and others go on.
        </Trans>
      </p>
    </Panel>
  );
}

function Workers({ of }: { of: Model }) {
  const may = useMay()("workers: read");
  const workers = useRows("/api/workers", undefined, { enabled: may });
  if (!may) return null;
  const found = workers.rows.filter(({ status, models }) => status !== "lost" && runsModel(models, of.name));
  return (
    <Panel title={t`Who can run it`} actions={<span className="soft small">{count(found.length)}</span>}>
      {!workers.data ? (
        <Loading lines={2} />
      ) : found.length === 0 ? (
        <p className="pad soft">
          <Trans>No connected worker: its tasks wait.</Trans>
        </p>
      ) : (
        <Scroll>
          <table className="plain-table">
            <thead>
              <tr>
                <th scope="col">
                  <Trans>Worker</Trans>
                </th>
                <th scope="col">
                  <Trans>State</Trans>
                </th>
                <th scope="col">
                  <Trans>In queues</Trans>
                </th>
                <th scope="col" className="num">
                  <Trans>Busy</Trans>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.map((worker) => (
                <tr key={worker.id}>
                  <th scope="row">
                    <Link href={`/workers?worker=${worker.id}`}>{visible(worker.name)}</Link>
                  </th>
                  <td>
                    <Status state={worker.status} />
                  </td>
                  <td>{worker.queues.map((queue) => (queue === "*" ? t`any` : queue)).join(", ")}</td>
                  <td className="num">
                    <Trans>
                      {count(worker.running)} of {count(worker.concurrency)}
                    </Trans>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}

function Prices({ of: { price } }: { of: Model }) {
  const facts: [string, number | undefined][] = [
    [t`Input`, price?.input],
    [t`Output`, price?.output],
    [t`Input from the provider's cache`, price?.cacheRead],
    [t`Input written to that cache`, price?.cacheWrite],
  ];
  return (
    <Panel
      title={t`Prices in use`}
      actions={
        <span className="soft small">
          <Trans>a million tokens</Trans>
        </span>
      }
    >
      {price ? (
        <dl className="facts pad">
          {facts.map(([label, value]) => (
            <div key={label} style={{ display: "contents" }}>
              <dt>{label}</dt>
              <dd className="num">{value === undefined ? "–" : perMillion(value)}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <p className="pad">
          <Trans>
            It has no price: its calls count as $0, and a budget refuses them.{" "}
            <Link href="/docs/reference/prices">How prices are set</Link>
          </Trans>
        </p>
      )}
    </Panel>
  );
}

const LATEST = 100;
const REASONS: Record<string, string> = {
  rate_limited: t`its provider refused the call`,
  unavailable: t`its provider failed or was not reached`,
  timeout: t`it took too long`,
  output_invalid: t`its output did not match the schema`,
};

/** Of the latest tasks that were to begin with this model, those that went on to another one. */
function Fallbacks({ of }: { of: Model }) {
  const may = useMay()("tasks: read");
  const read = usePage("/api/tasks", { query: { model: of.name, limit: LATEST } } as never, { enabled: may });
  if (!may) return null;
  const looked = read.data?.items.length ?? 0;
  const found = fallbacksOf(read.data?.items ?? []);
  const all = found.reduce((sum, { tasks }) => sum + tasks, 0);
  return (
    <Panel
      title={t`Fall-backs from it`}
      actions={
        <span className="soft small">
          <Plural value={looked} one="of its latest # task" other="of its latest # tasks" />
        </span>
      }
    >
      <Loaded query={read} lines={2}>
        {() =>
          found.length === 0 ? (
            <p className="pad soft">
              <Trans>None went on to another model.</Trans>
            </p>
          ) : (
            <>
              <ul className="pad">
                {found.map(({ to, reason, tasks }) => (
                  <li key={`${to} ${reason}`}>
                    <Plural value={tasks} one="# task went on to" other="# tasks went on to" />{" "}
                    <Link translate="no" href={`/models?model=${encodeURIComponent(to)}`}>
                      {to}
                    </Link>
                    : <span data-tip={reason}>{REASONS[reason] ?? reason}</span>
                  </li>
                ))}
              </ul>
              <p className="pad small soft">
                <Trans>{percent(all / looked)} of them.</Trans>
              </p>
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

type Name = keyof Schemas["SetModelLimits"];
const LIMITS: [Name, string][] = [
  ["requestsPerMinute", t`Requests in any minute`],
  ["tokensPerMinute", t`Tokens in any minute`],
  ["inputTokensPerMinute", t`Input tokens in any minute`],
  ["outputTokensPerMinute", t`Output tokens in any minute`],
  ["concurrent", t`Calls at the same time`],
];

function Limits({ of, onClose }: { of: Model; onClose: () => void }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<Record<string, string>>(() =>
    Object.fromEntries(LIMITS.map(([name]) => [name, String(of.limits[name] ?? "")])),
  );
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const faults = refused instanceof ApiError ? refused.faults : [];
  const save = async () => {
    setBusy(true);
    const set = LIMITS.filter(([name]) => draft[name]?.trim());
    const body = Object.fromEntries(set.map(([name]) => [name, Number(draft[name])]));
    try {
      await unwrap(api.PUT("/api/models/{name}/limits", { params: { path: { name: of.name } }, body }));
      await client.invalidateQueries({ queryKey: ["/api/models"] });
      toast(t`${of.name} has new limits.`);
      onClose();
    } catch (error) {
      setRefused(error as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Limits of ${visible(of.name)}`}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            <Trans>Set</Trans>
          </Button>
        </>
      }
    >
      {refused && faults.length === 0 && <Failed error={refused} what={t`They were not set`} />}
      <p className="soft">
        <Trans>Empty is no limit. They take the place of those in the settings, and count at once.</Trans>
      </p>
      {LIMITS.map(([name, label]) => (
        <Field key={name} label={label} fault={faults.find(({ field }) => field === name)?.message}>
          {(props) => (
            <input
              {...props}
              type="number"
              min="1"
              className="input"
              value={draft[name]}
              onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
            />
          )}
        </Field>
      ))}
    </Dialog>
  );
}
