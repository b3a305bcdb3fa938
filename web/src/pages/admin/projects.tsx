/** The projects of the server that one may see: their members, what they have used; made, changed, archived. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams as useRoute } from "wouter";
import { type ApiError, api, type DataOf, get, unwrap } from "../../api/client";
import { count, money, short } from "../../lib/format";
import { DEFAULT, headerOf, inProject } from "../../lib/project";
import { isHere, type Project, useProjects } from "../../session/projects";
import { useWho } from "../../session/session";
import { Button, Failed, Field } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";
import { Members } from "./members";

export default function Projects() {
  const { id } = useRoute<{ id?: string }>();
  return id === undefined ? <List /> : <Members id={id} />;
}

type Asked = { what: "new" } | { what: "edit" | "archive" | "delete"; project: Project };

function List() {
  const read = useProjects();
  const { data: figures } = useFigures();
  const [asked, setAsked] = useState<Asked>();
  const isAdmin = useWho().user.role === "admin";
  const columns: Column<Project>[] = [
    {
      id: "name",
      header: t`Project`,
      width: "minmax(180px, 2fr)",
      cell: (project) => <Name of={project} />,
    },
    {
      id: "role",
      header: t`Your role`,
      width: "90px",
      named: true,
      cell: ({ role }) =>
        role ?? (
          <span className="faint">
            <Trans>none</Trans>
          </span>
        ),
    },
    {
      id: "members",
      header: t`Members`,
      width: "90px",
      number: true,
      cell: (project) => <Link href={`/admin/projects/${project.id}`}>{count(project.members)}</Link>,
    },
    {
      id: "tasks",
      header: t`Tasks`,
      width: "90px",
      number: true,
      cell: (project) => (
        <Used of={figures} by={project}>
          {({ tasks }) => short(tasks)}
        </Used>
      ),
    },
    {
      id: "tokens",
      header: t`Tokens`,
      width: "90px",
      number: true,
      cell: (project) => (
        <Used of={figures} by={project}>
          {({ input, output }) => short(input + output)}
        </Used>
      ),
    },
    {
      id: "cost",
      header: t`Cost`,
      width: "100px",
      number: true,
      cell: (project) => (
        <Used of={figures} by={project}>
          {({ totalCost, priceUnknown }) => (
            <>
              {money(totalCost)}
              {priceUnknown && (
                <span className="faint" data-tip={t`A model without a price counts as $0.`}>
                  {" "}
                  + ?
                </span>
              )}
            </>
          )}
        </Used>
      ),
    },
    {
      id: "created",
      header: t`Created`,
      width: "100px",
      phone: false,
      cell: ({ createdAt }) => (createdAt ? <Ago at={createdAt} /> : <span className="faint">–</span>),
    },
    {
      id: "actions",
      header: t`Actions`,
      width: isAdmin ? "290px" : "90px",
      cell: (project) => (
        <span className="row">
          {project.role && !isHere(project) && (
            <a className="button" data-size="small" href={inProject("/", project.id)}>
              <Trans>Open</Trans>
            </a>
          )}
          {isAdmin && project.id !== DEFAULT && (
            <>
              <Button size="small" onClick={() => setAsked({ what: "edit", project })}>
                <Trans>Edit</Trans>
              </Button>
              <Button size="small" onClick={() => setAsked({ what: "archive", project })}>
                {project.archivedAt ? t`Take out` : t`Archive`}
              </Button>
              <Button size="small" onClick={() => setAsked({ what: "delete", project })}>
                <Trans>Delete</Trans>
              </Button>
            </>
          )}
        </span>
      ),
    },
  ];
  const projects = read.data;
  const close = () => setAsked(undefined);
  return (
    <>
      <div className="filters">
        {isAdmin && (
          <Button kind="primary" icon="plus" onClick={() => setAsked({ what: "new" })}>
            <Trans>New project</Trans>
          </Button>
        )}
        <span className="soft small">
          <Trans>Tasks, tokens and cost are those of the last 30 days.</Trans>
          {figures && figures.silent.length > 0 && (
            <>
              {" "}
              <Trans>These cells do not answer: {figures.silent.join(", ")}.</Trans>
            </>
          )}
        </span>
      </div>
      <Listed
        label={t`Projects`}
        list={{ ...read, rows: projects }}
        keyOf={({ id }) => id}
        columns={columns}
      />
      {asked?.what === "new" && <Edit onClose={close} />}
      {asked?.what === "edit" && <Edit of={asked.project} onClose={close} />}
      {asked?.what === "archive" && <Archive of={asked.project} onClose={close} />}
      {asked?.what === "delete" && <Delete of={asked.project} onClose={close} />}
    </>
  );
}

function Name({ of }: { of: Project }) {
  return (
    <span className="cut">
      <Link href={`/admin/projects/${of.id}`} className="text-link" translate="no">
        {of.name}
      </Link>
      {isHere(of) && (
        <span className="tag admin-tag">
          <Trans>here</Trans>
        </span>
      )}
      {of.cell && (
        <span className="tag admin-tag" translate="no" data-tip={t`The cell that has its rows`}>
          {of.cell}
        </span>
      )}
      {of.movingTo && (
        <span className="tag admin-tag">
          <Trans>moves to {of.movingTo}</Trans>
        </span>
      )}
      {of.archivedAt && (
        <span className="tag admin-tag">
          <Trans>archived</Trans>
        </span>
      )}
      {of.description && (
        <>
          {" "}
          <span className="faint small" translate="no" dir="auto" data-tip={of.description}>
            {of.description}
          </span>
        </>
      )}
    </span>
  );
}

type Figures = DataOf<"/api/projects/figures">;
type Total = NonNullable<Figures["projects"][number]["usage"]>;

/** The counts and costs of all projects, of which only those that one may know. */
function useFigures() {
  return useQuery<Figures, ApiError>({
    queryKey: ["/api/projects", "figures"],
    queryFn: ({ signal }) => get("/api/projects/figures", {}, signal, headerOf(DEFAULT)),
    staleTime: 60_000,
  });
}

/** A figure of a project. */
function Used(props: { of?: Figures; by: Project; children: (total: Total) => React.ReactNode }) {
  const usage = props.of?.projects.find(({ project }) => project === props.by.id)?.usage;
  return <>{usage ? props.children(usage) : <span className="faint">–</span>}</>;
}

/** Reads the projects again; what is about the server goes to `default`. */
function useChanged() {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ["/api/projects"] });
}

function Edit({ of, onClose }: { of?: Project; onClose: () => void }) {
  const changed = useChanged();
  const [name, setName] = useState(of?.name ?? "");
  const [description, setDescription] = useState(of?.description ?? "");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const fault = (field: string) => error?.faults.find((each) => each.field === field)?.message;
  const submit = async () => {
    setBusy(true);
    const headers = headerOf(DEFAULT);
    try {
      if (of) {
        const params = { path: { id: of.id } };
        await unwrap(api.PATCH("/api/projects/{id}", { params, headers, body: { name, description } }));
      } else {
        const body = { name, description: description || undefined };
        await unwrap(api.POST("/api/projects", { headers, body }));
        toast(t`${name} takes work. You are its first admin.`);
      }
      await changed();
      onClose();
    } catch (refused) {
      setError(refused as ApiError);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={of ? t`Change ${of.name}` : t`New project`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy}>
            {of ? t`Change` : t`Create`}
          </Button>
        </>
      }
    >
      {error && error.faults.length === 0 && (
        <Failed error={error} what={of ? t`It was not changed` : t`It was not created`} />
      )}
      <Field label={t`Name`} fault={fault("name")}>
        {(props) => (
          <input
            {...props}
            className="input"
            required
            maxLength={100}
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <Field label={t`Description`} hint={t`For people; may be left out.`} fault={fault("description")}>
        {(props) => (
          <textarea
            {...props}
            className="textarea"
            maxLength={1000}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}

function Archive({ of, onClose }: { of: Project; onClose: () => void }) {
  const changed = useChanged();
  const isOut = of.archivedAt !== undefined;
  return (
    <Confirm
      title={isOut ? t`Take ${of.name} out of the archive` : t`Put ${of.name} into the archive`}
      verb={isOut ? t`Take it out` : t`Archive`}
      onClose={onClose}
      run={async () => {
        const params = { path: { id: of.id } };
        const body = { archived: !isOut };
        await unwrap(api.PATCH("/api/projects/{id}", { params, headers: headerOf(DEFAULT), body }));
        toast(isOut ? t`${of.name} takes work again.` : t`${of.name} is in the archive.`);
        await changed();
      }}
    >
      <p>
        {isOut ? (
          <Trans>It takes new work again, and its schedules start what is due from then on.</Trans>
        ) : (
          <Trans>
            It takes no new work: submissions are refused, and its schedules start nothing. What runs goes on
            to its end, and everything can be read. You can take it out again.
          </Trans>
        )}
      </p>
    </Confirm>
  );
}

/** Deletes a project once its name has been typed. */
function Delete({ of, onClose }: { of: Project; onClose: () => void }) {
  const changed = useChanged();
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      const params = { path: { id: of.id } };
      await unwrap(
        api.DELETE("/api/projects/{id}", { params, headers: headerOf(DEFAULT), body: { confirm: typed } }),
      );
      toast(t`${of.name} is deleted.`);
      await changed();
      onClose();
    } catch (refused) {
      setError(refused as ApiError);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Delete ${of.name}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="danger" busy={busy} disabled={typed !== of.name}>
            <Trans>Delete</Trans>
          </Button>
        </>
      }
    >
      {error && <Failed error={error} what={t`It was not deleted`} />}
      <p>
        <Trans>
          Unfinished work is cancelled, its keys are revoked, and its tasks, executions, reviews, files and
          figures are removed for good. Only a backup brings them back.
        </Trans>
      </p>
      <Field label={t`The project's name`} hint={t`Type ${of.name}.`}>
        {(props) => (
          <input
            {...props}
            className="input"
            required
            autoComplete="off"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        )}
      </Field>
    </Dialog>
  );
}
