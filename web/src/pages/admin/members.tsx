/** The members of a project: given a role, another one, or none. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { Link, useLocation } from "wouter";
import { type ApiError, api, type ItemOf, unwrap } from "../../api/client";
import { useApi, usePage, useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { DEFAULT, headerOf, inProject } from "../../lib/project";
import { isHere, type Project } from "../../session/projects";
import { sessionDoubted, useWho } from "../../session/session";
import { Button, Failed, Field, Loaded } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";
import { CellOf, WHILE_MOVING } from "./cell";
import { Person } from "./person";
import { MAY, OF_MEMBERS, type Role, RoleField } from "./role";

type Member = ItemOf<"/api/projects/{id}/members">;
type Asked =
  | { what: "add" }
  | { what: "remove"; member: Member }
  | { what: "role"; member: Member; role: Role };

export function Members({ id }: { id: string }) {
  const project = useApi(
    "/api/projects/{id}",
    { path: { id } },
    { staleTime: 0, refetchInterval: ({ state }) => (state.data?.movingTo ? WHILE_MOVING : false) },
  );
  return <Loaded query={project}>{(project) => <Found project={project} />}</Loaded>;
}

/** The project for which its members are changed: its own for its admins, and `default` for those of the server. */
const actsFor = ({ id, role }: Project) => headerOf(role === "admin" ? id : DEFAULT);

function Found({ project }: { project: Project }) {
  const { user } = useWho();
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const list = useRows("/api/projects/{id}/members", { path: { id: project.id } });
  const [asked, setAsked] = useState<Asked>();
  const isDefault = project.id === DEFAULT;
  const mayChange = !isDefault && (project.role === "admin" || user.role === "admin");
  const admins = list.rows.filter(({ role }) => role === "admin");
  const isLastAdmin = (member: Member) => admins.length === 1 && admins[0]?.userId === member.userId;
  const close = () => setAsked(undefined);
  const again = async (userId?: string) => {
    await client.invalidateQueries({ queryKey: ["/api/projects/{id}/members"] });
    await client.invalidateQueries({ queryKey: ["/api/projects/{id}"] });
    // One's own role here is what the pages offer.
    if (userId === user.id && isHere(project)) sessionDoubted(client);
    else await client.invalidateQueries({ queryKey: ["/api/projects"] });
  };
  const give = async (named: string, role: Role) => {
    const params = { path: { id: project.id, user: named } };
    const headers = actsFor(project);
    const given = await unwrap(
      api.PUT("/api/projects/{id}/members/{user}", { params, headers, body: { role } }),
    );
    toast(t`${given.email} is ${role} of ${project.name} from now on.`);
    await again(given.userId);
  };
  const columns: Column<Member>[] = [
    {
      id: "user",
      header: t`User`,
      width: "minmax(200px, 2fr)",
      cell: ({ userId, email, name }) => <Person id={userId} email={email} name={name} />,
    },
    {
      id: "role",
      header: t`Role`,
      width: "130px",
      cell: (member) =>
        mayChange ? (
          <select
            className="select admin-select"
            aria-label={t`Role of ${member.email}`}
            value={member.role}
            onChange={(event) => setAsked({ what: "role", member, role: event.target.value as Role })}
          >
            {OF_MEMBERS.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
        ) : (
          member.role
        ),
    },
    { id: "since", header: t`Since`, width: "110px", named: true, cell: ({ since }) => <Ago at={since} /> },
  ];
  if (mayChange) {
    columns.push({
      id: "actions",
      header: t`Actions`,
      width: "110px",
      cell: (member) => (
        <Button size="small" kind="danger" onClick={() => setAsked({ what: "remove", member })}>
          <Trans>Remove</Trans>
        </Button>
      ),
    });
  }
  return (
    <>
      <div className="stack">
        <div className="row wrap">
          <Link href="/admin/projects" className="small">
            <Trans>All projects</Trans>
          </Link>
          <h2 translate="no">{project.name}</h2>
          {project.archivedAt && (
            <span className="tag">
              <Trans>archived</Trans>
            </span>
          )}
          {project.role && !isHere(project) && (
            <a className="button" data-size="small" href={inProject("/", project.id)}>
              <Trans>Open</Trans>
            </a>
          )}
        </div>
        {project.description && (
          <p className="soft admin-description" translate="no" dir="auto">
            {project.description}
          </p>
        )}
        {isDefault && (
          <p className="soft">
            <Trans>Everybody who has an account is in it, with the role of the account.</Trans>
          </p>
        )}
        {user.role === "admin" && <CellOf project={project} />}
      </div>
      <div className="filters">
        {mayChange && (
          <Button kind="primary" icon="plus" onClick={() => setAsked({ what: "add" })}>
            <Trans>Add a member</Trans>
          </Button>
        )}
        <span className="faint">{list.data ? count(list.total) : ""}</span>
      </div>
      <Listed
        list={list}
        empty={
          <p className="soft">
            <Trans>Nobody has a role in it.</Trans>
          </p>
        }
        label={t`Members`}
        keyOf={({ userId }) => userId}
        columns={columns}
      />
      {asked?.what === "add" && <Add project={project} members={list.rows} give={give} onClose={close} />}
      {asked?.what === "role" && (
        <Confirm
          title={t`Make ${asked.member.email} ${asked.role}`}
          verb={t`Make ${asked.role}`}
          onClose={close}
          run={() => give(asked.member.userId, asked.role)}
        >
          <p>
            <Trans>
              {asked.member.name} was {asked.member.role} ({MAY[asked.member.role as Role]}), and then{" "}
              {MAY[asked.role]}. It counts from the next request on. Keys that the new role could not give are
              revoked.
            </Trans>
          </p>
          {isLastAdmin(asked.member) && <NoAdmin />}
        </Confirm>
      )}
      {asked?.what === "remove" && (
        <Confirm
          title={t`Remove ${asked.member.email} from ${project.name}`}
          verb={t`Remove`}
          onClose={close}
          run={async () => {
            const params = { path: { id: project.id, user: asked.member.userId } };
            const headers = actsFor(project);
            await unwrap(api.DELETE("/api/projects/{id}/members/{user}", { params, headers }));
            toast(t`${asked.member.email} has no role in ${project.name} any more.`);
            const isSelf = asked.member.userId === user.id;
            if (isSelf && user.role !== "admin" && !isHere(project)) navigate("/admin/projects");
            await again(asked.member.userId);
          }}
        >
          <p>
            {asked.member.userId === user.id ? (
              <Trans>You see nothing of the project from then on, and open pages end.</Trans>
            ) : (
              <Trans>
                {asked.member.name} sees nothing of the project from then on, and open pages end within 5
                seconds.
              </Trans>
            )}
          </p>
          <ul className="admin-follows">
            <li>
              <Trans>Keys of the project that the user answers for are revoked.</Trans>
            </li>
            <li>
              <Trans>Reviews that were assigned to the user go to another member.</Trans>
            </li>
            <li>
              <Trans>
                Work that the user has submitted goes on. Schedules in the user's name fail at their next
                occurrence.
              </Trans>
            </li>
          </ul>
          {isLastAdmin(asked.member) && <NoAdmin />}
        </Confirm>
      )}
    </>
  );
}

function NoAdmin() {
  return (
    <p>
      <strong>
        <Trans>The project then has no admin, until one of the server gives it another.</Trans>
      </strong>
    </p>
  );
}

function Add({
  project,
  members,
  give,
  onClose,
}: {
  project: Project;
  members: Member[];
  give: (named: string, role: Role) => Promise<void>;
  onClose: () => void;
}) {
  const isAdmin = useWho().user.role === "admin";
  const users = usePage("/api/auth/users", { query: { limit: 100 } } as never, { enabled: isAdmin });
  const known = new Set(members.map(({ userId }) => userId));
  const others = users.data?.items.filter(({ id }) => !known.has(id)) ?? [];
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("operator");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  const submit = async () => {
    setBusy(true);
    try {
      await give(email.trim(), role);
      onClose();
    } catch (refused) {
      setError(refused as ApiError);
      setBusy(false);
    }
  };
  const isUnknown = error?.status === 404;
  return (
    <Dialog
      title={t`Add a member to ${project.name}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            <Trans>Add</Trans>
          </Button>
        </>
      }
    >
      {error && !isUnknown && <Failed error={error} what={t`Nobody was added`} />}
      <Field
        label={t`E-mail`}
        hint={t`Of somebody who has an account on this server.`}
        fault={isUnknown ? t`Nobody has an account with this e-mail.` : undefined}
      >
        {(props) => (
          <input
            {...props}
            className="input"
            type="email"
            required
            autoComplete="off"
            list={id}
            value={email}
            onChange={(event) => {
              setEmail(event.target.value);
              setError(undefined);
            }}
          />
        )}
      </Field>
      <datalist id={id}>
        {others.map(({ id, email, name }) => (
          <option key={id} value={email}>
            {name}
          </option>
        ))}
      </datalist>
      <RoleField role={role} set={setRole} roles={OF_MEMBERS} />
    </Dialog>
  );
}
