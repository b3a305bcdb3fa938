/** Inviting people: a link that is shown once; the open invitations, which can be revoked. */
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
      <Dialog title="The invitation" onClose={onClose} footer={<Button onClick={onClose}>Done</Button>}>
        <p>
          {made.mailed
            ? `A mail with this link goes to ${made.email}.`
            : `Send this link to ${made.email ?? "the person"}.`}{" "}
          It makes one account as {made.role}, and counts until <Ago at={made.expiresAt} />. It is shown only
          here.
        </p>
        <Command>{made.url}</Command>
      </Dialog>
    );
  }
  return (
    <Dialog
      title="Invite a person"
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            Make the link
          </Button>
        </>
      }
    >
      {error && error.faults.length === 0 && <Failed error={error} what="It was not made" />}
      <Field label="E-mail" hint="May be left out: the person then chooses one." fault={fault("email")}>
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
      <Field label="Name" hint="May be left out." fault={fault("name")}>
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
      toast("The invitation is revoked.");
    } catch (error) {
      toastError(error, "It was not revoked");
    }
    await list.refetch();
  };
  return (
    <Dialog title="Open invitations" onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <Loaded query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">None is open.</p>
          ) : (
            <ul className="stack admin-invitations">
              {items.map((open) => (
                <li key={open.id} className="row between">
                  <span className="cut">
                    {open.email ?? open.name ?? "anybody with the link"}{" "}
                    <span className="faint">{open.role}</span>
                  </span>
                  <span className="faint small">
                    until <Ago at={open.expiresAt} />
                  </span>
                  <Button
                    size="small"
                    kind="danger"
                    aria-label={`Revoke the invitation of ${open.email ?? open.id}`}
                    onClick={() => void revoke(open.id)}
                  >
                    Revoke
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
