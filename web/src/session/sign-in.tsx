/** Signing in: by password, at an identity provider, by a one-time link, for a program; and making the first admin. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { api } from "../api/client";
import { useApi } from "../api/hooks";
import { project, projectOf } from "../lib/project";
import { Button, Field, Loading } from "../ui/basics";
import { LinkQuestion, ProgramQuestion, said } from "./confirm";
import { Notice } from "./notice";
import { Forgotten, Invited, Reset } from "./own-password";
import { useSignIn } from "./session";
import "./sign-in.css";

/** What an address brings after its `#`. It is taken out of the address at once: it counts once. */
function takeFragment(): URLSearchParams {
  const params = new URLSearchParams(window.location.hash.slice(1));
  if (["link", "code", "program", "token", "invite", "reset"].some((name) => params.has(name))) {
    const { pathname, search } = window.location;
    window.history.replaceState(null, "", pathname + search);
  }
  return params;
}
const brought = takeFragment();

/** Where to go after a sign-in: the page that was asked for, if it is one of ours. */
function destination(): string {
  const { pathname, search } = window.location;
  if (pathname !== "/sign-in" && pathname !== "/setup") return pathname + search;
  const asked = new URLSearchParams(search).get("to");
  return asked?.startsWith("/") && !asked.startsWith("//") ? asked : "/";
}

export default function SignIn() {
  const signIn = useSignIn();
  const [, navigate] = useLocation();
  const methods = useApi("/api/auth/methods");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [name, setName] = useState("");
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(brought.has("code"));
  const [setupToken] = useState(() => brought.get("token"));
  const [link, setLink] = useState(() => brought.get("link"));
  const [program, setProgram] = useState(() => brought.get("program"));
  const [invite, setInvite] = useState(() => brought.get("invite"));
  const [reset, setReset] = useState(() => brought.get("reset"));
  const [hasForgotten, setForgotten] = useState(false);
  const began = useRef(false);

  const run = async (call: Parameters<typeof signIn>[0], isBrought = false) => {
    setBusy(true);
    setFault(undefined);
    try {
      const to = destination();
      await signIn(call);
      const named = projectOf(/\?[^#]*/.exec(to)?.[0] ?? "");
      if (named && named !== project) window.location.replace(to);
      else navigate(to, { replace: true });
    } catch (error) {
      setFault(said(error, isBrought));
      setBusy(false);
    }
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: what the address brought counts once
  useEffect(() => {
    if (began.current) return;
    began.current = true;
    const code = brought.get("code");
    if (code) void run(api.POST("/api/auth/oidc/token", { body: { code } }), true);
  }, []);
  const follow = async (token: string) => {
    await run(api.POST("/api/auth/links/exchange", { body: { token } }), true);
    setLink(null);
  };
  const failed = (words: string) => {
    setFault(words);
    setLink(null);
    setProgram(null);
    setInvite(null);
    setReset(null);
  };

  const isSetup = setupToken !== null;
  const isAsked = Boolean(program || link || invite || reset || hasForgotten);
  const title = isSetup
    ? t`Make the first admin`
    : program
      ? t`Sign a program in`
      : invite
        ? t`Make your account`
        : reset || hasForgotten
          ? t`Set another password`
          : t`Sign in`;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (setupToken !== null) {
      const body = { token: setupToken, email, password, ...(name ? { name } : {}) };
      return run(api.POST("/api/auth/setup", { body }));
    }
    return run(api.POST("/api/auth/login", { body: { email, password } }));
  };

  return (
    <main className="sign-in">
      <title>{t`Sign in · Callboard`}</title>
      <div className="sign-in-box">
        <p className="brand">
          <img src="/favicon.svg" alt="" width="22" height="22" /> Callboard
        </p>
        <h1>{title}</h1>
        {fault && <Notice>{fault}</Notice>}
        {program ? (
          <ProgramQuestion ticket={program} onFail={failed} />
        ) : link ? (
          <LinkQuestion token={link} onAccept={() => follow(link)} onFail={failed} />
        ) : invite ? (
          <Invited token={invite} onFail={failed} />
        ) : reset ? (
          <Reset token={reset} onFail={failed} />
        ) : hasForgotten ? (
          <Forgotten email={email} onBack={() => setForgotten(false)} />
        ) : busy && !email && !isSetup ? (
          <Loading lines={2} />
        ) : (
          <form className="stack" onSubmit={submit}>
            {isSetup && (
              <Field label={t`Name`} hint={t`For people; may be left out.`}>
                {(props) => (
                  <input
                    {...props}
                    className="input"
                    autoComplete="name"
                    value={name}
                    onChange={(e) => setName(e.target.value)}
                  />
                )}
              </Field>
            )}
            <Field label={t`E-mail`}>
              {(props) => (
                <input
                  {...props}
                  className="input"
                  type="email"
                  required
                  autoComplete="username"
                  value={email}
                  onChange={(event) => setEmail(event.target.value)}
                />
              )}
            </Field>
            <Field
              label={t`Password`}
              hint={isSetup ? t`8 to 128 characters, none of the common ones.` : undefined}
            >
              {(props) => (
                <input
                  {...props}
                  className="input"
                  type="password"
                  required
                  autoComplete={isSetup ? "new-password" : "current-password"}
                  value={password}
                  onChange={(event) => setPassword(event.target.value)}
                />
              )}
            </Field>
            <Button type="submit" kind="primary" busy={busy}>
              {isSetup ? t`Make the admin and sign in` : t`Sign in`}
            </Button>
          </form>
        )}
        {methods.data?.passwordReset && !isSetup && !isAsked && (
          <Button kind="quiet" onClick={() => setForgotten(true)}>
            <Trans>Forgot your password?</Trans>
          </Button>
        )}
        {methods.data?.oidc && !isSetup && !isAsked && (
          <a className="button" href="/api/auth/oidc/start">
            <Trans>Sign in with your organization</Trans>
          </a>
        )}
        {methods.data?.setup && !isSetup && (
          <p className="soft small">
            <Trans>
              There is no admin yet. Open the setup link that <code translate="no">callboard serve</code>{" "}
              printed when it started.
            </Trans>
          </p>
        )}
      </div>
    </main>
  );
}
