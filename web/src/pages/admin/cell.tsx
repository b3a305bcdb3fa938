/** The cell that has the rows of a project, and the move to another one. On a server without cells there is nothing. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type ApiError, api, getPage, type ItemOf, unwrap } from "../../api/client";
import { useNames } from "../../lib/people";
import { DEFAULT, headerOf } from "../../lib/project";
import type { Project } from "../../session/projects";
import { Button, Failed, Field } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";

type Cell = ItemOf<"/api/cells">;
type Entry = ItemOf<"/api/audit">;

const HOME = "home";
const MOVES = ["project.moving", "project.moved", "project.stays"] as const;
const headers = headerOf(DEFAULT);

/** While a project moves, the page asks again after so long: no event tells of cells. */
export const WHILE_MOVING = 1_000;

export function CellOf({ project }: { project: Project }) {
  const cells = useQuery<Cell[], ApiError>({
    queryKey: ["/api/cells"],
    queryFn: async ({ signal }) =>
      (await getPage("/api/cells", { query: { limit: 100 } }, signal, headers)).items,
    staleTime: 0,
    refetchInterval: project.movingTo ? WHILE_MOVING : false,
  });
  const [asked, setAsked] = useState<"move" | "stay">();
  const close = () => setAsked(undefined);
  useEnd(project);
  if (!cells.data || cells.data.length < 2) return null;
  const cell = project.cell ?? HOME;
  const { movingTo: to } = project;
  const silent = cells.data.filter((it) => it.status === "silent" && [cell, to].includes(it.name));
  return (
    <section className="stack" aria-label={t`Cell`}>
      <div className="row wrap">
        <span>
          <Trans>
            It lives in the cell <Name of={cell} />.
          </Trans>
        </span>
        {project.id !== DEFAULT && !to && (
          <Button size="small" onClick={() => setAsked("move")}>
            <Trans>Move it to another cell</Trans>
          </Button>
        )}
        {!to && <LastMove of={project} />}
      </div>
      {to && (
        <div className="notice" data-tone="warn" role="status">
          <span className="status" data-tone="run">
            <Icon name="running" spin />
          </span>
          <div className="grow stack">
            <div>
              <strong>
                <Trans>
                  It moves to <Name of={to} />
                </Trans>
              </strong>
              <div>
                <Trans>
                  It stands still until its rows are there: requests are refused, workers wait, nothing is
                  lost.
                </Trans>{" "}
                <LastMove of={project} />
              </div>
              {silent.map(({ name }) => (
                <div key={name}>
                  <Trans>
                    <Name of={name} /> does not answer. The move goes on once it does, or give it up.
                  </Trans>
                </div>
              ))}
            </div>
            <div className="row">
              <Button size="small" onClick={() => setAsked("stay")}>
                <Trans>Give the move up</Trans>
              </Button>
            </div>
          </div>
        </div>
      )}
      {asked === "move" && <Move of={project} cells={cells.data} onClose={close} />}
      {asked === "stay" && to && <Stay of={project} onClose={close} />}
    </section>
  );
}

const Name = ({ of }: { of: string }) => <strong translate="no">{of}</strong>;

/** Shows a project as it is now, and reads again what its move changes. */
function useChanged() {
  const client = useQueryClient();
  return (project: Project) => {
    client.setQueryData(["/api/projects/{id}", { path: { id: project.id } }], project);
    for (const path of ["/api/projects", "/api/projects/{id}", "/api/audit"])
      void client.invalidateQueries({ queryKey: [path] });
  };
}

/** Says that a move has ended while its page was open. */
function useEnd(project: Project) {
  const changed = useChanged();
  const before = useRef(project.movingTo);
  useEffect(() => {
    const { name, cell = HOME, movingTo } = project;
    const to = before.current;
    before.current = movingTo;
    if (!to || movingTo) return;
    toast(cell === to ? t`${name} is in ${cell} now.` : t`${name} stays in ${cell}.`);
    changed(project);
  });
}

/** How the latest move began or ended, when, and by whom, as the audit log has it. */
function LastMove({ of }: { of: Project }) {
  const nameOf = useNames();
  const { data } = useQuery<Entry[], ApiError>({
    queryKey: ["/api/audit", { moves: of.id }],
    queryFn: async ({ signal }) => {
      const query = { action: [...MOVES], limit: 100 };
      const { items } = await getPage("/api/audit", { query }, signal, headers);
      return items.filter(({ target }) => target === of.id);
    },
    staleTime: 0,
  });
  const [last] = data ?? [];
  if (!last) return null;
  const begun = data?.find(
    ({ action, details }) => action === MOVES[0] && details?.move === last.details?.move,
  );
  const to = <Name of={String((begun ?? last).details?.to ?? "")} />;
  const who = nameOf(last.actor);
  return (
    <span className="soft small">
      {last.action === "project.moved" ? (
        <Trans>
          Moved here from <Name of={String(last.details?.from)} /> (<Ago at={last.at} />
          ).
        </Trans>
      ) : last.action === "project.stays" ? (
        <Trans>
          A move to {to} was given up by {who} (<Ago at={last.at} />
          ).
        </Trans>
      ) : (
        <Trans>
          Begun by {who} (<Ago at={last.at} />
          ).
        </Trans>
      )}
    </span>
  );
}

function Move({ of, cells, onClose }: { of: Project; cells: Cell[]; onClose: () => void }) {
  const changed = useChanged();
  const others = cells.filter(({ name }) => name !== (of.cell ?? HOME));
  const answering = others.filter(({ status }) => status !== "silent");
  const [chosen, setChosen] = useState(answering[0]?.name ?? "");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    try {
      const params = { path: { id: of.id } };
      changed(await unwrap(api.POST("/api/projects/{id}/move", { params, headers, body: { cell: chosen } })));
      onClose();
    } catch (refused) {
      setError(refused as ApiError);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t`Move ${of.name} to another cell`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button type="submit" kind="primary" busy={busy} disabled={!chosen}>
            <Trans>Move it</Trans>
          </Button>
        </>
      }
    >
      {error && <Failed error={error} what={t`It was not moved`} />}
      <Field label={t`Cell`}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={chosen}
            onChange={(event) => setChosen(event.target.value)}
          >
            {!chosen && <option value="">{t`No other cell answers`}</option>}
            {others.map(({ name, projects, status }) => (
              <option key={name} value={name} disabled={status === "silent"}>
                {status === "silent" ? t`${name}, which does not answer` : `${name} · ${numberOf(projects)}`}
              </option>
            ))}
          </select>
        )}
      </Field>
      <p>
        <Trans>
          The project stands still while its rows are copied and compared: for seconds if it is small, longer
          with many files and texts.
        </Trans>
      </p>
      <ul className="admin-follows">
        <li>
          <Trans>Requests for it are refused meanwhile with 503. The libraries and workers try again.</Trans>
        </li>
        <li>
          <Trans>
            Open pages and streams of it end, and come back. Tasks that run go on with their workers.
          </Trans>
        </li>
        <li>
          <Trans>
            Prices, the mail server and the secret that signs webhooks are those of the new cell. Receivers of
            webhooks need that secret.
          </Trans>
        </li>
        <li>
          <Trans>Other projects go on. Until it is there, the move can be given up.</Trans>
        </li>
      </ul>
    </Dialog>
  );
}

const numberOf = (projects: number) => plural(projects, { one: "# project", other: "# projects" });

function Stay({ of, onClose }: { of: Project; onClose: () => void }) {
  const changed = useChanged();
  return (
    <Confirm
      title={t`Give up the move of ${of.name}`}
      verb={t`Give it up`}
      onClose={onClose}
      run={async () => {
        const params = { path: { id: of.id } };
        changed(await unwrap(api.DELETE("/api/projects/{id}/move", { params, headers })));
      }}
    >
      <p>
        <Trans>It goes on at once where it was, with everything that had waited.</Trans>
      </p>
    </Confirm>
  );
}
