/** One's own sessions and password; for an admin, the sessions of anybody. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { api, type ItemOf, unwrap } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useMay, useWho } from "../../session/session";
import { Button, Panel } from "../../ui/basics";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { Password } from "./password";

type Session = ItemOf<"/api/auth/sessions">;

export default function Sessions() {
  const [params, set] = useParams();
  const may = useMay();
  const who = useWho();
  const client = useQueryClient();
  const user = params.get("user") ?? undefined;
  const list = useRows("/api/auth/sessions", { query: { userId: user } } as never);
  const users = usePage("/api/auth/users", { query: { limit: 100 } } as never, {
    enabled: may("auth: manage users"),
  });
  const emails = new Map(users.data?.items.map(({ id, email }) => [id, email]));
  emails.set(who.user.id, who.user.email);
  const again = () => client.invalidateQueries({ queryKey: ["/api/auth/sessions"] });
  const end = async (session: Session) => {
    try {
      await unwrap(api.DELETE("/api/auth/sessions/{id}", { params: { path: { id: session.id } } }));
      toast(t`The session is ended.`);
    } catch (error) {
      toastError(error, t`It was not ended`);
    }
    await again();
  };
  const columns: Column<Session>[] = [
    {
      id: "user",
      header: t`User`,
      width: "minmax(160px, 2fr)",
      cell: (session) => (
        <span className="cut">
          {emails.get(session.userId) ?? tail(session.userId)}
          {session.current && (
            <span className="tag admin-tag">
              <Trans>this one</Trans>
            </span>
          )}
        </span>
      ),
    },
    {
      id: "id",
      header: t`Session`,
      width: "120px",
      phone: false,
      cell: (session) => (
        <span translate="no" className="mono">
          {tail(session.id)}
        </span>
      ),
    },
    {
      id: "created",
      header: t`Signed in`,
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.createdAt} />,
    },
    {
      id: "refreshed",
      header: t`Refreshed`,
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.refreshedAt} />,
    },
    {
      id: "expires",
      header: t`Ends`,
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.expiresAt} />,
    },
    {
      id: "actions",
      header: t`Actions`,
      width: "90px",
      cell: (session) =>
        !session.current && (
          <Button size="small" kind="danger" onClick={() => void end(session)}>
            <Trans>End</Trans>
          </Button>
        ),
    },
  ];
  return (
    <>
      {may("auth: manage users") && (
        <div className="filters">
          <select
            className="select"
            aria-label={t`User`}
            value={user ?? ""}
            onChange={(event) => set({ user: event.target.value })}
          >
            <option value="">{t`everybody`}</option>
            {users.data?.items.map(({ id, email }) => (
              <option key={id} value={id}>
                {email}
              </option>
            ))}
          </select>
        </div>
      )}
      <Panel
        title={t`Open sessions`}
        actions={
          list.data && (
            <span className="soft small">
              <Plural value={list.total} one="# session" other="# sessions" />
            </span>
          )
        }
      >
        <Listed
          list={list}
          empty={
            <p className="pad soft">
              <Trans>There is none.</Trans>
            </p>
          }
          sized={1}
          label={t`Sessions`}
          keyOf={(session) => session.id}
          columns={columns}
        />
      </Panel>
      {(!user || user === who.user.id) && <Password onDone={again} />}
    </>
  );
}
