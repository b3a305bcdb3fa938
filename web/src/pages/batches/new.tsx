/** /batches/new: a template, a file, what the file has, and the upload. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { ApiError } from "../../api/client";
import { useApi, usePage } from "../../api/hooks";
import { count, instant, money, percent } from "../../lib/format";
import { freshKey } from "../../lib/fresh-key";
import { useParams } from "../../lib/search";
import { locale } from "../../lib/texts";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Field, PageFrame, Panel } from "../../ui/basics";
import { toast } from "../../ui/toast";
import { type Found, look, type Media, mediaOf, typesOf, Unreadable } from "./file";
import { Preview } from "./preview";
import { estimate, type Settings, upload } from "./upload";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./batches.css";

export default function NewBatch() {
  const may = useMay();
  return (
    <PageFrame title={t`New batch`}>
      {may("batches: run") ? (
        <Form />
      ) : (
        <Empty title={t`You may not create batches`}>
          <Trans>An operator or an admin may.</Trans>
        </Empty>
      )}
    </PageFrame>
  );
}

type Draft = Pick<Settings, "name" | "tags" | "maxCost" | "concurrency" | "onInvalid" | "reuse" | "dedupe">;

function Form() {
  const [params, set] = useParams();
  const [, navigate] = useLocation();
  const templateId = params.get("template") ?? "";
  const version = params.get("version") ?? undefined;
  const templates = usePage("/api/templates", { query: { limit: 100 } });
  const template = useApi(
    "/api/templates/{id}",
    { path: { id: templateId }, query: { version } },
    { enabled: templateId !== "", retry: false },
  );
  const versions = useApi(
    "/api/templates/{id}/versions",
    { path: { id: templateId } },
    { enabled: templateId !== "" },
  );
  const batches = usePage(
    "/api/batches",
    { query: { templateId, limit: 20 } },
    { enabled: templateId !== "" },
  );
  const [chosen, setChosen] = useState<{ file: File; media: Media }>();
  const [unreadable, setUnreadable] = useState<string>();
  const [keyColumn, setKeyColumn] = useState<string>();
  const [draft, setDraft] = useState<Draft>({});
  const [sending, setSending] = useState<{ sent: number; abort: () => void }>();
  const [refused, setRefused] = useState<Error>();
  const schema = template.data?.inputSchema;
  const isReady = template.data !== undefined;
  const { found, fault } = useLook(chosen, keyColumn, schema, isReady);
  // The same settings and file again are the same upload, also after its answer was lost.
  const asked = JSON.stringify([templateId, version, keyColumn, draft]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a key for each question
  const key = useMemo(freshKey, [asked, chosen]);
  const isList = templates.data?.items.some(({ id }) => id === templateId);

  const choose = async (file: File | undefined) => {
    if (!file) return;
    setRefused(undefined);
    setUnreadable(undefined);
    setKeyColumn(undefined);
    try {
      setChosen({ file, media: mediaOf(file.name, await file.slice(0, 256).text()) });
      if (!draft.name) setDraft((known) => ({ ...known, name: file.name.replace(/\.[^.]*$/, "") }));
    } catch (error) {
      setChosen(undefined);
      setUnreadable((error as Error).message);
    }
  };
  const faultOf = (field: string) =>
    refused instanceof ApiError ? refused.faults.find((it) => it.field === field)?.message : undefined;
  const isNamed = ["name", "tags", "maxCost", "concurrency"].some((field) => faultOf(field) !== undefined);
  const wrong = chosen && (unreadable ?? fault);
  const send = async () => {
    if (!chosen || sending) return;
    setRefused(undefined);
    const { file, media } = chosen;
    const settings = { templateId, version, keyColumn, ...draft };
    const begun = upload(file, media, settings, key, (sent) =>
      setSending((known) => known && { ...known, sent }),
    );
    setSending({ sent: 0, abort: begun.abort });
    try {
      const batch = await begun.done;
      navigate(`/batches/${batch.id}`);
      toast(plural(batch.rows, { one: "# row is stored.", other: "# rows are stored." }));
    } catch (error) {
      if ((error as Error).name !== "AbortError") setRefused(error as Error);
    }
    setSending(undefined);
  };
  const missing =
    templateId === ""
      ? t`Choose a template.`
      : !chosen
        ? t`Choose a file.`
        : wrong
          ? t`Choose another file.`
          : undefined;
  return (
    <form
      className="batches-new"
      onSubmit={(event) => {
        event.preventDefault();
        if (!missing) void send();
      }}
    >
      <div className="stack">
        <Panel title={t`Template and version`}>
          <div className="batches-pad batches-pair">
            <Field label={t`Template`} fault={template.error?.message}>
              {(props) => (
                <select
                  {...props}
                  className="select"
                  value={templateId}
                  onChange={(event) => set({ template: event.target.value, version: undefined })}
                >
                  <option value="">{t`Choose a template`}</option>
                  {templateId && !isList && <option value={templateId}>{templateId}</option>}
                  {templates.data?.items.map(({ id, name }) => (
                    <option key={id} value={id}>
                      {visible(name)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Field label={t`Version`}>
              {(props) => (
                <select
                  {...props}
                  className="select"
                  disabled={!versions.data}
                  value={version ?? ""}
                  onChange={(event) => set({ version: event.target.value || undefined })}
                >
                  <option value="">{t`the highest`}</option>
                  {versions.data?.map((each) => (
                    <option key={each.version} value={each.version}>
                      {each.version}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </div>
        </Panel>
        <Drop file={chosen?.file} onFile={(file) => void choose(file)} />
        {(unreadable ?? fault) && (
          <Failed error={new Error(unreadable ?? fault)} what={t`The file cannot be used`} />
        )}
        {chosen && !wrong && found && (
          <Preview
            found={found}
            media={chosen.media}
            keyColumn={keyColumn}
            onKeyColumn={setKeyColumn}
            types={isReady ? typesOf(schema) : undefined}
            schema={schema}
          />
        )}
      </div>
      <Panel title={t`Settings`}>
        <div className="batches-pad stack">
          <Line name="name" label={t`Name`} draft={draft} set={setDraft} fault={faultOf} />
          <Line
            name="tags"
            label={t`Tags`}
            hint={t`with commas`}
            draft={draft}
            set={setDraft}
            fault={faultOf}
          />
          <Line
            name="concurrency"
            label={t`Rows at a time`}
            hint={t`1 to 1,000, by default 100. A row that waits for a reviewer does not count.`}
            draft={draft}
            set={setDraft}
            fault={faultOf}
            mode="numeric"
          />
          <Line
            name="maxCost"
            label={t`Most cost, in USD`}
            hint={t`Once so much is spent, the batch is paused.`}
            draft={draft}
            set={setDraft}
            fault={faultOf}
            mode="decimal"
          />
          <Field label={t`Rows with a fault`}>
            {(props) => (
              <select
                {...props}
                className="select"
                value={draft.onInvalid ?? ""}
                onChange={(event) => setDraft({ ...draft, onInvalid: event.target.value || undefined })}
              >
                <option value="">{t`are kept, the others run`}</option>
                <option value="reject">{t`refuse the whole file`}</option>
              </select>
            )}
          </Field>
          <Field
            label={t`Reuse answers`}
            hint={t`Rows that ask the same as the row with their key there take over its answers, at no cost.`}
          >
            {(props) => (
              <select
                {...props}
                className="select"
                value={draft.reuse ?? ""}
                onChange={(event) => setDraft({ ...draft, reuse: event.target.value || undefined })}
              >
                <option value="">{t`of no batch`}</option>
                <option value="latest">{t`of the latest batch of the template`}</option>
                {batches.data?.items.map(({ id, name, createdAt }) => (
                  <option key={id} value={id}>
                    {`${visible(name ?? id)}, ${instant(createdAt)}`}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <label className="check">
            <input
              type="checkbox"
              checked={draft.dedupe === "true"}
              onChange={(event) => setDraft({ ...draft, dedupe: event.target.checked ? "true" : undefined })}
            />
            <Trans>Answer rows that ask the same once</Trans>
          </label>
          {chosen && !missing && !sending && (
            <Estimate
              key={asked}
              ask={(signal) =>
                estimate(chosen.file, chosen.media, { templateId, version, keyColumn, ...draft }, signal)
              }
            />
          )}
          {refused && !isNamed && (
            <Failed error={new Error(said(refused, found))} what={t`Nothing was created`} />
          )}
          {sending ? (
            <Sending size={chosen?.file.size ?? 0} sent={sending.sent} onStop={sending.abort} />
          ) : (
            <>
              <Button type="submit" kind="primary" disabled={missing !== undefined}>
                {found?.done && !wrong
                  ? plural(found.rows, { one: "Upload # row", other: "Upload # rows" })
                  : t`Upload`}
              </Button>
              {missing && <p className="soft small">{missing}</p>}
            </>
          )}
        </div>
      </Panel>
    </form>
  );
}

/** The estimated cost of the rows, once it is asked for: the server reads the whole file, and keeps nothing. */
function Estimate({ ask }: { ask: (signal: AbortSignal) => ReturnType<typeof estimate> }) {
  const [state, setState] = useState<{
    busy?: boolean;
    found?: Awaited<ReturnType<typeof ask>>;
    error?: Error;
  }>({});
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const run = async () => {
    stop.current = new AbortController();
    setState({ busy: true });
    try {
      setState({ found: await ask(stop.current.signal) });
    } catch (error) {
      if ((error as Error).name !== "AbortError") setState({ error: error as Error });
    }
  };
  const { busy, found, error } = state;
  const reused = found?.reused ?? 0;
  const rows = plural(found?.rows ?? 0, { one: "# row", other: "# rows" });
  const basis =
    found?.basis === "history"
      ? plural(found.pastRuns, { one: "by # past run", other: "by # past runs" })
      : t`by prices: there are no past runs of every step`;
  return (
    <div className="stack" role="status">
      <Button busy={busy} onClick={() => void run()}>
        <Trans>Estimate the cost</Trans>
      </Button>
      {error && <Failed error={error} what={t`The cost was not estimated`} />}
      {found && (
        <p className="small">
          <Trans>
            About <strong>{money(found.cost.expected)}</strong> for {rows}, between {money(found.cost.low)}{" "}
            and {money(found.cost.high)}, {basis}.
          </Trans>
          {reused > 0 && ` ${plural(reused, { one: "# row costs nothing.", other: "# rows cost nothing." })}`}
          {found.priceUnknown && t` A model has no price, and counts as $0.`}
        </p>
      )}
    </div>
  );
}

/** The refusal, with the line of the file where it names a row. */
function said(refused: Error, found: Found | undefined): string {
  const [, row] = /\brow (\d+):/.exec(refused.message) ?? [];
  const line = found?.faults.find(({ number }) => number === Number(row))?.line;
  return line === undefined ? refused.message : t`line ${line}, ${refused.message}`;
}

/** What a file has, read again for another template or key column. */
function useLook(
  chosen: { file: File; media: Media } | undefined,
  keyColumn: string | undefined,
  schema: unknown,
  isReady: boolean,
) {
  const [state, setState] = useState<{ found?: Found; fault?: string }>({});
  const of = useRef(schema);
  of.current = schema;
  const last = useRef(chosen);
  const name = JSON.stringify(schema ?? null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `name` stands for the schema.
  useEffect(() => {
    // What is known of the file stays while it is read again for another key or template.
    if (chosen !== last.current) setState({});
    last.current = chosen;
    if (!chosen) return;
    const stop = new AbortController();
    const tell = (found: Found) => setState({ found });
    look(chosen.file, chosen.media, keyColumn, of.current, tell, stop.signal).catch((error) => {
      if (stop.signal.aborted) return;
      const isOurs = error instanceof Unreadable;
      setState({ fault: isOurs ? error.message : t`The file cannot be read: ${(error as Error).message}` });
    });
    return () => stop.abort();
  }, [chosen, keyColumn, name, isReady]);
  return state;
}

function Drop({ file, onFile }: { file: File | undefined; onFile: (file: File | undefined) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button inside does the same by keyboard
    <div
      className="batches-drop"
      data-over={isOver}
      data-has={file !== undefined}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        onFile(event.dataTransfer.files[0]);
      }}
    >
      {file ? (
        <span className="grow">
          <strong translate="no">{visible(file.name)}</strong>{" "}
          <span className="soft">{sizeOf(file.size)}</span>
        </span>
      ) : (
        <>
          <strong>
            <Trans>Drop a file here</Trans>
          </strong>
          <span className="soft">
            <Trans>
              CSV with commas, whose first line names the input fields, or lines of JSON. At most 100,000 rows
              and 1 GiB.
            </Trans>
          </span>
        </>
      )}
      <Button onClick={() => input.current?.click()}>{file ? t`Choose another` : t`Choose a file`}</Button>
      <input
        ref={input}
        type="file"
        className="hide"
        aria-label={t`File`}
        tabIndex={-1}
        accept=".csv,.txt,.jsonl,.ndjson,.json,text/csv"
        onChange={(event) => {
          onFile(event.target.files?.[0]);
          // The same file, changed meanwhile, may be chosen again.
          event.target.value = "";
        }}
      />
    </div>
  );
}

function Sending({ size, sent, onStop }: { size: number; sent: number; onStop: () => void }) {
  const share = size > 0 ? Math.min(1, sent / size) : 0;
  return (
    <div className="stack" role="status">
      <span className="bar" role="img" aria-label={t`${percent(share)} are sent`}>
        <i style={{ width: `${share * 100}%` }} />
      </span>
      <span className="row between">
        <span>
          {share < 1
            ? t`${percent(share)} of ${sizeOf(size)} sent`
            : t`All is sent; the server stores the rows`}
        </span>
        <Button size="small" onClick={onStop}>
          <Trans>Stop</Trans>
        </Button>
      </span>
    </div>
  );
}

function sizeOf(bytes: number): string {
  const units = [t`bytes`, "KiB", "MiB", "GiB"];
  const at = bytes < 1024 ? 0 : Math.min(3, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** at;
  return `${at === 0 || value >= 100 ? count(value) : value.toLocaleString(locale, { maximumFractionDigits: 1, minimumFractionDigits: 1 })} ${units[at]}`;
}

function Line({
  name,
  label,
  hint,
  draft,
  set,
  fault,
  mode,
}: {
  name: keyof Draft;
  label: string;
  hint?: string;
  draft: Draft;
  set: (draft: Draft) => void;
  fault: (field: string) => string | undefined;
  mode?: "numeric" | "decimal";
}) {
  return (
    <Field label={label} hint={hint} fault={fault(name)}>
      {(props) => (
        <input
          {...props}
          className="input"
          inputMode={mode}
          value={draft[name] ?? ""}
          onChange={(event) => set({ ...draft, [name]: event.target.value })}
        />
      )}
    </Field>
  );
}
