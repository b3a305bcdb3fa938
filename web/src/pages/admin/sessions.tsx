/** One's own sessions and password; for an admin, the sessions of anybody. */
import { useQueryClient } from "@tanstack/react-query";
import { api, type ItemOf, unwrap } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { plural, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useMay, useWho } from "../../session/session";
import { Button, Failed, Loading, Panel } from "../../ui/basics";
import { Sized } from "../../ui/sized";
import { type Column, Table } from "../../ui/table";
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
      toast("The session is ended.");
    } catch (error) {
      toastError(error, "It was not ended");
    }
    await again();
  };
  const columns: Column<Session>[] = [
    {
      id: "user",
      header: "User",
      width: "minmax(160px, 2fr)",
      cell: (session) => (
        <span className="cut">
          {emails.get(session.userId) ?? tail(session.userId)}
          {session.current && <span className="tag admin-tag">this one</span>}
        </span>
      ),
    },
    {
      id: "id",
      header: "Session",
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
      header: "Signed in",
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.createdAt} />,
    },
    {
      id: "refreshed",
      header: "Refreshed",
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.refreshedAt} />,
    },
    {
      id: "expires",
      header: "Ends",
      width: "110px",
      named: true,
      cell: (session) => <Ago at={session.expiresAt} />,
    },
    {
      id: "actions",
      header: "Actions",
      width: "90px",
      cell: (session) =>
        !session.current && (
          <Button size="small" kind="danger" onClick={() => void end(session)}>
            End
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
            aria-label="User"
            value={user ?? ""}
            onChange={(event) => set({ user: event.target.value })}
          >
            <option value="">everybody</option>
            {users.data?.items.map(({ id, email }) => (
              <option key={id} value={id}>
                {email}
              </option>
            ))}
          </select>
        </div>
      )}
      <Panel
        title="Open sessions"
        actions={list.data && <span className="soft small">{plural(list.total, "session")}</span>}
      >
        {list.error ? (
          <Failed error={list.error} retry={() => void list.refetch()} />
        ) : !list.data ? (
          <Loading />
        ) : list.rows.length === 0 ? (
          <p className="pad soft">There is none.</p>
        ) : (
          <Sized rows={list.rows.length}>
            <Table
              label="Sessions"
              rows={list.rows}
              total={list.total}
              more={list.more}
              keyOf={(session) => session.id}
              columns={columns}
            />
          </Sized>
        )}
      </Panel>
      {(!user || user === who.user.id) && <Password onDone={again} />}
    </>
  );
}
