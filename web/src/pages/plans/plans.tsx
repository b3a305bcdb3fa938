/** /plans: the list. /plans/new: the editor. /plans/:id: one plan, and the form that runs it. */
import { lazy, Suspense } from "react";
import { Link, useParams as useRoute } from "wouter";
import type { ItemOf } from "../../api/client";
import { useApi, useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Failed, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { RunExample } from "../../ui/example";
import { type Column, Table } from "../../ui/table";
import { Tabs } from "../../ui/tabs";
import { Ago } from "../../ui/time";
import { Run } from "../definition/run";
import { Search } from "../definition/search";
import { Steps } from "../definition/steps";

const Write = lazy(() => import("../definition/write"));

const STARTER = `name: My plan
description: What it does, in a sentence.
tags: []
steps:
  - id: draft
    prompt: Name three uses of a message queue, one short line each.
  - id: shorter
    dependsOn: [draft]
    prompt: |-
      Say this in one sentence:

      {{draft.output}}
`;

export default function Plans() {
  const { id } = useRoute<{ id?: string }>();
  const may = useMay();
  if (id === "new" && may("plans: create")) {
    return (
      <PageFrame title="New plan">
        <Suspense fallback={<Loading />}>
          <Write kind="plan" initial={STARTER} of="new" />
        </Suspense>
      </PageFrame>
    );
  }
  return id ? <One key={id} id={id} /> : <List />;
}

type Row = ItemOf<"/api/plans">;

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    header: "Plan",
    width: "minmax(200px, 2fr)",
    cell: (row) => (
      <Link className="cut" href={`/plans/${row.id}`}>
        {visible(row.name)}
      </Link>
    ),
  },
  {
    id: "description",
    header: "Description",
    width: "minmax(160px, 3fr)",
    phone: false,
    cell: (row) => <span className="cut soft">{visible(row.description ?? "")}</span>,
  },
  {
    id: "steps",
    header: "Steps",
    phone: false,
    width: "60px",
    number: true,
    cell: (row) => count(row.steps.length),
  },
  {
    id: "template",
    header: "From template",
    width: "minmax(140px, 1fr)",
    cell: (row) =>
      row.templateId ? (
        <Link className="cut" href={`/templates/${row.templateId}?version=${row.templateVersion ?? ""}`}>
          {row.templateId} {row.templateVersion}
        </Link>
      ) : (
        <span className="faint">–</span>
      ),
  },
  {
    id: "tags",
    header: "Tags",
    width: "minmax(100px, 1fr)",
    phone: false,
    cell: (row) => <span className="cut">{row.tags.join(", ")}</span>,
  },
  { id: "created", header: "Created", width: "100px", cell: (row) => <Ago at={row.createdAt} /> },
];

function List() {
  const [params, set] = useParams();
  const may = useMay();
  const search = params.get("search") ?? "";
  const tags = params.get("tags") ?? "";
  const query = { search: search || undefined, tags: tags || undefined };
  const list = useRows("/api/plans", { query } as never);
  return (
    <PageFrame
      title="Plans"
      fill
      actions={
        may("plans: create") && (
          <Link href="/plans/new" className="button" data-kind="primary">
            New plan
          </Link>
        )
      }
    >
      <div className="filters" role="search">
        <Search label="Search plans" />
        <Search label="Tags" name="tags" />
        <span className="faint">{list.data ? `${count(list.total)} found` : ""}</span>
      </div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.refetch()} />
      ) : !list.data ? (
        <Loading />
      ) : list.rows.length === 0 ? (
        search || tags ? (
          <Empty title="No plan matches">
            <Button onClick={() => set({ search: undefined, tags: undefined })}>Show all</Button>
          </Empty>
        ) : (
          <Empty
            title="There is no plan yet"
            command="callboard templates deploy contract-review-v1 --sample"
            needs="templates: deploy"
            action={
              may("templates: deploy") && (
                <div className="row wrap">
                  <RunExample of="execution" />
                  <Link className="button" href="/templates">
                    Deploy a template
                  </Link>
                </div>
              )
            }
          >
            A plan is a graph of steps. Each deploy of a template makes one; or write your own.
          </Empty>
        )
      ) : (
        <Table
          label="Plans"
          rows={list.rows}
          total={list.total}
          more={list.more}
          keyOf={(row) => row.id}
          href={(row) => `/plans/${row.id}`}
          columns={COLUMNS}
        />
      )}
    </PageFrame>
  );
}

function One({ id }: { id: string }) {
  const [params] = useParams();
  const may = useMay();
  const read = useApi("/api/plans/{id}", { path: { id } });
  const tabs = [
    { id: "steps", name: "Steps", href: `/plans/${id}` },
    ...(may("plans: execute") ? [{ id: "run", name: "Run", href: `/plans/${id}?tab=run` }] : []),
  ];
  const tab = tabs.some((each) => each.id === params.get("tab")) ? params.get("tab") : "steps";
  return (
    <PageFrame
      title={read.data?.name ?? "Plan"}
      actions={
        <Link className="button" href={`/executions?planId=${id}`}>
          Executions
        </Link>
      }
    >
      <Loaded query={read}>
        {(plan) => (
          <>
            <div className="row wrap small soft">
              <span translate="no" className="mono">
                {plan.id}
              </span>
              <span>
                created <Ago at={plan.createdAt} />
              </span>
              {plan.templateId && (
                <Link href={`/templates/${plan.templateId}?version=${plan.templateVersion ?? ""}`}>
                  {plan.templateId} {plan.templateVersion}
                </Link>
              )}
              {plan.tags.map((tag) => (
                <Link key={tag} className="tag" href={`/plans?tags=${encodeURIComponent(tag)}`}>
                  {tag}
                </Link>
              ))}
            </div>
            {plan.description && <p>{visible(plan.description)}</p>}
            <Tabs label="Parts of the plan" tabs={tabs} current={tab ?? "steps"} />
            {tab === "run" ? (
              <Run
                target={{ kind: "plan", id }}
                schema={plan.inputSchema}
                steps={plan.steps}
                hitl={plan.hitl}
              />
            ) : (
              <Panel title="Steps">
                <Steps steps={plan.steps} hitl={plan.hitl} />
              </Panel>
            )}
          </>
        )}
      </Loaded>
    </PageFrame>
  );
}
