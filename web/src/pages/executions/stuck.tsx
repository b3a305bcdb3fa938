/** What waits and for what, the oldest first. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { usePage } from "../../api/hooks";
import { useNameOf } from "../../lib/names";
import { visible } from "../../lib/visible";
import { Empty, PageFrame } from "../../ui/basics";
import { Listed } from "../../ui/listed";
import { State } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Tags } from "../../ui/tags";
import { Ago } from "../../ui/time";
import { Alerts } from "./alerts";
import { OLDEST, unserved, useWaiting, type Waiting } from "./waiting";
import "./executions.css";

export default function Stuck() {
  const { rows, tasks, error, refetch, isPart } = useWaiting();
  const workers = usePage("/api/workers", { query: { limit: 100 } });
  const nameOf = useNameOf();
  const columns: Column<Waiting>[] = [
    {
      id: "id",
      header: t`What`,
      width: "minmax(190px, 3fr)",
      cell: ({ of, href, id }) => (
        <Link href={href} className="cut" data-tip={id}>
          {visible(of.title ?? ("queue" in of ? t`task` : nameOf(of)))}
        </Link>
      ),
    },
    { id: "waits", header: t`State`, width: "180px", cell: ({ of }) => <State of={of} /> },
    {
      id: "since",
      header: t`Waits`,
      width: "90px",
      number: true,
      cell: ({ since }) => <Ago at={since} plain />,
    },
    {
      id: "where",
      header: t`Queue and model`,
      width: "minmax(120px, 1.4fr)",
      cell: ({ of }) => ("queue" in of ? `${of.queue}, ${of.model}` : <span className="faint">–</span>),
    },
    {
      id: "tags",
      header: t`Tags and keys`,
      width: "minmax(200px, 3fr)",
      cell: ({ of }) => <Tags of={of} list={"queue" in of ? "/tasks" : "/executions"} />,
    },
  ];
  return (
    <PageFrame
      title={t`Stuck`}
      fill
      actions={
        rows && (
          <span className="soft executions-total">
            <Plural value={rows.length} one="# item" other="# items" />
          </span>
        )
      }
    >
      {workers.data && tasks && <Alerts pairs={unserved(tasks, workers.data.items)} />}
      {isPart && (
        <p className="soft small">
          <Trans>
            Of the {OLDEST} oldest executions and tasks that have not ended; the others are younger.
          </Trans>
        </p>
      )}
      <Listed
        list={{ data: rows, error, refetch, rows }}
        empty={
          <Empty title={t`Nothing waits`}>
            <Trans>
              Work that waits for a worker, a reviewer, a signal, a budget or a limit is listed here, the
              oldest first.
            </Trans>
          </Empty>
        }
        label={t`What waits`}
        keyOf={({ id }) => id}
        href={({ href }) => href}
        columns={columns}
      />
    </PageFrame>
  );
}
