/** /admin: accounts, keys, sessions, the audit log, deliveries, settings, storage: what the role permits. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ComponentType, lazy, Suspense } from "react";
import { useParams as useRoute } from "wouter";
import { useMay, useWho } from "../../session/session";
import { useSeveral } from "../../session/switcher";
import { Empty, Loading, PageFrame } from "../../ui/basics";
import { Tabs } from "../../ui/tabs";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./admin.css";

type Part = { id: string; name: string; needs: string; View: ComponentType; fill?: boolean };
const PARTS: Part[] = [
  {
    id: "users",
    name: t`Users`,
    needs: "auth: manage users",
    View: lazy(() => import("./users")),
    fill: true,
  },
  {
    id: "projects",
    name: t`Projects`,
    needs: "projects: read",
    View: lazy(() => import("./projects")),
    fill: true,
  },
  { id: "keys", name: t`Keys`, needs: "auth: manage keys", View: lazy(() => import("./keys")), fill: true },
  { id: "sessions", name: t`Sessions`, needs: "own account", View: lazy(() => import("./sessions")) },
  { id: "audit", name: t`Audit log`, needs: "audit: read", View: lazy(() => import("./audit")), fill: true },
  {
    id: "deliveries",
    name: t`Deliveries`,
    needs: "deliveries: read",
    View: lazy(() => import("./deliveries")),
    fill: true,
  },
  { id: "settings", name: t`Settings`, needs: "audit: read", View: lazy(() => import("./settings")) },
  { id: "nodes", name: t`Nodes`, needs: "cluster: manage", View: lazy(() => import("./nodes")) },
  { id: "storage", name: t`Storage`, needs: "metrics: read", View: lazy(() => import("./storage")) },
];

/** The part whose items have pages of their own. */
const HAS_ITEMS = "projects";

export default function Admin() {
  const { part, id: item } = useRoute<{ part?: string; id?: string }>();
  const may = useMay();
  const several = useSeveral();
  const isAdmin = useWho().user.role === "admin";
  const parts = PARTS.filter(({ id, needs }) => {
    // Of a server with one project, only those who may make another one are told of projects.
    if (id === "projects" && !several && !isAdmin) return false;
    return needs === "own account" || may(needs);
  });
  const shown =
    part === undefined ? parts[0] : parts.find(({ id }) => id === part && (!item || HAS_ITEMS === id));
  const tabs = parts.map(({ id, name }) => ({ id, name, href: `/admin/${id}` }));
  return (
    <PageFrame title={may("deliveries: read") ? t`Admin` : t`Account`} fill={shown?.fill}>
      {(tabs.length > 1 || !shown) && (
        <Tabs label={t`Parts of the administration`} tabs={tabs} current={shown?.id ?? ""} />
      )}
      {shown ? (
        <Suspense fallback={<Loading />}>
          <shown.View />
        </Suspense>
      ) : (
        <Empty
          title={
            !item && PARTS.some(({ id }) => id === part) ? t`Your role may not see this` : t`Nothing is here`
          }
        >
          <Trans>What you may see is in the row above.</Trans>
        </Empty>
      )}
    </PageFrame>
  );
}
