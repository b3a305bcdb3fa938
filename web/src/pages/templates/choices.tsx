/** What may be done with a version: no deploy takes a retired one, and the latest is what deploys take. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../api/client";
import { useMay } from "../../session/session";
import { Button } from "../../ui/basics";
import { toast, toastError } from "../../ui/toast";

export function Choices({ of: { id, version, latest, latestSet, retiredAt } }: { of: Schemas["Template"] }) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const run = async (call: () => Promise<unknown>, done: string) => {
    setBusy(true);
    try {
      await call();
      toast(done);
    } catch (error) {
      toastError(error, t`It was not changed`);
    }
    setBusy(false);
    await client.invalidateQueries({
      predicate: ({ queryKey: [path] }) => String(path).startsWith("/api/templates"),
    });
  };
  const params = { path: { id } };
  const retire = (retired: boolean) =>
    run(
      () => unwrap(api.PATCH("/api/templates/{id}", { params, body: { version, retired } })),
      retired
        ? t`No deploy takes ${version} any more. Its runs go on.`
        : t`Deploys may take ${version} again.`,
    );
  const take = () =>
    run(
      () => unwrap(api.PUT("/api/templates/{id}/latest", { params, body: { version } })),
      t`Deploys without a version take ${version}, whatever is published later.`,
    );
  const follow = () =>
    run(
      () => unwrap(api.DELETE("/api/templates/{id}/latest", { params })),
      t`Deploys without a version take the highest again.`,
    );
  if (!useMay()("templates: create")) return null;
  return (
    <span className="row wrap">
      {latestSet ? (
        <Button size="small" busy={busy} onClick={() => void follow()}>
          <Trans>Follow the highest</Trans>
        </Button>
      ) : (
        !latest &&
        !retiredAt && (
          <Button size="small" busy={busy} onClick={() => void take()}>
            <Trans>Make it the latest</Trans>
          </Button>
        )
      )}
      <Button size="small" busy={busy} onClick={() => void retire(!retiredAt)}>
        {retiredAt ? t`Restore` : t`Retire`}
      </Button>
    </span>
  );
}
