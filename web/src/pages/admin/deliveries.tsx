/** Webhooks and mails: what was sent where, with what result; sent again. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, type ItemOf, type Schemas, unwrap } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Button, Command, Empty } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { Dialog } from "../../ui/dialog";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { toast, toastError } from "../../ui/toast";

type Delivery = ItemOf<"/api/webhooks/deliveries">;
const NAMES = ["status", "taskId"];
const WORDS = { taskId: { of: tail } };

export default function Deliveries() {
  useLive(["webhook.*"]);
  const may = useMay();
  const [params, set] = useParams();
  const [secret, setSecret] = useState<Schemas["WebhookSecret"]>();
  const client = useQueryClient();
  const status = params.get("status") ?? "";
  const taskId = params.get("taskId") ?? "";
  const query = { status: status || undefined, taskId: taskId || undefined };
  const list = useRows("/api/webhooks/deliveries", { query } as never);
  const again = async (delivery: Delivery) => {
    try {
      const params = { path: { id: delivery.id } };
      await unwrap(api.POST("/api/webhooks/deliveries/{id}/redeliver", { params }));
      toast(t`It is sent again.`);
    } catch (error) {
      toastError(error, t`It was not sent again`);
    }
    await client.invalidateQueries({ queryKey: ["/api/webhooks/deliveries"] });
  };
  const columns: Column<Delivery>[] = [
    {
      id: "event",
      header: t`Event`,
      width: "minmax(140px, 1fr)",
      cell: (delivery) => (
        <span translate="no" className="mono">
          {delivery.event}
        </span>
      ),
    },
    {
      id: "status",
      header: t`State`,
      width: "110px",
      cell: (delivery) => <Status state={delivery.status} />,
    },
    {
      id: "to",
      header: t`To`,
      width: "minmax(150px, 2fr)",
      cell: (delivery) => (
        <span translate="no" className="cut mono" data-tip={delivery.url ?? delivery.to}>
          {delivery.url ?? delivery.to ?? delivery.kind}
        </span>
      ),
    },
    {
      id: "task",
      header: t`About`,
      width: "110px",
      cell: (delivery) => {
        const { taskId, executionId } = delivery;
        const href = taskId ? `/tasks/${taskId}` : `/executions/${executionId}`;
        return (
          <Link translate="no" className="mono" href={href} data-tip={taskId ?? executionId}>
            {tail(taskId ?? executionId ?? "")}
          </Link>
        );
      },
    },
    {
      id: "attempts",
      header: t`Attempts`,
      width: "92px",
      number: true,
      cell: (delivery) => count(delivery.attempts),
    },
    {
      id: "result",
      header: t`Last result`,
      width: "minmax(140px, 1.5fr)",
      cell: (delivery) => {
        const text = [delivery.lastStatus, delivery.lastError].filter(Boolean).join(" · ");
        return text ? (
          <span className="cut" data-tip={text}>
            {text}
          </span>
        ) : (
          <span className="faint">–</span>
        );
      },
    },
    {
      id: "when",
      header: t`Sent or next`,
      width: "116px",
      named: true,
      cell: (delivery) => <Ago at={delivery.deliveredAt ?? delivery.nextAttemptAt} />,
    },
    {
      id: "created",
      header: t`Created`,
      width: "90px",
      phone: false,
      cell: (delivery) => <Ago at={delivery.createdAt} />,
    },
  ];
  if (may("deliveries: redeliver")) {
    columns.push({
      id: "actions",
      header: t`Actions`,
      width: "106px",
      cell: (delivery) =>
        delivery.status !== "pending" && (
          <Button size="small" onClick={() => void again(delivery)}>
            <Trans>Send again</Trans>
          </Button>
        ),
    });
  }
  const show = async () => {
    try {
      setSecret(await unwrap(api.GET("/api/webhooks/secret")));
    } catch (error) {
      toastError(error, t`The secret was not shown`);
    }
  };
  return (
    <>
      <div className="filters">
        <select
          className="select"
          aria-label={t`State`}
          value={status}
          onChange={(event) => set({ status: event.target.value })}
        >
          <option value="">{t`every state`}</option>
          <option value="pending">{t`pending`}</option>
          <option value="delivered">{t`delivered`}</option>
          <option value="dead">{t`dead`}</option>
        </select>
        <span className="faint grow">{list.data ? count(list.total) : ""}</span>
        {may("webhooks: read secret") && (
          <Button onClick={() => void show()}>
            <Trans>Show the signing secret</Trans>
          </Button>
        )}
      </div>
      <FilterBar page="admin/deliveries" names={NAMES} set={set} words={WORDS} />
      <Listed
        list={list}
        empty={
          status || taskId ? (
            <Empty title={t`No delivery matches`}>
              <Button onClick={() => set(without(NAMES))}>
                <Trans>Show all</Trans>
              </Button>
            </Empty>
          ) : (
            <Empty
              title={t`Nothing was sent yet`}
              command={`curl -H "Authorization: Bearer $CALLBOARD_API_KEY" -H "Content-Type: application/json" -d '{"prompt": "Say hello.", "callbackUrl": "https://example.com/hook"}' ${window.location.origin}/api/tasks`}
              needs="tasks: create"
              action={
                <Link className="button" href="/docs/webhooks">
                  <Trans>How to receive webhooks</Trans>
                </Link>
              }
            >
              <Trans>
                When a task with a callback address ends, its result is sent there, until it was taken.
              </Trans>
            </Empty>
          )
        }
        label={t`Deliveries`}
        keyOf={(delivery) => delivery.id}
        columns={columns}
      />
      {secret && (
        <Dialog
          title={t`The secret that signs webhooks`}
          onClose={() => setSecret(undefined)}
          footer={
            <Button onClick={() => setSecret(undefined)}>
              <Trans>Close</Trans>
            </Button>
          }
        >
          <p>
            <Trans>Receivers check signatures with it. That it was shown is in the audit log.</Trans>
          </p>
          <Command>{secret.secret}</Command>
        </Dialog>
      )}
    </>
  );
}
