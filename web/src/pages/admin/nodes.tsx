/** The nodes of the cluster: which one works, for how long it may, and handing its work to another one. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { ApiError, api, type ItemOf, unwrap } from "../../api/client";
import { usePage } from "../../api/hooks";
import { count, duration, tail } from "../../lib/format";
import { Button, Empty, Failed, Loading, Panel } from "../../ui/basics";
import { Confirm } from "../../ui/confirm";
import { Sized } from "../../ui/sized";
import { Mark, Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { toast, toastError } from "../../ui/toast";

type Node = ItemOf<"/api/cluster">;
const PARTITIONS = 256;

export default function Nodes() {
  const client = useQueryClient();
  const [drained, setDrained] = useState<Node>();
  const read = usePage("/api/cluster", { query: { limit: 100 } }, { staleTime: 0, retry: false });
  const change = async (node: Node, draining: boolean) => {
    await unwrap(
      api.PATCH("/api/cluster/nodes/{id}", { params: { path: { id: node.id } }, body: { draining } }),
    );
    await client.invalidateQueries({ queryKey: ["/api/cluster"] });
    toast(draining ? t`It hands its work over.` : t`It may take work again.`);
  };
  if (read.error instanceof ApiError && read.error.status === 409) {
    return (
      <Empty
        title={t`This server is no node of a cluster`}
        action={
          <Link className="button" href="/docs/how-to/cluster">
            <Trans>Run several nodes</Trans>
          </Link>
        }
      >
        <Trans>
          It has a store of its own. Several nodes share a PostgreSQL database, and one takes the place of
          another that dies.
        </Trans>
      </Empty>
    );
  }
  if (read.error && !read.data) return <Failed error={read.error} retry={() => void read.refetch()} />;
  if (!read.data) return <Loading />;
  const { items } = read.data;
  const versions = new Set(items.filter(({ status }) => status !== "lost").map(({ version }) => version));
  const owned = items.reduce((sum, node) => sum + (node.status === "lost" ? 0 : node.partitions), 0);
  const columns: Column<Node>[] = [
    {
      id: "address",
      header: t`Node`,
      width: "minmax(200px, 2fr)",
      cell: (node) => (
        <span className="cut" data-tip={node.id}>
          {node.address}{" "}
          <span translate="no" className="faint small mono">
            {tail(node.id)}
          </span>
        </span>
      ),
    },
    {
      id: "status",
      header: t`State`,
      width: "160px",
      cell: (node) => (
        <span className="row wrap">
          <Status state={node.status} />
          {node.draining && <Status state="draining" />}
        </span>
      ),
    },
    {
      id: "partitions",
      header: t`Parts`,
      width: "110px",
      number: true,
      cell: (node) => t`${count(node.partitions)} of ${PARTITIONS}`,
    },
    {
      id: "term",
      header: t`Its term ends in`,
      width: "150px",
      number: true,
      cell: (node) => {
        if (node.status === "lost") return "–";
        const [left, term] = [duration(node.expiresInMs), node.termMs && duration(node.termMs)];
        return term ? t`${left} of ${term}` : left;
      },
    },
    {
      id: "lag",
      header: t`Lag`,
      width: "90px",
      number: true,
      cell: (node) => (
        <span data-tip={t`The time since the database last heard of it`}>
          {node.lastHeardMs === undefined ? "–" : duration(node.lastHeardMs)}
        </span>
      ),
    },
    {
      id: "version",
      header: t`Version`,
      width: "90px",
      cell: (node) => (
        <span translate="no" className="mono">
          {node.version}
        </span>
      ),
    },
    {
      id: "actions",
      header: t`Actions`,
      width: "150px",
      cell: (node) =>
        node.status !== "lost" &&
        (node.draining ? (
          <Button
            size="small"
            onClick={() =>
              void change(node, false).catch((error) => toastError(error, t`It was not changed`))
            }
          >
            <Trans>Take work again</Trans>
          </Button>
        ) : (
          <Button size="small" onClick={() => setDrained(node)}>
            <Trans>Drain</Trans>
          </Button>
        )),
    },
  ];
  return (
    <>
      {owned < PARTITIONS && (
        <div className="notice" data-tone="warn" role="status">
          <span>
            <Plural
              value={PARTITIONS - owned}
              one="# part is owned by no living node: another one is taking over. Its tasks wait."
              other="# parts are owned by no living node: another one is taking over. Their tasks wait."
            />
          </span>
        </div>
      )}
      <Panel
        title={t`Nodes`}
        actions={
          <span className="row wrap">
            {versions.size > 1 && (
              <Mark tone="warn" icon="warn">
                <Plural value={versions.size} one="# version" other="# versions" />
              </Mark>
            )}
            <Button size="small" busy={read.isFetching} onClick={() => void read.refetch()}>
              <Trans>Read again</Trans>
            </Button>
          </span>
        }
      >
        <Sized rows={items.length}>
          <Table label={t`Nodes`} rows={items} keyOf={(node) => node.id} columns={columns} />
        </Sized>
        <p className="pad small soft">
          <Trans>
            A term is renewed while the node lives; once it is over, another node takes over. The lag is the
            time since the last renewal: a node that stands by has no copy of the data that could be behind.
            What this page shows is as it was when it was read.
          </Trans>
        </p>
      </Panel>
      {drained && (
        <Confirm
          title={t`Drain ${drained.address}`}
          verb={t`Drain`}
          onClose={() => setDrained(undefined)}
          run={() => change(drained, true)}
        >
          <p>
            <Plural
              value={drained.partitions}
              one="It hands its # part to another node, and takes no work until you let it. Running tasks go on; connections are made again."
              other="It hands its # parts to another node, and takes no work until you let it. Running tasks go on; connections are made again."
            />
          </p>
        </Confirm>
      )}
    </>
  );
}
