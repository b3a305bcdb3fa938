/** Users: who they are, their role; made, changed, deleted. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type ApiError, api, type ItemOf, type Schemas, unwrap } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { Button, Failed, Field } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";
import { Invitations, Invite } from "./invite";
import { Person } from "./person";
import { MAY, ROLES, type Role, RoleField } from "./role";

type User = ItemOf<"/api/auth/users">;
type Asked =
  | { what: "new" | "invite" | "invitations" }
  | { what: "delete" | "password"; user: User }
  | { what: "role"; user: User; role: Role };

export default function Users() {
  const list = useRows("/api/auth/users");
  const client = useQueryClient();
  const [asked, setAsked] = useState<Asked>();
  const again = () => client.invalidateQueries({ queryKey: ["/api/auth/users"] });
  const change = async (user: User, role: Role) => {
    const body = { role };
    await unwrap(api.PATCH("/api/auth/users/{id}", { params: { path: { id: user.id } }, body }));
    toast(t`${user.email} is ${role} from now on.`);
    await again();
  };
  const columns: Column<User>[] = [
    {
      id: "email",
      header: t`User`,
      width: "minmax(200px, 2fr)",
      cell: (user) => <Person {...user} />,
    },
    {
      id: "role",
      header: t`Role`,
      width: "130px",
      cell: (user) => (
        <select
          className="select admin-select"
          aria-label={t`Role of ${user.email}`}
          value={user.role}
          onChange={(event) => setAsked({ what: "role", user, role: event.target.value as Role })}
        >
          {ROLES.map((role) => (
            <option key={role} value={role}>
              {role}
            </option>
          ))}
        </select>
      ),
    },
    {
      id: "plan",
      header: t`Plan`,
      width: "100px",
      cell: (user) =>
        user.plan ?? (
          <span className="faint">
            <Trans>default</Trans>
          </span>
        ),
    },
    {
      id: "password",
      header: t`Password`,
      width: "130px",
      phone: false,
      cell: (user) =>
        user.passwordChangeRequired ? (
          <span>
            <Trans>must be changed</Trans>
          </span>
        ) : (
          <span className="faint">–</span>
        ),
    },
    { id: "created", header: t`Created`, width: "110px", cell: (user) => <Ago at={user.createdAt} /> },
    {
      id: "actions",
      header: t`Actions`,
      width: "250px",
      cell: (user) => (
        <span className="row">
          <Link className="button" data-size="small" href={`/admin/sessions?user=${user.id}`}>
            <Trans>Sessions</Trans>
          </Link>
          <Button size="small" onClick={() => setAsked({ what: "password", user })}>
            <Trans>Password</Trans>
          </Button>
          <Button size="small" kind="danger" onClick={() => setAsked({ what: "delete", user })}>
            <Trans>Delete</Trans>
          </Button>
        </span>
      ),
    },
  ];
  return (
    <>
      <div className="filters">
        <Button kind="primary" icon="plus" onClick={() => setAsked({ what: "invite" })}>
          <Trans>Invite</Trans>
        </Button>
        <Button onClick={() => setAsked({ what: "new" })}>
          <Trans>New user</Trans>
        </Button>
        <Button kind="quiet" onClick={() => setAsked({ what: "invitations" })}>
          <Trans>Open invitations</Trans>
        </Button>
        <span className="faint">{list.data ? count(list.total) : ""}</span>
      </div>
      <Listed list={list} label={t`Users`} keyOf={(user) => user.id} columns={columns} />
      {asked?.what === "new" && <New onClose={() => setAsked(undefined)} onDone={again} />}
      {asked?.what === "invite" && <Invite onClose={() => setAsked(undefined)} />}
      {asked?.what === "invitations" && <Invitations onClose={() => setAsked(undefined)} />}
      {asked?.what === "role" && (
        <Confirm
          title={t`Make ${asked.user.email} ${asked.role}`}
          verb={t`Make ${asked.role}`}
          onClose={() => setAsked(undefined)}
          run={() => change(asked.user, asked.role)}
        >
          <p>
            <Trans>
              {asked.user.name} was {asked.user.role} ({MAY[asked.user.role as Role]}), and then{" "}
              {MAY[asked.role]}. It counts from the next request on. Keys that the new role could not give are
              revoked.
            </Trans>
          </p>
        </Confirm>
      )}
      {asked?.what === "password" && (
        <Password user={asked.user} onClose={() => setAsked(undefined)} onDone={again} />
      )}
      {asked?.what === "delete" && (
        <Delete
          user={asked.user}
          others={list.rows.filter(
            (other) => other.id !== asked.user.id && (other.role === "admin" || other.role === "operator"),
          )}
          onClose={() => setAsked(undefined)}
          onDone={again}
        />
      )}
    </>
  );
}

/** Asks what becomes of the user's unfinished work, which is then cancelled or another user's. */
function Delete({
  user,
  others,
  onClose,
  onDone,
}: {
  user: User;
  others: User[];
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [work, setWork] = useState("");
  return (
    <Confirm
      title={t`Delete ${user.email}`}
      verb={t`Delete`}
      onClose={onClose}
      run={async () => {
        const params = { path: { id: user.id }, query: work ? { work } : {} };
        await unwrap(api.DELETE("/api/auth/users/{id}", { params }));
        toast(t`${user.email} is deleted.`);
        await onDone();
      }}
    >
      <p>
        <Trans>
          All sessions of {user.email} end, and the keys that nobody else could have given. What they did
          stays in the audit log and in the histories of reviews.
        </Trans>
      </p>
      <Field label={t`Unfinished work`}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={work}
            onChange={(event) => setWork(event.target.value)}
          >
            <option value="">{t`There is none`}</option>
            <option value="cancel">{t`Cancel it`}</option>
            {others.map((other) => (
              <option key={other.id} value={other.id}>
                {t`Hand it over to ${other.email}`}
              </option>
            ))}
          </select>
        )}
      </Field>
    </Confirm>
  );
}

function New({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [user, setUser] = useState({
    email: "",
    name: "",
    password: "",
    role: "operator" as Role,
    mustChangePassword: true,
  });
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const fault = (field: string) => error?.faults.find((each) => each.field === field)?.message;
  const submit = async () => {
    setBusy(true);
    try {
      const body: Schemas["CreateUser"] = { ...user, name: user.name || undefined };
      await unwrap(api.POST("/api/auth/users", { body }));
      toast(t`${user.email} can sign in.`);
      await onDone();
      onClose();
    } catch (refused) {
      setError(refused as ApiError);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`New user`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            <Trans>Create</Trans>
          </Button>
        </>
      }
    >
      {error && error.faults.length === 0 && <Failed error={error} what={t`It was not created`} />}
      <Field label={t`E-mail`} fault={fault("email")}>
        {(props) => (
          <input
            {...props}
            className="input"
            type="email"
            required
            autoComplete="off"
            value={user.email}
            onChange={(event) => setUser({ ...user, email: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`Name`} fault={fault("name")}>
        {(props) => (
          <input
            {...props}
            className="input"
            autoComplete="off"
            value={user.name}
            onChange={(event) => setUser({ ...user, name: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`First password`} fault={fault("password")}>
        {(props) => (
          <input
            {...props}
            className="input"
            type="password"
            required
            autoComplete="new-password"
            value={user.password}
            onChange={(event) => setUser({ ...user, password: event.target.value })}
          />
        )}
      </Field>
      <label className="check">
        <input
          type="checkbox"
          checked={user.mustChangePassword}
          onChange={(event) => setUser({ ...user, mustChangePassword: event.target.checked })}
        />
        <Trans>They choose another one at the first sign-in</Trans>
      </label>
      <RoleField role={user.role} set={(role) => setUser({ ...user, role })} fault={fault("role")} />
    </Dialog>
  );
}

function Password({
  user,
  onClose,
  onDone,
}: {
  user: User;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [password, setPassword] = useState("");
  const [fault, setFault] = useState<string>();
  const submit = async () => {
    try {
      const params = { path: { id: user.id } };
      await unwrap(api.PATCH("/api/auth/users/{id}", { params, body: { password } }));
      toast(t`${user.email} must choose another password at the next sign-in.`);
      await onDone();
      onClose();
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  return (
    <Dialog
      title={t`Password of ${user.email}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Set</Trans>
          </Button>
        </>
      }
    >
      <Field label={t`New password`} hint={t`Until it is changed, they can do nothing else.`} fault={fault}>
        {(props) => (
          <input
            {...props}
            className="input"
            type="password"
            required
            autoComplete="new-password"
            value={password}
            onChange={(event) => setPassword(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
