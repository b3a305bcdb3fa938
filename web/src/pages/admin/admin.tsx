/** /admin: accounts, keys, sessions, the audit log, deliveries, settings, storage: what the role permits. */
import { type ComponentType, lazy, Suspense } from "react";
import { useParams as useRoute } from "wouter";
import { useMay } from "../../session/session";
import { Empty, Loading, PageFrame } from "../../ui/basics";
import { Tabs } from "../../ui/tabs";
import "../../ui/plain.css";
import "../definition/definition.css";
import "./admin.css";

type Part = { id: string; name: string; needs: string; View: ComponentType; fill?: boolean };
const PARTS: Part[] = [
  {
    id: "users",
    name: "Users",
    needs: "auth: manage users",
    View: lazy(() => import("./users")),
    fill: true,
  },
  { id: "keys", name: "Keys", needs: "auth: manage keys", View: lazy(() => import("./keys")), fill: true },
  { id: "sessions", name: "Sessions", needs: "own account", View: lazy(() => import("./sessions")) },
  { id: "audit", name: "Audit log", needs: "audit: read", View: lazy(() => import("./audit")), fill: true },
  {
    id: "deliveries",
    name: "Deliveries",
    needs: "deliveries: read",
    View: lazy(() => import("./deliveries")),
    fill: true,
  },
  { id: "settings", name: "Settings", needs: "audit: read", View: lazy(() => import("./settings")) },
  { id: "nodes", name: "Nodes", needs: "cluster: manage", View: lazy(() => import("./nodes")) },
  { id: "storage", name: "Storage", needs: "metrics: read", View: lazy(() => import("./storage")) },
];

export default function Admin() {
  const { part } = useRoute<{ part?: string }>();
  const may = useMay();
  const parts = PARTS.filter(({ needs }) => needs === "own account" || may(needs));
  const shown = part === undefined ? parts[0] : parts.find(({ id }) => id === part);
  const tabs = parts.map(({ id, name }) => ({ id, name, href: `/admin/${id}` }));
  return (
    <PageFrame title={may("deliveries: read") ? "Admin" : "Account"} fill={shown?.fill}>
      {(tabs.length > 1 || !shown) && (
        <Tabs label="Parts of the administration" tabs={tabs} current={shown?.id ?? ""} />
      )}
      {shown ? (
        <Suspense fallback={<Loading />}>
          <shown.View />
        </Suspense>
      ) : (
        <Empty title={PARTS.some(({ id }) => id === part) ? "Your role may not see this" : "Nothing is here"}>
          What you may see is in the row above.
        </Empty>
      )}
    </PageFrame>
  );
}
