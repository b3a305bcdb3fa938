/** Small parts of every page. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useId, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { ApiError } from "../api/client";
import { project } from "../lib/project";
import { useProject } from "../session/projects";
import { useMay } from "../session/session";
import { Icon, type IconName } from "./icons";

type ButtonProps = React.ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: "primary" | "danger" | "danger-primary" | "quiet";
  size?: "small";
  icon?: IconName;
  /** The key that does the same; it is shown. */
  hotkey?: string;
  /** The action that the user must be permitted, as in `x-callboard-action`; there is no button for others. */
  needs?: string;
  busy?: boolean;
};

export function Button({ kind, size, icon, hotkey, needs, busy, children, ...rest }: ButtonProps) {
  const may = useMay();
  if (needs !== undefined && !may(needs)) return null;
  return (
    <button
      type="button"
      {...rest}
      className="button"
      data-kind={kind}
      data-size={size}
      aria-busy={busy || undefined}
      aria-disabled={busy || undefined}
      onClick={(event) => {
        if (busy) event.preventDefault();
        else rest.onClick?.(event);
      }}
    >
      {busy ? <Icon name="running" spin /> : icon && <Icon name={icon} />}
      {children}
      {hotkey && <kbd translate="no">{hotkey}</kbd>}
    </button>
  );
}

/** A page: its title, its actions, its content. `fill` keeps it as high as the window. */
export function PageFrame({
  title,
  actions,
  children,
  fill = false,
}: {
  title: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  fill?: boolean;
}) {
  const here = useProject();
  const names = [title, project && here?.name, "Callboard"].filter(Boolean);
  return (
    <div className="page" data-fill={fill}>
      {typeof title === "string" && <title>{names.join(" · ")}</title>}
      <div className="page-head">
        <h1>{title}</h1>
        {actions}
      </div>
      {children}
    </div>
  );
}

/** A titled part of a page. */
export function Panel({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <section className="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}

/** A command to be copied. */
export function Command({ children }: { children: string }) {
  const [copied, setCopied] = useState(false);
  const code = useRef<HTMLElement>(null);
  const copy = async () => {
    // Without HTTPS the browser gives no page the clipboard: the text is selected, to be copied by hand.
    if (!navigator.clipboard) {
      if (code.current) window.getSelection()?.selectAllChildren(code.current);
      return;
    }
    await navigator.clipboard.writeText(children);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div className="command">
      <code translate="no" ref={code}>
        {children}
      </code>
      <Button size="small" kind="quiet" icon={copied ? "check" : "copy"} onClick={copy}>
        {copied ? t`Copied` : t`Copy`}
      </Button>
    </div>
  );
}

/** The commands of a login; a worker is of the project of its key. */
const OF_PROJECT = /^callboard (?!worker|serve|backup)/;

/** A place where nothing is yet: what will be here, the exact command, and what runs the example. */
export function Empty({
  title,
  children,
  command,
  needs,
  action,
}: {
  title: string;
  children?: ReactNode;
  command?: string;
  /** The action that the command takes; others do not see it. */
  needs?: string;
  action?: ReactNode;
}) {
  const may = useMay();
  const ofProject = project && command && OF_PROJECT.test(command) ? ` --project ${project}` : "";
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children && <div className="soft">{children}</div>}
      {command && (!needs || may(needs)) && <Command>{command + ofProject}</Command>}
      {action}
    </div>
  );
}

/** A refusal, in the server's words, with a way to try again. */
export function Failed({ error, retry, what }: { error: Error; retry?: () => void; what?: string }) {
  const api = error instanceof ApiError ? error : undefined;
  return (
    <div className="notice" data-tone="bad" role="alert">
      <span className="status" data-tone="bad">
        <Icon name="warn" />
      </span>
      <div className="grow stack">
        <div>
          <strong>{what ?? (api?.status === 404 ? t`It does not exist` : t`It cannot be shown`)}</strong>
          <div>{error.message}</div>
          {api?.requestId && api.status >= 500 && (
            <div translate="no" className="faint small mono">
              {api.requestId}
            </div>
          )}
        </div>
      </div>
      {api?.status === 404 && <Back />}
      {retry && api?.status !== 404 && (
        <Button size="small" icon="undo" onClick={retry}>
          <Trans>Try again</Trans>
        </Button>
      )}
    </div>
  );
}

const LISTS: Record<string, string> = {
  batches: t`To all batches`,
  budgets: t`To all budgets`,
  executions: t`To all executions`,
  models: t`To all models`,
  plans: t`To all plans`,
  review: t`To all reviews`,
  schedules: t`To all schedules`,
  tasks: t`To all tasks`,
  templates: t`To all templates`,
};

/** The way out of the page of a thing that does not exist: the list that it would be in. */
function Back() {
  const [path] = useLocation();
  const list = path.split("/")[1];
  if (!list || path === `/${list}`) return null;
  return (
    <Link className="button" data-size="small" href={`/${list}`}>
      {LISTS[list] ?? list}
    </Link>
  );
}

/** Lines in the place of what is being read. */
export function Loading({ lines = 4 }: { lines?: number }) {
  const widths = ["w70", "w90", "w50", "w80"];
  return (
    <div className="loading" role="status" aria-label={t`Loading`}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className={`skeleton ${widths[line % widths.length]}`} />
      ))}
    </div>
  );
}

/** What a query gives: lines while it is read, a refusal, or the content. */
export function Loaded<T>({
  query,
  children,
  lines,
}: {
  query: { data: T | undefined; error: Error | null; refetch: () => unknown };
  children: (data: T) => ReactNode;
  lines?: number;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Loading lines={lines} />;
}

/** A labelled control; the hint and the fault are read out with it. */
export function Field({
  label,
  hint,
  fault,
  children,
}: {
  label: string;
  hint?: ReactNode;
  fault?: string;
  children: (props: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ReactNode;
}) {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": fault ? true : undefined })}
      {hint && (
        <div className="hint" id={`${id}-hint`}>
          {hint}
        </div>
      )}
      {fault && (
        <div className="fault" id={`${id}-fault`}>
          {fault}
        </div>
      )}
    </div>
  );
}
