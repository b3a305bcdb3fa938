/** Questions before a sign-in that somebody else may have begun: whose account a link is, which program waits. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import { ApiError, api, type Schemas, unwrap } from "../api/client";
import { Button, Loading } from "../ui/basics";

type OnFail = (words: string) => void;

/** A one-time link: it is used up by the press, not by being opened. */
export function LinkQuestion(props: { token: string; onAccept: () => Promise<void>; onFail: OnFail }) {
  const body = { token: props.token };
  const link = useOnce<Schemas["LinkPreview"]>(
    () => unwrap(api.POST("/api/auth/links/preview", { body })),
    props.onFail,
  );
  const [busy, setBusy] = useState(false);
  if (!link) return <Loading lines={2} />;
  return (
    <div className="stack">
      <p>
        <Trans>
          This link signs you in as <Account of={link} />. If that is not you, close this page: whoever sent
          the link would see what you enter.
        </Trans>
      </p>
      <Button
        kind="primary"
        busy={busy}
        onClick={async () => {
          setBusy(true);
          await props.onAccept();
        }}
      >
        <Trans>Sign in as {link.email}</Trans>
      </Button>
    </div>
  );
}

/** A program on this computer: the user compares its code before it is signed in (RFC 8252, 8.6). */
export function ProgramQuestion({ ticket, onFail }: { ticket: string; onFail: OnFail }) {
  const program = useOnce<Schemas["Program"]>(
    () => unwrap(api.POST("/api/auth/oidc/program/preview", { body: { ticket } })),
    onFail,
  );
  const [answered, setAnswered] = useState(false);
  if (!program) return <Loading lines={2} />;
  const answer = async (allow: boolean) => {
    setAnswered(true);
    try {
      const { location } = await unwrap(api.POST("/api/auth/oidc/program", { body: { ticket, allow } }));
      window.location.assign(location);
    } catch (error) {
      onFail(said(error));
    }
  };
  return (
    <div className="stack">
      <p>
        <Trans>
          A program on this computer wants to sign in as <Account of={program} />. It may then do everything
          that you may.
        </Trans>
      </p>
      <p>
        <Trans>Allow it only if you have just started it, and it shows this code:</Trans>
      </p>
      <p className="comparison" translate="no">
        {program.comparison}
      </p>
      <Button kind="primary" busy={answered} onClick={() => answer(true)}>
        <Trans>The codes are the same: allow</Trans>
      </Button>
      <Button disabled={answered} onClick={() => answer(false)}>
        <Trans>Refuse</Trans>
      </Button>
    </div>
  );
}

function Account({ of }: { of: { email: string; name: string } }) {
  return <strong translate="no">{of.name === of.email ? of.email : `${of.name} (${of.email})`}</strong>;
}

/** The answer to a question that is asked once. */
export function useOnce<T>(ask: () => Promise<T>, onFail: OnFail): T | undefined {
  const [found, setFound] = useState<T>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is asked once
  useEffect(() => {
    ask().then(setFound, (error) => onFail(said(error)));
  }, []);
  return found;
}

/** The words for a sign-in that is refused; `isBrought` if the address brought what was refused. */
export function said(error: unknown, isBrought = true): string {
  if (error instanceof ApiError && error.status === 401 && isBrought) {
    return t`This link was used before, its time is over, or another browser began the sign-in. Sign in with your password, or begin again.`;
  }
  return error instanceof Error
    ? `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`
    : String(error);
}
