/** Writes a template or a plan in YAML. The server's faults stand at their lines; nothing is stored with one. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useLocation } from "wouter";
import { ApiError, api, type Schemas, unwrap } from "../../api/client";
import { useOwn } from "../../session/session";
import { Button } from "../../ui/basics";
import { Icon } from "../../ui/icons";
import { Mark } from "../../ui/status";
import { toast, toastError } from "../../ui/toast";
import { YamlEditor } from "./code";
import { jsonOf } from "./definition";
import { type Fault, placed, syntax } from "./faults";
import "../../ui/plain.css";
import "./definition.css";

type Kind = "template" | "plan";

/** `of` names what is written: its draft outlives the page. */
export default function Write({ kind, initial, of }: { kind: Kind; initial: string; of: string }) {
  const [draft, keep] = useOwn<string | undefined>(`draft.write.${kind}.${of}`, undefined);
  const text = draft ?? initial;
  const [started, setStarted] = useState({ text, number: 0 });
  const [refused, setRefused] = useState<{ of: string; faults: Fault[] }>();
  const [busy, setBusy] = useState(false);
  const [goTo, setGoTo] = useState<{ line: number }>();
  const [, navigate] = useLocation();
  const client = useQueryClient();

  const broken = useMemo(() => syntax(text), [text]);
  // After an edit the faults stay, at the lines where their fields are now, until the text is sent again.
  const found = useMemo(
    () => (broken.length > 0 ? broken : placed(text, refused?.faults ?? [])),
    [broken, refused, text],
  );
  const isOld = broken.length === 0 && refused !== undefined && refused.of !== text;
  const publish = async () => {
    setBusy(true);
    try {
      const made = await send(kind, text);
      const path = kind === "template" ? "/api/templates" : "/api/plans";
      const isOfKind = ({ queryKey }: { queryKey: readonly unknown[] }) =>
        String(queryKey[0]).startsWith(path);
      await client.invalidateQueries({ predicate: isOfKind });
      keep(undefined);
      toast(kind === "template" ? t`Published: ${made.id} ${made.version ?? ""}` : t`Created: ${made.name}`);
      navigate(kind === "template" ? `/templates/${made.id}` : `/plans/${made.id}`);
    } catch (error) {
      const faults = faultsOf(error);
      if (faults) setRefused({ of: text, faults });
      else toastError(error, t`It was not published`);
    } finally {
      setBusy(false);
    }
  };
  const discard = () => {
    keep(undefined);
    setRefused(undefined);
    setStarted(({ number }) => ({ text: initial, number: number + 1 }));
  };
  const needs = kind === "template" ? "templates: create" : "plans: create";
  return (
    <div className="definition-write">
      <div className="panel definition-editor">
        <YamlEditor
          key={started.number}
          label={t`Definition`}
          text={started.text}
          faults={found}
          onChange={(next) => keep(next === initial ? undefined : next)}
          goTo={goTo}
        />
      </div>
      <section className="panel definition-faults" aria-label={t`Faults`}>
        <header>
          <h2>
            {found.length > 0
              ? plural(found.length, { one: "# fault", other: "# faults" })
              : t`Check and publish`}
          </h2>
          {draft !== undefined && (
            <Button kind="quiet" onClick={discard}>
              <Trans>Discard the draft</Trans>
            </Button>
          )}
          <Button
            kind="primary"
            needs={needs}
            busy={busy}
            disabled={broken.length > 0}
            onClick={() => void publish()}
          >
            {kind === "template" ? t`Publish` : t`Create`}
          </Button>
        </header>
        <div role="status" aria-live="polite">
          {found.length === 0 ? (
            <p className="pad soft">
              <Trans>The server checks the whole definition and stores it only without a fault.</Trans>
              {kind === "template" &&
                t` A published version never changes: raise the version to publish other content.`}
            </p>
          ) : (
            <>
              {isOld && (
                <p className="pad small soft">
                  <Trans>As of the last check; the text has changed since.</Trans>
                </p>
              )}
              <ol>
                {found.map((fault, index) => (
                  <li key={index}>
                    <button
                      type="button"
                      className="definition-fault"
                      onClick={() => setGoTo({ line: fault.line ?? 1 })}
                    >
                      <span className="status" data-tone="bad">
                        <Icon name="cross" />
                        <span className="num">
                          <Trans>line {fault.line ?? "–"}</Trans>
                        </span>
                      </span>
                      <span>
                        <span className="definition-said">{fault.message}</span>
                        <span translate="no" className="faint small mono">
                          {" "}
                          {fault.code}
                        </span>
                      </span>
                    </button>
                  </li>
                ))}
              </ol>
            </>
          )}
        </div>
        {found.length === 0 && refused === undefined && (
          <p className="pad small">
            <Mark tone="mute" icon="dot">
              <Trans>the text is valid YAML</Trans>
            </Mark>
          </p>
        )}
      </section>
    </div>
  );
}

function faultsOf(error: unknown): Fault[] | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.faults.length > 0) return error.faults;
  const isOfText = error.code === "INVALID_YAML" || error.code === "VERSION_EXISTS";
  return isOfText
    ? [{ field: error.code === "VERSION_EXISTS" ? "version" : "", message: error.message, code: error.code }]
    : undefined;
}

async function send(kind: Kind, text: string): Promise<{ id: string; name: string; version?: string }> {
  if (kind === "plan") {
    return unwrap(api.POST("/api/plans", { body: jsonOf(text) as Schemas["PlanRequest"] }));
  }
  // The text as it is, so that the server's lines are the author's.
  const call = api.POST("/api/templates", {
    body: text as unknown as Schemas["TemplateRequest"],
    bodySerializer: (body) => body as unknown as string,
    headers: { "content-type": "application/yaml" },
  });
  return unwrap(call) as unknown as Promise<Schemas["Template"]>;
}
