/** /schedules/new and /schedules/:id/edit: the times, with a preview as they are typed, and the work. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useDeferredValue, useId, useMemo, useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { api, unwrap } from "../../api/client";
import { useApi } from "../../api/hooks";
import { zone as readersZone } from "../../lib/span";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Field, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { useWrong } from "../../ui/form/form";
import { toast } from "../../ui/toast";
import { bodyOf, changesOf, type Draft, draftOf, NEW } from "./draft";
import { CATCH_UPS, changed, faultsOf, OVERLAPS, type Schedule } from "./read";
import { TargetForm } from "./target-form";
import { Words } from "./times";
import "../../ui/plain.css";
import "./schedules.css";

const Preview = lazy(() => import("./preview"));

export default function EditSchedule() {
  const { id } = useRoute<{ id?: string }>();
  const may = useMay();
  if (!may("schedules: manage")) {
    return (
      <PageFrame title={t`Schedule`}>
        <Empty title={t`You may not change schedules`}>
          <Trans>An operator or an admin may.</Trans>
        </Empty>
      </PageFrame>
    );
  }
  return id ? (
    <Known id={id} />
  ) : (
    <PageFrame title={t`New schedule`}>
      <Form />
    </PageFrame>
  );
}

function Known({ id }: { id: string }) {
  const read = useApi("/api/schedules/{id}", { path: { id } });
  return (
    <PageFrame title={read.data ? t`Edit ${visible(read.data.name)}` : t`Edit`}>
      <Loaded query={read} lines={8}>
        {(schedule) => (schedule.target ? <Form key={id} of={schedule} /> : <Loading lines={8} />)}
      </Loaded>
    </PageFrame>
  );
}

function Form({ of }: { of?: Schedule }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState<Draft>(() => (of ? draftOf(of) : { ...NEW, timezone: readersZone() }));
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const { isWrong, onWrong } = useWrong();
  const set = (change: Partial<Draft>) => setDraft((known) => ({ ...known, ...change }));
  const faults = faultsOf(refused);
  const faultOf = (field: string) => faults.find((each) => each.field === field)?.message;
  const changes = of && changesOf(of, draft);
  const isUnchanged = changes !== undefined && Object.keys(changes).length === 0;
  const save = async () => {
    setBusy(true);
    setRefused(undefined);
    try {
      const saved = changes
        ? await changed(of.id, changes)
        : await unwrap(api.POST("/api/schedules", { body: bodyOf(draft) }));
      const { id } = saved as Schedule;
      await client.invalidateQueries({
        predicate: ({ queryKey: [path] }) => String(path).startsWith("/api/schedules"),
      });
      navigate(`/schedules/${id}`);
      toast(of ? t`The schedule was changed.` : t`The schedule was created.`);
    } catch (error) {
      setRefused(error as Error);
      setBusy(false);
    }
  };
  return (
    <form
      className="schedules-two"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !isWrong && !isUnchanged) void save();
      }}
    >
      <div className="stack">
        <When draft={draft} set={set} faultOf={faultOf} />
        <TargetForm
          target={draft.target}
          onChange={(target) => set({ target })}
          onWrong={onWrong}
          faults={faults.filter(({ field }) => field.startsWith("target"))}
        />
        <Rules draft={draft} set={set} faultOf={faultOf} />
        {refused && faults.length === 0 && <Failed error={refused} what={t`It was not saved`} />}
        {faults.length > 0 && (
          <Failed error={new Error(t`see the fields that are marked`)} what={t`It was not saved`} />
        )}
        {of && changes && "target" in changes && (
          <p className="small soft">
            <Trans>The work of later runs will belong to you: you changed what it starts.</Trans>
          </p>
        )}
        <div className="row wrap">
          <Button type="submit" kind="primary" busy={busy} disabled={isWrong || isUnchanged}>
            {of ? t`Save` : t`Create`}
          </Button>
          <Link className="button" href={of ? `/schedules/${of.id}` : "/schedules"}>
            <Trans>Leave it</Trans>
          </Link>
          {isUnchanged && (
            <span className="small soft">
              <Trans>Nothing is changed.</Trans>
            </span>
          )}
        </div>
      </div>
      <div className="stack">{draft.kind === "cron" && <Live draft={draft} />}</div>
    </form>
  );
}

/** The preview of what is typed, once the typing pauses. */
function Live({ draft }: { draft: Draft }) {
  const { cron, timezone } = useDeferredValue(draft);
  if (cron.trim() === "") return null;
  return (
    <Suspense fallback={<Loading lines={6} />}>
      <Preview cron={cron} zone={timezone} />
    </Suspense>
  );
}

type Part = {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  faultOf: (field: string) => string | undefined;
};

const PRESETS: [name: string, cron: string][] = [
  [t`every 15 minutes`, "*/15 * * * *"],
  [t`every hour`, "0 * * * *"],
  [t`every night`, "0 3 * * *"],
  [t`on weekdays`, "0 8 * * MON-FRI"],
  [t`every Monday`, "0 8 * * MON"],
  [t`on the last day of the month`, "0 18 L * *"],
];

function When({ draft, set, faultOf }: Part) {
  const zones = useMemo(() => ["UTC", ...Intl.supportedValuesOf("timeZone")], []);
  const list = useId();
  return (
    <Panel title={t`When`}>
      <div className="pad stack">
        <Field label={t`Name`} fault={faultOf("name")}>
          {(props) => (
            <input
              {...props}
              className="input"
              required
              maxLength={100}
              value={draft.name}
              onChange={(event) => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field label={t`How often`}>
          {(props) => (
            <select
              {...props}
              className="select"
              value={draft.kind}
              onChange={(event) => set({ kind: event.target.value as Draft["kind"] })}
            >
              <option value="cron">{t`again and again`}</option>
              <option value="at">{t`once`}</option>
            </select>
          )}
        </Field>
        {draft.kind === "cron" ? (
          <>
            <Field
              label={t`Cron expression`}
              fault={faultOf("cron")}
              hint={
                <>
                  {draft.cron.trim() !== "" && (
                    <>
                      <strong>
                        <Words cron={draft.cron} />
                      </strong>
                      .{" "}
                    </>
                  )}
                  <Trans>Minute, hour, day of the month, month, day of the week.</Trans>
                </>
              }
            >
              {(props) => (
                <input
                  {...props}
                  translate="no"
                  className="input mono"
                  required
                  spellCheck={false}
                  value={draft.cron}
                  onChange={(event) => set({ cron: event.target.value })}
                />
              )}
            </Field>
            <div className="schedules-presets">
              {PRESETS.map(([name, cron]) => (
                <Button key={cron} size="small" onClick={() => set({ cron })}>
                  {name}
                </Button>
              ))}
            </div>
            <Field
              label={t`Time zone`}
              fault={faultOf("timezone")}
              hint={t`Its clocks count, also when they change.`}
            >
              {(props) => (
                <>
                  <input
                    {...props}
                    translate="no"
                    className="input"
                    required
                    list={list}
                    spellCheck={false}
                    value={draft.timezone}
                    onChange={(event) => set({ timezone: event.target.value })}
                  />
                  <datalist id={list}>
                    {zones.map((each) => (
                      <option key={each} value={each} />
                    ))}
                  </datalist>
                </>
              )}
            </Field>
          </>
        ) : (
          <Field label={t`Time`} hint={t`By your clock (${readersZone()}).`} fault={faultOf("at")}>
            {(props) => (
              <input
                {...props}
                type="datetime-local"
                className="input"
                required
                value={draft.at}
                onChange={(event) => set({ at: event.target.value })}
              />
            )}
          </Field>
        )}
      </div>
    </Panel>
  );
}

function Rules({ draft, set, faultOf }: Part) {
  const choice = (name: "overlap" | "catchUp", label: string, words: Record<string, string>) => (
    <Field label={label} fault={faultOf(name)}>
      {(props) => (
        <select
          {...props}
          className="select"
          value={draft[name]}
          onChange={(event) => set({ [name]: event.target.value })}
        >
          {Object.entries(words).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
  return (
    <Panel title={t`Rules`}>
      <div className="pad stack">
        <div className="schedules-pair">
          {choice("overlap", t`If an earlier run goes on, a run`, OVERLAPS)}
          {choice("catchUp", t`Of runs that were missed`, CATCH_UPS)}
        </div>
        <Field
          label={t`Longest random delay, in seconds`}
          hint={t`So that schedules of the same minute do not start together; at most 3,600.`}
          fault={faultOf("jitterMs")}
        >
          {(props) => (
            <input
              {...props}
              type="number"
              min="0"
              max="3600"
              className="input"
              value={draft.jitter}
              onChange={(event) => set({ jitter: event.target.value })}
            />
          )}
        </Field>
        <label className="check">
          <input
            type="checkbox"
            checked={draft.enabled}
            onChange={(event) => set({ enabled: event.target.checked })}
          />
          <Trans>It is active; else it is paused</Trans>
        </label>
      </div>
    </Panel>
  );
}
