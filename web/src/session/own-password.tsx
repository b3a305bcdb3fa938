/** Setting one's own password: by an invitation, by the link of a mail; and asking for that mail. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type FormEvent, type ReactNode, useState } from "react";
import { api, type Schemas, unwrap } from "../api/client";
import { Button, Field, Loading } from "../ui/basics";
import { said, useOnce } from "./confirm";
import { Notice } from "./notice";
import { useSignIn } from "./session";

const RULE = t`8 to 128 characters, none of the common ones.`;

/** The page is read anew: somebody else may have been signed in here. */
const enter = () => window.location.replace("/");

export function Invited({ token, onFail }: { token: string; onFail: (words: string) => void }) {
  const open = useOnce<Schemas["InvitationPreview"]>(
    () => unwrap(api.POST("/api/auth/invitations/preview", { body: { token } })),
    onFail,
  );
  const signIn = useSignIn();
  const [own, setOwn] = useState<{ email?: string; name?: string; password: string }>({ password: "" });
  if (!open) return <Loading lines={2} />;
  const name = own.name ?? open.name ?? "";
  const accept = () => {
    const email = open.email === undefined ? own.email : undefined;
    const body = { token, password: own.password, ...(email ? { email } : {}), ...(name ? { name } : {}) };
    return signIn(api.POST("/api/auth/invitations/accept", { body }));
  };
  return (
    <Form verb={t`Make my account`} run={accept}>
      <p className="soft">
        <Trans>
          You are invited as <strong>{open.role}</strong>. Choose the password of your account.
        </Trans>
      </p>
      <Text label={t`Name`} autoComplete="name" value={name} set={(name) => setOwn({ ...own, name })} />
      <Text
        label={t`E-mail`}
        type="email"
        autoComplete="username"
        required
        readOnly={open.email !== undefined}
        value={open.email ?? own.email ?? ""}
        set={(email) => setOwn({ ...own, email })}
      />
      <NewPassword value={own.password} set={(password) => setOwn({ ...own, password })} />
    </Form>
  );
}

export function Reset({ token, onFail }: { token: string; onFail: (words: string) => void }) {
  const link = useOnce<Schemas["LinkPreview"]>(
    () => unwrap(api.POST("/api/auth/password/reset/preview", { body: { token } })),
    onFail,
  );
  const signIn = useSignIn();
  const [password, setPassword] = useState("");
  if (!link) return <Loading lines={2} />;
  const reset = () => signIn(api.POST("/api/auth/password/reset", { body: { token, password } }));
  return (
    <Form verb={t`Set the password`} run={reset}>
      <p className="soft">
        <Trans>
          The password of <strong translate="no">{link.email}</strong>. All sessions of this account end.
        </Trans>
      </p>
      <NewPassword value={password} set={setPassword} />
    </Form>
  );
}

export function Forgotten({ email: known, onBack }: { email: string; onBack: () => void }) {
  const [email, setEmail] = useState(known);
  const [sent, setSent] = useState(false);
  if (sent) {
    return (
      <div className="stack">
        <p>
          <Trans>
            If there is an account with <strong translate="no">{email}</strong>, a mail with a link is on its
            way. The link counts for an hour.
          </Trans>
        </p>
        <Button onClick={onBack}>
          <Trans>Back</Trans>
        </Button>
      </div>
    );
  }
  const ask = async () => {
    await unwrap(api.POST("/api/auth/password/forgotten", { body: { email } }));
    setSent(true);
  };
  return (
    <Form verb={t`Send me a link`} run={ask} onDone={() => {}} onBack={onBack}>
      <Text label={t`E-mail`} type="email" autoComplete="username" required value={email} set={setEmail} />
    </Form>
  );
}

function Form(props: {
  verb: string;
  run: () => Promise<unknown>;
  onDone?: () => void;
  onBack?: () => void;
  children: ReactNode;
}) {
  const { verb, run, onDone = enter, onBack, children } = props;
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setFault(undefined);
    try {
      await run();
      onDone();
    } catch (error) {
      setFault(said(error));
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={submit}>
      {fault && <Notice>{fault}</Notice>}
      {children}
      <Button type="submit" kind="primary" busy={busy}>
        {verb}
      </Button>
      {onBack && (
        <Button kind="quiet" onClick={onBack}>
          <Trans>Back</Trans>
        </Button>
      )}
    </form>
  );
}

type TextProps = Omit<React.InputHTMLAttributes<HTMLInputElement>, "value"> & {
  label: string;
  hint?: string;
  value: string;
  set: (value: string) => void;
};

function Text({ label, hint, value, set, ...rest }: TextProps) {
  return (
    <Field label={label} hint={hint}>
      {(props) => (
        <input
          {...props}
          {...rest}
          className="input"
          value={value}
          onChange={(event) => set(event.target.value)}
        />
      )}
    </Field>
  );
}

function NewPassword({ value, set }: { value: string; set: (value: string) => void }) {
  return (
    <Text
      label={t`Password`}
      hint={RULE}
      type="password"
      autoComplete="new-password"
      required
      value={value}
      set={set}
    />
  );
}
