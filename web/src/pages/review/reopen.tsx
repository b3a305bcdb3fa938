/** Takes a decision back; where others have gone by it, says who, and asks for another one beside it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type Ref, useImperativeHandle, useState } from "react";
import { Link } from "wouter";
import { ApiError, type Approval, api, unwrap } from "../../api/client";
import { keyOf } from "../../lib/keys";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import { useMay, useWho } from "../../session/session";
import { Button, Command } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";
import { waitsAgain } from "./decisions";
import { TaskLink } from "./facts";
import { isOpen } from "./review";

type Use = { kind: string; id: string; name?: string; at: string };
export type ReopenHandle = { ask: () => void };

export function Reopen({ item, ref }: { item: Approval; ref?: Ref<ReopenHandle> }) {
  const may = useMay();
  const me = useWho().user.id;
  const [asks, setAsks] = useState(false);
  // Whoever may give more time may take back the decisions of others too.
  const isOwn = item.decision?.by === me;
  const can =
    item.decision && may("hitl: approve/reject") && (isOwn || may("hitl: extend")) && !item.erasedAt;
  useImperativeHandle(ref, () => ({ ask: () => can && setAsks(true) }));
  if (!can) return null;
  return (
    <>
      <Button size="small" icon="undo" hotkey={keyOf("review.reopen", "o")} onClick={() => setAsks(true)}>
        <Trans>Reopen…</Trans>
      </Button>
      {asks && <Question item={item} onClose={() => setAsks(false)} />}
    </>
  );
}

function Question({ item, onClose }: { item: Approval; onClose: () => void }) {
  const client = useQueryClient();
  const [uses, setUses] = useState<Use[]>();
  const [busy, setBusy] = useState(false);
  const reopen = async (asCorrection: boolean) => {
    setBusy(true);
    const { taskId } = item;
    try {
      const params = { path: { taskId } };
      const { corrects } = await unwrap(
        api.POST("/api/hitl/{taskId}/reopen", { params, body: { asCorrection } }),
      );
      waitsAgain(taskId);
      toast(
        corrects ? t`Decide once more: it stands beside the first decision.` : t`It waits for you again.`,
      );
      onClose();
    } catch (error) {
      setBusy(false);
      const found = error instanceof ApiError ? error.details.usedBy : undefined;
      if (Array.isArray(found)) return setUses(found);
      toastError(error, t`The decision stays`);
      onClose();
    }
    for (const queryKey of ["/api/hitl/{taskId}", "/api/hitl/{taskId}/history", "/api/hitl/pending"])
      await client.invalidateQueries({ queryKey: [queryKey] });
  };
  return (
    <Dialog
      title={uses ? t`The decision stays` : t`Take the decision back?`}
      onClose={onClose}
      onSubmit={() => !busy && void reopen(uses !== undefined)}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave it</Trans>
          </Button>
          <Button kind="primary" type="submit" busy={busy}>
            {uses ? t`Correct it` : t`Reopen`}
          </Button>
        </>
      }
    >
      {uses ? (
        <>
          <p>
            <Trans>The output was used, so the decision cannot be taken back:</Trans>
          </p>
          <ul>
            {uses.map((use) => (
              <li key={`${use.kind} ${use.id}`}>
                {said(use, item)} · <Ago at={use.at} />
              </li>
            ))}
          </ul>
          <p>
            <Trans>
              You can correct it: your next decision stands beside the first, with your edit beside the
              output. It changes nothing that has happened.
            </Trans>
          </p>
        </>
      ) : (
        <p>
          <Trans>
            The output waits for a decision again, as long as nothing has used it. Whatever depends on it
            waits until then.
          </Trans>
        </p>
      )}
    </Dialog>
  );
}

/** A use in a sentence, with a link to what used it. */
function said({ kind, id, name }: Use, item: Approval): ReactNode {
  switch (kind) {
    case "step":
      return (
        <Trans>
          The step <span translate="no">{id}</span> has begun with it
        </Trans>
      );
    case "items":
      return (
        <Trans>
          The list of the step <span translate="no">{id}</span> counts it
        </Trans>
      );
    case "execution":
      return (
        <Trans>
          Its execution <Link href={`/executions/${id}`}>{visible(name ?? id)}</Link> has ended
        </Trans>
      );
    case "task":
      return id === item.taskId ? (
        <Trans>The task has ended, and whoever submitted it has the output</Trans>
      ) : (
        <Trans>
          The task <TaskLink id={id}>{id}</TaskLink> took its place
        </Trans>
      );
    case "webhook":
      return (
        <Trans>
          A webhook was sent to <span translate="no">{visible(name ?? id)}</span>
        </Trans>
      );
    default:
      return visible(`${kind} ${name ?? id}`);
  }
}

/** The decision that others have gone by, above the one that stands beside it or is to. */
export function Corrects({ item }: { item: Approval }) {
  const nameOf = useNames();
  const { corrects } = item;
  if (!corrects) return null;
  const by = nameOf(corrects.by);
  return (
    <div className="notice" data-corrects>
      <span className="status">
        <Icon name="undo" />
      </span>
      <div className="grow stack">
        <div>
          {corrects.status === "rejected" ? (
            <Trans>
              The task was rejected by {by} <Ago at={corrects.at} />, and others have gone by that.
            </Trans>
          ) : (
            <Trans>
              The output was approved by {by} <Ago at={corrects.at} />, and others have gone by that.
            </Trans>
          )}{" "}
          {isOpen(item) && <Trans>Your decision stands beside it, and changes neither.</Trans>}
        </div>
        {corrects.comment && (
          <q className="review-said" translate="no" dir="auto">
            {visible(corrects.comment)}
          </q>
        )}
        {corrects.modifiedOutput !== undefined && <Command>{corrects.modifiedOutput}</Command>}
      </div>
    </div>
  );
}
