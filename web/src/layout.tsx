/** What is around every page: the navigation, the state of the connection, the user. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { useApi, usePage } from "./api/hooks";
import { FindButton, Finder } from "./find/open";
import { useNow } from "./lib/clock";
import { count, short } from "./lib/format";
import { useKeys } from "./lib/keys";
import { usePreference } from "./lib/preferences";
import { project } from "./lib/project";
import { LANGUAGES, type Language, language, speak } from "./lib/texts";
import { applyTheme, type Theme } from "./lib/theme";
import { useConnection, useLive } from "./live/live";
import { useRole } from "./session/projects";
import { useMay, useSignOut, useWho } from "./session/session";
import { Archived, ProjectButton, Switcher, useSeveral } from "./session/switcher";
import { Button } from "./ui/basics";
import { Boundary } from "./ui/boundary";
import { Icon, type IconName } from "./ui/icons";
import { Mark } from "./ui/status";
import { Ago } from "./ui/time";

const OutboxBanner = lazy(() => import("./pages/review/outbox-banner"));
const KeysHelp = lazy(() => import("./ui/keys-help"));

type Entry = { path: string; name: string; icon: IconName; needs?: string; gap?: boolean };
const ENTRIES: Entry[] = [
  { path: "/", name: t`Overview`, icon: "home", needs: "tasks: read" },
  { path: "/review", name: t`Review`, icon: "review", needs: "hitl: read" },
  { path: "/executions", name: t`Executions`, icon: "executions", needs: "executions: read", gap: true },
  { path: "/batches", name: t`Batches`, icon: "batches", needs: "batches: read" },
  { path: "/tasks", name: t`Tasks`, icon: "tasks", needs: "tasks: read" },
  { path: "/templates", name: t`Templates`, icon: "templates", needs: "templates: read" },
  { path: "/plans", name: t`Plans`, icon: "plans", needs: "plans: read" },
  { path: "/schedules", name: t`Schedules`, icon: "clock", needs: "schedules: read" },
  { path: "/workers", name: t`Workers`, icon: "workers", needs: "workers: read", gap: true },
  { path: "/queues", name: t`Queues`, icon: "queues", needs: "workers: read" },
  { path: "/models", name: t`Models`, icon: "models", needs: "models: read" },
  { path: "/insights", name: t`Insights`, icon: "insights", needs: "hitl: read statistics" },
  { path: "/budgets", name: t`Budgets`, icon: "money", needs: "budgets: read" },
  { path: "/admin", name: t`Admin`, icon: "admin", gap: true },
  { path: "/docs", name: t`Docs`, icon: "docs", needs: "tasks: read" },
];

export function Layout({ children }: { children: ReactNode }) {
  const [path] = useLocation();
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const several = useSeveral();
  const [switches, setSwitches] = useState(false);
  const [finds, setFinds] = useState(false);
  // What waits may be of any project.
  const [hasOutbox] = usePreference(`${useWho().user.id}.outbox`, false);
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    const isOther = shown.current.split("/")[1] !== path.split("/")[1];
    shown.current = path;
    setOpen(false);
    // A reader hears the new page; the focus is not left on a link that may be gone.
    if (isOther) main.current?.focus({ preventScroll: true });
  }, [path]);
  useKeys(t`Everywhere`, [{ id: "help", key: "?", label: t`Show the shortcuts`, run: () => setHelp(true) }]);

  return (
    <div className="app">
      <a className="button skip" href="#main">
        <Trans>To the content</Trans>
      </a>
      <header className="topbar">
        <Brand />
        {several && <ProjectButton onClick={() => setSwitches(true)} />}
        <LiveChip />
        <FindButton isSmall onClick={() => setFinds(true)} />
        <button
          type="button"
          className="button"
          data-kind="quiet"
          aria-expanded={open}
          aria-controls="side"
          aria-label={t`Menu`}
          onClick={() => setOpen(!open)}
        >
          <Icon name={open ? "cross" : "menu"} />
        </button>
      </header>
      <Side
        open={open}
        onHelp={() => setHelp(true)}
        onFind={() => setFinds(true)}
        path={path}
        switcher={several && <ProjectButton onClick={() => setSwitches(true)} />}
      />
      <Finder isOpen={finds} set={setFinds} />
      <main className="main" id="main" tabIndex={-1} ref={main} inert={open || undefined}>
        <PausedBanner />
        <Archived />
        <KeyEnds />
        {hasOutbox && (
          <Suspense>
            <OutboxBanner />
          </Suspense>
        )}
        <Boundary key={path.split("/")[1]}>{children}</Boundary>
      </main>
      {several && <Switcher isOpen={switches} set={setSwitches} />}
      {help && (
        <Suspense>
          <KeysHelp onClose={() => setHelp(false)} />
        </Suspense>
      )}
    </div>
  );
}

/** Why nothing runs, on every page while everything is paused; read again once the connection is back. */
function PausedBanner() {
  const connection = useConnection();
  const { data, refetch } = useApi("/api/health", undefined, { refetchOnWindowFocus: "always" });
  useEffect(() => {
    if (connection === "live") void refetch();
  }, [connection, refetch]);
  if (data?.paused == null) return null;
  return (
    <div className="notice" data-tone="warn" role="status" data-paused>
      <span className="status" data-tone="warn">
        <Icon name="clock" />
      </span>
      <div className="grow">
        <strong>
          <Trans>Everything is paused: no task starts</Trans>
        </strong>
        <div>
          {project ? (
            <Trans>{data.paused}. An admin of the server lets it go on.</Trans>
          ) : (
            <Trans>
              {data.paused}. To go on:{" "}
              <Link className="text-link" href="/queues">
                Queues
              </Link>
              , or <code>callboard resume --all</code>
            </Trans>
          )}
        </div>
      </div>
    </div>
  );
}

const SOON = 14 * 86_400_000;
const HOUR = 3_600_000;

/** The keys that end within two weeks, for those who can replace them. The hour keeps the question the same. */
function KeyEnds() {
  const may = useMay()("auth: manage keys");
  const now = useNow();
  const expiresBefore = new Date(Math.floor((now + SOON) / HOUR) * HOUR).toISOString();
  const { data } = usePage("/api/auth/keys", { query: { expiresBefore, limit: 3 } }, { enabled: may });
  const [first] = data?.items ?? [];
  if (!data || !first) return null;
  const names = data.items.map((key) => key.name).join(", ");
  const more = data.total - data.items.length;
  return (
    <div className="notice" data-tone="warn" role="status" data-key-ends>
      <span className="status" data-tone="warn">
        <Icon name="clock" />
      </span>
      <div className="grow">
        <strong>
          <Plural value={data.total} one="An API key ends soon" other="# API keys end soon" />
        </strong>
        <div>
          {names}
          {more > 0 && ` ${t`and ${count(more)} more`}`}:{" "}
          <Trans>
            the first one ends <Ago at={first.expiresAt} />. Programs that use a key stop when it ends.
          </Trans>{" "}
          <Link href="/admin/keys">
            <Trans>Rotate it</Trans>
          </Link>
        </div>
      </div>
    </div>
  );
}

function Brand() {
  return (
    <Link href="/" className="brand">
      <img src="/favicon.svg" alt="" width="18" height="18" /> Callboard
    </Link>
  );
}

type SideProps = {
  open: boolean;
  onHelp: () => void;
  onFind: () => void;
  path: string;
  switcher: ReactNode;
};

function Side({ open, onHelp, onFind, path, switcher }: SideProps) {
  const who = useWho();
  const role = useRole();
  const may = useMay();
  const signOut = useSignOut();
  const [theme, setTheme] = usePreference<Theme>("theme", "system");
  const first = `/${path.split("/")[1]}`;
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  const themes: Record<Theme, string> = { system: t`system`, light: t`light`, dark: t`dark` };
  return (
    <aside className="side" id="side" aria-label={t`Navigation`} data-open={open}>
      <Brand />
      {switcher}
      <FindButton onClick={onFind} />
      <nav aria-label={t`Pages`}>
        <ul>
          {ENTRIES.filter((entry) => !entry.needs || may(entry.needs)).map((entry) => (
            <li key={entry.path} className={entry.gap ? "entry gap-before" : "entry"}>
              <Link href={entry.path} aria-current={first === entry.path ? "page" : undefined}>
                <Icon name={entry.icon} />
                {entry.path === "/admin" && !may("deliveries: read") ? t`Account` : entry.name}
                {entry.path === "/review" && <Waiting />}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <footer>
        <LiveChip />
        <div className="who cut" data-tip={`${who.user.email}\n${role}`}>
          {who.user.name} <span className="faint">{role}</span>
        </div>
        <div className="side-actions">
          <Button size="small" kind="quiet" onClick={onHelp} hotkey="?">
            <Trans>Shortcuts</Trans>
          </Button>
          <Button
            size="small"
            kind="quiet"
            data-tip={t`Light, dark, or as the system is`}
            onClick={() => {
              setTheme(next[theme]);
              applyTheme(next[theme]);
            }}
          >
            <Trans>Theme: {themes[theme]}</Trans>
          </Button>
          <select
            className="select side-language"
            aria-label={t`Language`}
            value={language}
            onChange={(event) => speak(event.target.value as Language)}
          >
            {Object.entries(LANGUAGES).map(([tag, name]) => (
              <option key={tag} value={tag} lang={tag}>
                {name}
              </option>
            ))}
          </select>
          <Button size="small" kind="quiet" onClick={() => void signOut()}>
            <Trans>Sign out</Trans>
          </Button>
        </div>
      </footer>
    </aside>
  );
}

/** How many outputs wait for a reviewer. */
function Waiting() {
  useLive(["hitl.*"]);
  const { data } = usePage("/api/hitl/pending", { query: { limit: 1, includeExpired: true } });
  if (!data?.total) return null;
  return (
    <span className="count" data-tip={t`${data.total} waiting for a reviewer`}>
      {short(data.total)}
    </span>
  );
}

function LiveChip() {
  const connection = useConnection();
  const states = {
    live: ["good", "dot", t`live`, t`Changes are shown as they happen.`],
    reconnecting: ["warn", "running", t`reconnecting`, t`The connection was lost; it is being made again.`],
    stale: [
      "bad",
      "warn",
      t`stale`,
      t`There is no connection: what you see may be old. It is still being tried.`,
    ],
  } as const;
  const [tone, icon, word, tip] = states[connection];
  return (
    <span className="live" data-live={connection} data-tip={tip} role="status">
      <Mark tone={tone} icon={icon}>
        {word}
      </Mark>
    </span>
  );
}
