/** Inviting people: a link that is shown once; the open invitations, which can be revoked. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, api, type Schemas, unwrap } from "../../api/client";
import { usePage } from "../../api/hooks";
import { Button, Command, Failed, Field, Loaded } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { RoleField } from "./role";

export function Invite({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [asked, setAsked] = useState({
    email: "",
    name: "",
    role: "reviewer" as Schemas["CreateUser"]["role"],
  });
  const [made, setMade] = useState<Schemas["NewInvitation"]>();
  const [error, setError] = useState<ApiError>();
  const fault = (field: string) => error?.faults.find((each) => each.field === field)?.message;
  const submit = async () => {
    try {
      const body = { role: asked.role, email: asked.email || undefined, name: asked.name || undefined };
      setMade(await unwrap(api.POST("/api/auth/invitations", { body })));
      await client.invalidateQueries({ queryKey: ["/api/auth/invitations"] });
    } catch (refused) {
      setError(refused as ApiError);
    }
  };
  if (made) {
    return (
      <Dialog
        title={t`The invitation`}
        onClose={onClose}
        footer={
          <Button onClick={onClose}>
            <Trans>Done</Trans>
          </Button>
        }
      >
        <p>
          <Trans>
            {made.mailed
              ? t`A mail with this link goes to ${made.email ?? ""}.`
              : t`Send this link to ${made.email ?? t`the person`}.`}{" "}
            It makes one account as {made.role}, and counts until <Ago at={made.expiresAt} />. It is shown
            only here.
          </Trans>
        </p>
        <Command>{made.url}</Command>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={t`Invite a person`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Make the link</Trans>
          </Button>
        </>
      }
    >
      {error && error.faults.length === 0 && <Failed error={error} what={t`It was not made`} />}
      <Field label={t`E-mail`} hint={t`May be left out: the person then chooses one.`} fault={fault("email")}>
        {(props) => (
          <input
            {...props}
            className="input"
            type="email"
            autoComplete="off"
            value={asked.email}
            onChange={(event) => setAsked({ ...asked, email: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`Name`} hint={t`May be left out.`} fault={fault("name")}>
        {(props) => (
          <input
            {...props}
            className="input"
            autoComplete="off"
            value={asked.name}
            onChange={(event) => setAsked({ ...asked, name: event.target.value })}
          />
        )}
      </Field>
      <RoleField role={asked.role} set={(role) => setAsked({ ...asked, role })} fault={fault("role")} />
    </Dialog>
  );
}

export function Invitations({ onClose }: { onClose: () => void }) {
  const list = usePage("/api/auth/invitations", { query: { limit: 100 } });
  const revoke = async (id: string) => {
    try {
      await unwrap(api.DELETE("/api/auth/invitations/{id}", { params: { path: { id } } }));
      toast(t`The invitation is revoked.`);
    } catch (error) {
      toastError(error, t`It was not revoked`);
    }
    await list.refetch();
  };
  return (
    <Dialog
      title={t`Open invitations`}
      onClose={onClose}
      footer={
        <Button onClick={onClose}>
          <Trans>Close</Trans>
        </Button>
      }
    >
      <Loaded query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">
              <Trans>None is open.</Trans>
            </p>
          ) : (
            <ul className="stack admin-invitations">
              {items.map((open) => (
                <li key={open.id} className="row between">
                  <span className="cut">
                    {open.email ?? open.name ?? t`anybody with the link`}{" "}
                    <span className="faint">{open.role}</span>
                  </span>
                  <span className="faint small">
                    <Trans>
                      until <Ago at={open.expiresAt} />
                    </Trans>
                  </span>
                  <Button
                    size="small"
                    kind="danger"
                    aria-label={t`Revoke the invitation of ${open.email ?? open.id}`}
                    onClick={() => void revoke(open.id)}
                  >
                    <Trans>Revoke</Trans>
                  </Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Dialog>
  );
}
