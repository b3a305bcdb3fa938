/** What may be done with a batch, and its export. */
import { plural, t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, unwrap } from "../../api/client";
import { count } from "../../lib/format";
import { inProject } from "../../lib/project";
import { Button } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { toast, toastError } from "../../ui/toast";
import { endedOf } from "./progress";
import type { Batch } from "./read";

type Asked = "cancel" | "retry" | "delete";
type Act = "pause" | "resume" | Asked;

export function Actions({ batch }: { batch: Batch }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [asks, setAsks] = useState<Asked>();
  const [busy, setBusy] = useState<Act>();
  const { id, status, progress } = batch;
  const params = { path: { id } };
  const isOver = status === "completed" || status === "cancelled";
  const run = async (act: Act, call: () => Promise<unknown>, failed: string) => {
    setAsks(undefined);
    setBusy(act);
    try {
      await call();
    } catch (error) {
      toastError(error, failed);
    }
    setBusy(undefined);
    void client.invalidateQueries({
      predicate: ({ queryKey: [path] }) => String(path).startsWith("/api/batches"),
    });
  };
  const retry = (withRejected: boolean, withFailed: boolean) =>
    run(
      "retry",
      async () => {
        // The rejected are run anew only where they are named.
        const bodies = [...(withFailed ? [{}] : []), ...(withRejected ? [{ codes: ["REJECTED"] }] : [])];
        let retried = 0;
        for (const body of bodies) {
          const now = await unwrap(api.POST("/api/batches/{id}/retry", { params, body }));
          retried += now.retried ?? 0;
        }
        toast(plural(retried, { one: "# row runs again.", other: "# rows run again." }));
      },
      t`They were not run again`,
    );
  const remove = () =>
    run(
      "delete",
      async () => {
        await unwrap(api.DELETE("/api/batches/{id}", { params }));
        navigate("/batches");
        toast(t`The batch was deleted.`);
      },
      t`It was not deleted`,
    );
  return (
    <>
      {status === "running" && (
        <Button
          icon="hand"
          needs="batches: run"
          busy={busy === "pause"}
          data-tip={t`No further row starts; rows that run go on.`}
          onClick={() =>
            void run(
              "pause",
              () => unwrap(api.POST("/api/batches/{id}/pause", { params })),
              t`It was not paused`,
            )
          }
        >
          <Trans>Pause</Trans>
        </Button>
      )}
      {status === "paused" && (
        <Button
          kind="primary"
          icon="next"
          needs="batches: run"
          busy={busy === "resume"}
          onClick={() =>
            void run(
              "resume",
              () => unwrap(api.POST("/api/batches/{id}/resume", { params })),
              t`It was not resumed`,
            )
          }
        >
          <Trans>Resume</Trans>
        </Button>
      )}
      {status !== "cancelled" && progress.failed + progress.rejected > 0 && (
        <Button
          icon="undo"
          needs="batches: run"
          busy={busy === "retry"}
          data-tip={t`Steps that have succeeded keep their results, and are not paid again.`}
          onClick={() => setAsks("retry")}
        >
          <Trans>Retry failed</Trans>
        </Button>
      )}
      {!isOver && (
        <Button
          kind="danger"
          icon="stop"
          needs="batches: run"
          busy={busy === "cancel"}
          onClick={() => setAsks("cancel")}
        >
          <Trans>Cancel</Trans>
        </Button>
      )}
      {isOver && (
        <Button
          kind="danger"
          needs="batches: delete"
          busy={busy === "delete"}
          onClick={() => setAsks("delete")}
        >
          <Trans>Delete</Trans>
        </Button>
      )}
      {asks === "cancel" && (
        <CancelQuestion
          batch={batch}
          onClose={() => setAsks(undefined)}
          onYes={() =>
            void run(
              "cancel",
              () => unwrap(api.POST("/api/batches/{id}/cancel", { params })),
              t`It was not cancelled`,
            )
          }
        />
      )}
      {asks === "retry" && (
        <RetryQuestion
          batch={batch}
          onClose={() => setAsks(undefined)}
          onYes={(rejected, failed) => void retry(rejected, failed)}
        />
      )}
      {asks === "delete" && (
        <DeleteQuestion batch={batch} onClose={() => setAsks(undefined)} onYes={() => void remove()} />
      )}
    </>
  );
}

type Question = { batch: Batch; onClose: () => void };

function CancelQuestion({ batch, onClose, onYes }: Question & { onYes: () => void }) {
  const left = batch.rows - endedOf(batch);
  return (
    <Dialog
      title={t`Cancel this batch?`}
      onClose={onClose}
      onSubmit={onYes}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Keep it</Trans>
          </Button>
          <Button kind="danger" icon="stop" type="submit">
            <Plural value={left} one="Cancel # row" other="Cancel # rows" />
          </Button>
        </>
      }
    >
      <p>
        <Plural value={left} one="# row has not ended." other="# rows have not ended." />{" "}
        <Trans>
          No further one starts, and those that run or wait for a reviewer are cancelled. The results of the{" "}
          {count(endedOf(batch))} others stay. A cancelled batch cannot go on: to stop it for a while, pause
          it.
        </Trans>
      </p>
    </Dialog>
  );
}

function RetryQuestion({
  batch,
  onClose,
  onYes,
}: Question & { onYes: (rejected: boolean, failed: boolean) => void }) {
  const { failed, rejected } = batch.progress;
  const [withRejected, setRejected] = useState(failed === 0);
  const number = failed + (withRejected ? rejected : 0);
  return (
    <Dialog
      title={t`Run failed rows again?`}
      onClose={onClose}
      onSubmit={() => number > 0 && onYes(withRejected && rejected > 0, failed > 0)}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Leave them</Trans>
          </Button>
          <Button kind="primary" icon="undo" type="submit" disabled={number === 0}>
            <Plural value={number} one="Retry # row" other="Retry # rows" />
          </Button>
        </>
      }
    >
      {failed > 0 && (
        <p>
          <Plural
            value={failed}
            one="# row has failed. It goes on from the steps that have succeeded, which are not paid again."
            other="# rows have failed. Each goes on from the steps that have succeeded, which are not paid again."
          />
        </p>
      )}
      {rejected > 0 && (
        <label className="check">
          <input
            type="checkbox"
            checked={withRejected}
            onChange={(event) => setRejected(event.target.checked)}
          />
          <Plural
            value={rejected}
            one="The # row that a reviewer has rejected, too"
            other="The # rows that a reviewer has rejected, too"
          />
        </label>
      )}
    </Dialog>
  );
}

function DeleteQuestion({ batch, onClose, onYes }: Question & { onYes: () => void }) {
  return (
    <Dialog
      title={t`Delete this batch?`}
      onClose={onClose}
      onSubmit={onYes}
      footer={
        <>
          <Button onClick={onClose}>
            <Trans>Keep it</Trans>
          </Button>
          <Button kind="danger-primary" type="submit">
            <Plural value={batch.rows} one="Delete # row" other="Delete # rows" />
          </Button>
        </>
      }
    >
      <p>
        <Trans>
          The batch, its executions, their tasks and all of their texts are deleted. This cannot be undone. To
          keep the results, export them first.
        </Trans>
      </p>
    </Dialog>
  );
}

/** The whole of the rows, or those of the statuses that are chosen, as the browser downloads a file. */
export function Exports({ batch, status }: { batch: Batch; status: string[] }) {
  const name = (batch.name ?? batch.id).replace(/[^\p{L}\p{N}._ -]+/gu, "_").slice(0, 80);
  const to = (format: string) =>
    inProject(
      `/api/batches/${batch.id}/export?${new URLSearchParams({
        format,
        ...(status.length > 0 && { status: status.join(",") }),
      })}`,
    );
  const what = status.length > 0 ? t`The rows of the chosen statuses` : t`All rows`;
  return (
    <span className="row batches-export">
      <span className="soft small" id="batches-export">
        <Trans>Export</Trans>
      </span>
      <a
        className="button"
        data-size="small"
        href={to("csv")}
        download={`${name}.csv`}
        aria-describedby="batches-export"
        data-tip={t`${what}, a column for each member of the output, for a spreadsheet or pandas.`}
      >
        CSV
      </a>
      <a
        className="button"
        data-size="small"
        href={to("jsonl")}
        download={`${name}.jsonl`}
        aria-describedby="batches-export"
        data-tip={t`${what}, an object on each line, with steps and decisions.`}
      >
        <Trans>JSON lines</Trans>
      </a>
    </span>
  );
}
