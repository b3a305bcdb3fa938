/** The saved views of a list: to open, to rename, to share, to replace and to delete. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { api, unwrap } from "../api/client";
import { moveAmongLinks } from "../lib/arrows";
import { visible } from "../lib/visible";
import { useRole } from "../session/projects";
import { useMay, useWho } from "../session/session";
import { Button, Loaded } from "./basics";
import type { View, ViewPage, ViewsRead } from "./chips";
import { Dialog } from "./dialog";
import { toastError } from "./toast";
import "./views.css";

type Props = { page: ViewPage; here: string; views: ViewsRead; onClose: () => void };

export default function Views({ page, here, views, onClose }: Props) {
  return (
    <Dialog title={t`Views`} onClose={onClose}>
      <Loaded query={views}>
        {({ items }) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the arrows move among its links, which have the focus
          <div className="stack" onKeyDown={moveAmongLinks}>
            {items.length === 0 && (
              <p className="soft">
                <Trans>
                  No view of this list is saved yet. Set filters, then “Save view…” keeps them under a name,
                  for you or for everybody in the project.
                </Trans>
              </p>
            )}
            <ul className="views">
              {items.map((view) => (
                <One key={view.id} view={view} page={page} here={here} onClose={onClose} />
              ))}
            </ul>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

function One({
  view,
  page,
  here,
  onClose,
}: {
  view: View;
  page: ViewPage;
  here: string;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const may = useMay();
  const isOwn = view.createdBy === useWho().user.id;
  const role = useRole();
  const mayChange = isOwn || role === "admin";
  const [busy, setBusy] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const link = useRef<HTMLAnchorElement>(null);
  const leave = () => {
    setRenaming(false);
    requestAnimationFrame(() => link.current?.focus());
  };
  const params = { path: { id: view.id } };
  const act = async (call: Promise<{ data?: unknown; error?: unknown; response: Response }>) => {
    setBusy(true);
    try {
      await unwrap(call);
      await client.invalidateQueries({ queryKey: ["/api/views"] });
      if (renaming) leave();
    } catch (error) {
      toastError(error, t`The view stays as it is`);
    }
    setBusy(false);
  };
  const isHere = view.query === here;
  if (renaming) {
    return (
      <li>
        <Rename
          name={view.name}
          busy={busy}
          leave={leave}
          save={(name) => void act(api.PATCH("/api/views/{id}", { params, body: { name } }))}
        />
      </li>
    );
  }
  return (
    <li>
      <Link
        ref={link}
        href={view.query ? `/${page}?${view.query}` : `/${page}`}
        aria-current={isHere ? "true" : undefined}
        onClick={onClose}
      >
        <span className="cut" translate="no">
          {visible(view.name)}
        </span>
        {view.shared && (
          <span className="tag">
            <Trans>shared</Trans>
          </span>
        )}
      </Link>
      {mayChange && (
        <span className="views-actions">
          {!isHere && here !== "" && (
            <Button
              size="small"
              kind="quiet"
              busy={busy}
              data-tip={t`Keep the filters that are set now under this name`}
              aria-label={t`Replace the filters of ${view.name}`}
              onClick={() => void act(api.PATCH("/api/views/{id}", { params, body: { query: here } }))}
            >
              <Trans>Replace</Trans>
            </Button>
          )}
          <Button
            size="small"
            kind="quiet"
            aria-label={t`Rename ${view.name}`}
            onClick={() => setRenaming(true)}
          >
            <Trans>Rename</Trans>
          </Button>
          {isOwn && may("views: share") && (
            <Button
              size="small"
              kind="quiet"
              busy={busy}
              aria-label={view.shared ? t`Make ${view.name} private` : t`Share ${view.name}`}
              onClick={() =>
                void act(api.PATCH("/api/views/{id}", { params, body: { shared: !view.shared } }))
              }
            >
              {view.shared ? t`Make private` : t`Share`}
            </Button>
          )}
          <Button
            size="small"
            kind="quiet"
            icon="cross"
            busy={busy}
            aria-label={t`Delete ${view.name}`}
            onClick={() => void act(api.DELETE("/api/views/{id}", { params }))}
          />
        </span>
      )}
    </li>
  );
}

function Rename({
  name,
  busy,
  save,
  leave,
}: {
  name: string;
  busy: boolean;
  save: (name: string) => void;
  leave: () => void;
}) {
  const [text, setText] = useState(name);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const onKey = (event: KeyboardEvent) => {
    // The keys of the field are its own: the arrows move among links, and Escape closes the dialog.
    event.stopPropagation();
    if (event.key !== "Escape") return;
    event.preventDefault();
    leave();
  };
  return (
    <form
      className="views-rename"
      onKeyDown={onKey}
      onSubmit={(event) => {
        event.preventDefault();
        const next = text.trim();
        if (busy || next === "") return;
        if (next === name) leave();
        else save(next);
      }}
    >
      <input
        ref={field}
        className="input"
        aria-label={t`Name of ${name}`}
        maxLength={80}
        required
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <Button size="small" kind="primary" type="submit" busy={busy}>
        <Trans>Save</Trans>
      </Button>
      <Button size="small" kind="quiet" onClick={leave}>
        <Trans>Cancel</Trans>
      </Button>
    </form>
  );
}
