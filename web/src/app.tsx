/** Every page on one screen. Each is a chunk of its own, read when it is first opened. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { QueryClientProvider, useQueryClient } from "@tanstack/react-query";
import {
  type ComponentType,
  lazy,
  Component as ReactComponent,
  type ReactNode,
  Suspense,
  useEffect,
  useState,
} from "react";
import { type AroundNavHandler, Link, Route, Router, Switch, useLocation } from "wouter";
import { useSearch } from "wouter/use-browser-location";
import { queries } from "./api/hooks";
import { Layout } from "./layout";
import { inProject, withoutProject } from "./lib/project";
import { LiveProvider } from "./live/live";
import { isLost, isSession, Signed, sessionRefused, useMay, useSession } from "./session/session";
import { Empty, Failed, Loading, PageFrame } from "./ui/basics";
import { Toasts } from "./ui/toast";

type Page = () => Promise<{ default: ComponentType }>;

/** The longest path first. A page reads its parameters with `useParams` of wouter. */
const PAGES: [path: string, page: Page][] = [
  ["/", () => import("./pages/home/home")],
  ["/review/decided", () => import("./pages/review/decided")],
  ["/review/:taskId?", () => import("./pages/review/review")],
  ["/executions/stuck", () => import("./pages/executions/stuck")],
  ["/executions/:id", () => import("./pages/executions/execution")],
  ["/executions", () => import("./pages/executions/executions")],
  ["/batches/new", () => import("./pages/batches/new")],
  ["/batches/compare", () => import("./pages/batches/compare")],
  ["/batches/:id", () => import("./pages/batches/batch")],
  ["/batches", () => import("./pages/batches/batches")],
  ["/tasks/:id", () => import("./pages/tasks/task")],
  ["/tasks", () => import("./pages/tasks/tasks")],
  ["/templates/:id?", () => import("./pages/templates/templates")],
  ["/plans/:id?", () => import("./pages/plans/plans")],
  ["/schedules/new", () => import("./pages/schedules/edit")],
  ["/schedules/:id/edit", () => import("./pages/schedules/edit")],
  ["/schedules/:id", () => import("./pages/schedules/schedule")],
  ["/schedules", () => import("./pages/schedules/schedules")],
  ["/budgets/:id", () => import("./pages/budgets/budget")],
  ["/budgets", () => import("./pages/budgets/budgets")],
  ["/workers", () => import("./pages/workers/workers")],
  ["/models", () => import("./pages/models/models")],
  ["/queues", () => import("./pages/queues/queues")],
  ["/insights", () => import("./pages/insights/insights")],
  ["/admin/:part?/:id?", () => import("./pages/admin/admin")],
  ["/docs/*?", () => import("./pages/docs/docs")],
];

const SignIn = lazy(() => import("./session/sign-in"));
const NoProject = lazy(() => import("./session/no-project"));
const MustChange = lazy(() => import("./pages/admin/must-change"));
const ROUTES = PAGES.map(([path, page]) => [path, lazy(page)] as const);

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <Router hrefs={href} aroundNav={go} searchHook={usePageSearch}>
        <Content />
      </Router>
      <Toasts />
    </QueryClientProvider>
  );
}

// Each link of a page and each change of its address stays in its project; no page reads that itself.
const href = (to: string) => inProject(to);
const go: AroundNavHandler = (navigate, to, options) => navigate(inProject(to), options);
const usePageSearch = () => withoutProject(useSearch());

function Content() {
  const { who, error, refetch } = useSession();
  const client = useQueryClient();
  // A program that wants to sign in, an invitation and a forgotten password ask those who are signed in as well.
  const [asks] = useState(() => /^#(program|invite|reset)=/.test(window.location.hash));
  useEffect(
    () =>
      client.getQueryCache().subscribe((event) => {
        if (event.type === "updated" && event.action.type === "error" && !isSession(event.query))
          sessionRefused(client, event.action.error);
      }),
    [client],
  );
  if (isLost(error) && !asks) {
    return (
      <Suspense fallback={<Loading />}>
        <NoProject />
      </Suspense>
    );
  }
  // One that is signed in keeps what is shown while the server is away.
  if (error && !who) {
    return (
      <main className="page">
        <Failed error={error} retry={refetch} what={t`The server does not answer`} />
      </main>
    );
  }
  if (who === undefined) return <Loading />;
  if (who === null || asks) {
    return (
      <Suspense fallback={<Loading />}>
        <SignIn />
      </Suspense>
    );
  }
  return (
    <Signed value={who}>
      <LiveProvider key={who.user.id}>
        <Layout>
          {who.user.passwordChangeRequired ? (
            <Suspense fallback={<Loading />}>
              <MustChange />
            </Suspense>
          ) : (
            <Pages />
          )}
        </Layout>
      </LiveProvider>
    </Signed>
  );
}

function Pages() {
  const [path, navigate] = useLocation();
  const may = useMay();
  const start = may("tasks: read") ? "/" : "/review";
  const isEntry = path === "/sign-in" || path === "/setup" || (path === "/" && path !== start);
  useEffect(() => {
    if (isEntry) navigate(start, { replace: true });
  }, [isEntry, start, navigate]);
  // A page keeps its state while its parameters change, and loses its error with the path.
  return (
    <Guard key={`/${path.split("/")[1]}`}>
      <Suspense fallback={<Loading />}>
        <Switch>
          {ROUTES.map(([route, Page]) => (
            <Route key={route} path={route}>
              <Page />
            </Route>
          ))}
          <Route>{isEntry ? <Loading /> : <NotFound />}</Route>
        </Switch>
      </Suspense>
    </Guard>
  );
}

function NotFound() {
  return (
    <PageFrame title={t`No such page`}>
      <Empty title={t`Nothing is at this address`}>
        <Link href="/">
          <Trans>To the start</Trans>
        </Link>
      </Empty>
    </PageFrame>
  );
}

/** A page that fails leaves the others alone. */
class Guard extends ReactComponent<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const isOld = /dynamically imported|module script/i.test(error.message);
    return (
      <PageFrame title={t`This page failed`}>
        <Failed
          error={isOld ? new Error(t`the server has a newer version of this page: load it again`) : error}
          retry={() => window.location.reload()}
          what={t`This page failed`}
        />
      </PageFrame>
    );
  }
}
