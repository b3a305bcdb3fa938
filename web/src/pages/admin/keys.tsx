/** Keys of programs: made, rotated, revoked. The key itself is shown once, and kept nowhere. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, api, type ItemOf, type Schemas, unwrap } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { Button, Command, Empty, Failed, Field } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import { Mark, Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toast";

type Key = ItemOf<"/api/auth/keys">;
type Made = Schemas["Key"];
type Asked = { what: "new" } | { what: "rotate" | "revoke"; key: Key } | { what: "made"; made: Made };

export default function Keys() {
  const list = useRows("/api/auth/keys");
  const client = useQueryClient();
  const [asked, setAsked] = useState<Asked>();
  const again = () => client.invalidateQueries({ queryKey: ["/api/auth/keys"] });
  const made = (key: Made) => {
    setAsked({ what: "made", made: key });
    void again();
  };
  const close = () => setAsked(undefined);
  const columns: Column<Key>[] = [
    {
      id: "name",
      header: t`Key`,
      width: "minmax(150px, 2fr)",
      cell: (key) => <span className="cut">{key.name}</span>,
    },
    {
      id: "key",
      header: t`Begins, ends`,
      width: "190px",
      cell: (key) => (
        <span translate="no" className="mono">
          {key.prefix}…{key.last4}
        </span>
      ),
    },
    { id: "role", header: t`Role`, width: "90px", cell: (key) => key.role },
    { id: "environment", header: t`For`, width: "70px", phone: false, cell: (key) => key.environment },
    { id: "state", header: t`State`, width: "110px", cell: (key) => <State state={key.status} /> },
    {
      id: "used",
      header: t`Last used`,
      width: "100px",
      named: true,
      cell: (key) =>
        key.lastUsedAt ? (
          <Ago at={key.lastUsedAt} />
        ) : (
          <span className="faint">
            <Trans>never</Trans>
          </span>
        ),
    },
    {
      id: "created",
      header: t`Created`,
      width: "90px",
      phone: false,
      cell: (key) => <Ago at={key.createdAt} />,
    },
    {
      id: "expires",
      header: t`Ends`,
      width: "90px",
      named: true,
      cell: (key) => <Ago at={key.revokedAt ?? key.expiresAt} />,
    },
    {
      id: "actions",
      header: t`Actions`,
      width: "160px",
      cell: (key) =>
        key.status === "active" && (
          <span className="row">
            <Button size="small" onClick={() => setAsked({ what: "rotate", key })}>
              <Trans>Rotate</Trans>
            </Button>
            <Button size="small" kind="danger" onClick={() => setAsked({ what: "revoke", key })}>
              <Trans>Revoke</Trans>
            </Button>
          </span>
        ),
    },
  ];
  return (
    <>
      <div className="filters">
        <Button kind="primary" icon="plus" onClick={() => setAsked({ what: "new" })}>
          <Trans>New key</Trans>
        </Button>
        <span className="faint">{list.data ? count(list.total) : ""}</span>
      </div>
      <Listed
        list={list}
        empty={
          <Empty title={t`There is no key yet`} command="callboard keys create --name ci --role operator">
            <Trans>Programs sign in with a key; workers need one of role worker.</Trans>
          </Empty>
        }
        label={t`Keys`}
        keyOf={(key) => key.id}
        columns={columns}
      />
      {asked?.what === "new" && <New onClose={close} onMade={made} />}
      {asked?.what === "made" && <Shown made={asked.made} onClose={close} />}
      {asked?.what === "rotate" && <Rotate of={asked.key} onClose={close} onMade={made} />}
      {asked?.what === "revoke" && (
        <Confirm
          title={t`Revoke ${asked.key.name}`}
          verb={t`Revoke`}
          onClose={close}
          run={async () => {
            await unwrap(api.DELETE("/api/auth/keys/{id}", { params: { path: { id: asked.key.id } } }));
            toast(t`${asked.key.name} is revoked.`);
            await again();
          }}
        >
          <p>
            <Trans>
              Programs with the key that ends in{" "}
              <span translate="no" className="mono">
                {asked.key.last4}
              </span>{" "}
              are refused at once, and their connections close. It cannot be taken back.
            </Trans>
          </p>
        </Confirm>
      )}
    </>
  );
}

function State({ state }: { state: string }) {
  if (state !== "expired") return <Status state={state} />;
  return (
    <Mark tone="mute" icon="clock">
      <Trans>expired</Trans>
    </Mark>
  );
}

function New({ onClose, onMade }: { onClose: () => void; onMade: (made: Made) => void }) {
  const [key, setKey] = useState({ name: "", role: "operator", days: "90", environment: "live", queues: "" });
  const [error, setError] = useState<ApiError>();
  const fault = (field: string) =>
    error?.faults.find((each) => each.field === field || each.field.startsWith(`${field}[`))?.message;
  const submit = async () => {
    try {
      const queues = key.queues.split(",").map((queue) => queue.trim());
      const body = {
        name: key.name,
        role: key.role,
        environment: key.role === "worker" ? undefined : key.environment,
        expiresIn: `${key.days.trim()}d`,
        queues: key.role === "worker" && key.queues.trim() ? queues : undefined,
      } as Schemas["CreateKey"];
      onMade(await unwrap(api.POST("/api/auth/keys", { body })));
    } catch (refused) {
      setError(refused as ApiError);
    }
  };
  return (
    <Dialog
      title={t`New key`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Create</Trans>
          </Button>
        </>
      }
    >
      {error && error.faults.length === 0 && <Failed error={error} what={t`It was not created`} />}
      <Field label={t`Name`} hint={t`Of the program that uses it.`} fault={fault("name")}>
        {(props) => (
          <input
            {...props}
            className="input"
            required
            value={key.name}
            onChange={(event) => setKey({ ...key, name: event.target.value })}
          />
        )}
      </Field>
      <Field label={t`Role`} fault={fault("role")}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={key.role}
            onChange={(event) => setKey({ ...key, role: event.target.value })}
          >
            {["operator", "reviewer", "viewer", "worker", "backup", "admin"].map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
        )}
      </Field>
      {key.role === "worker" ? (
        <Field label={t`Queues`} hint={t`Separated by commas; empty is every queue.`} fault={fault("queues")}>
          {(props) => (
            <input
              {...props}
              className="input"
              value={key.queues}
              onChange={(event) => setKey({ ...key, queues: event.target.value })}
            />
          )}
        </Field>
      ) : (
        <Field
          label={t`For`}
          hint={t`A test key sees the sandbox only: other queues, a simulated model, no accounts.`}
          fault={fault("environment")}
        >
          {(props) => (
            <select
              {...props}
              className="select"
              value={key.environment}
              onChange={(event) => setKey({ ...key, environment: event.target.value })}
            >
              <option value="live">{t`live`}</option>
              <option value="test">{t`test`}</option>
            </select>
          )}
        </Field>
      )}
      <Field label={t`Ends after, in days`} fault={fault("expiresIn")}>
        {(props) => (
          <input
            {...props}
            className="input"
            inputMode="numeric"
            value={key.days}
            onChange={(event) => setKey({ ...key, days: event.target.value })}
          />
        )}
      </Field>
    </Dialog>
  );
}

function Shown({ made, onClose }: { made: Made; onClose: () => void }) {
  return (
    <Dialog
      title={t`The key of ${made.name}`}
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          <Trans>I have copied it</Trans>
        </Button>
      }
    >
      <p>
        <Trans>It is shown this once. The server keeps no copy, only what recognizes it.</Trans>
      </p>
      <Command>{made.key}</Command>
      <dl className="facts">
        <dt>
          <Trans>Role</Trans>
        </dt>
        <dd>{made.role}</dd>
        <dt>
          <Trans>Ends</Trans>
        </dt>
        <dd>
          <Ago at={made.expiresAt} />
        </dd>
      </dl>
    </Dialog>
  );
}

function Rotate({
  of: key,
  onClose,
  onMade,
}: {
  of: Key;
  onClose: () => void;
  onMade: (made: Made) => void;
}) {
  const [overlap, setOverlap] = useState("1h");
  const [error, setError] = useState<Error>();
  const submit = async () => {
    try {
      const params = { path: { id: key.id } };
      onMade(await unwrap(api.POST("/api/auth/keys/{id}/rotate", { params, body: { overlap } })));
    } catch (refused) {
      setError(refused as Error);
    }
  };
  return (
    <Dialog
      title={t`Rotate ${key.name}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" kind="primary">
            <Trans>Make the new key</Trans>
          </Button>
        </>
      }
    >
      <Field label={t`The old key ends`} fault={error?.message}>
        {(props) => (
          <select
            {...props}
            className="select"
            value={overlap}
            onChange={(event) => setOverlap(event.target.value)}
          >
            <option value="0s">{t`at once`}</option>
            <option value="1h">{t`in an hour`}</option>
            <option value="1d">{t`in a day`}</option>
            <option value="7d">{t`in a week`}</option>
          </select>
        )}
      </Field>
    </Dialog>
  );
}
