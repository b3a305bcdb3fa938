/** /plans: the list. /plans/new: the editor. /plans/:id: one plan, and the form that runs it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { Link, useParams as useRoute } from "wouter";
import type { ItemOf } from "../../api/client";
import { useApi, useRows } from "../../api/hooks";
import { count } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Loaded, Loading, PageFrame, Panel } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { RunExample } from "../../ui/example";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
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
      <PageFrame title={t`New plan`}>
        <Suspense fallback={<Loading />}>
          <Write kind="plan" initial={STARTER} of="new" />
        </Suspense>
      </PageFrame>
    );
  }
  return id ? <One key={id} id={id} /> : <List />;
}

type Row = ItemOf<"/api/plans">;
const NAMES = ["search", "tags"];

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    header: t`Plan`,
    width: "minmax(200px, 2fr)",
    cell: (row) => (
      <Link className="cut" href={`/plans/${row.id}`}>
        {visible(row.name)}
      </Link>
    ),
  },
  {
    id: "description",
    header: t`Description`,
    width: "minmax(160px, 3fr)",
    phone: false,
    cell: (row) => <span className="cut soft">{visible(row.description ?? "")}</span>,
  },
  {
    id: "steps",
    header: t`Steps`,
    phone: false,
    width: "60px",
    number: true,
    cell: (row) => count(row.steps.length),
  },
  {
    id: "template",
    header: t`From template`,
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
    header: t`Tags`,
    width: "minmax(100px, 1fr)",
    phone: false,
    cell: (row) => <span className="cut">{row.tags.join(", ")}</span>,
  },
  { id: "created", header: t`Created`, width: "100px", cell: (row) => <Ago at={row.createdAt} /> },
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
      title={t`Plans`}
      fill
      actions={
        may("plans: create") && (
          <Link href="/plans/new" className="button" data-kind="primary">
            <Trans>New plan</Trans>
          </Link>
        )
      }
    >
      <div className="filters" role="search">
        <Search label={t`Search plans`} />
        <Search label={t`Tags`} name="tags" />
        <span className="faint">{list.data ? t`${count(list.total)} found` : ""}</span>
      </div>
      <FilterBar page="plans" names={NAMES} set={set} />
      <Listed
        list={list}
        empty={
          search || tags ? (
            <Empty title={t`No plan matches`}>
              <Button onClick={() => set(without(NAMES))}>
                <Trans>Show all</Trans>
              </Button>
            </Empty>
          ) : (
            <Empty
              title={t`There is no plan yet`}
              command="callboard templates deploy contract-review-v1 --sample"
              needs="templates: deploy"
              action={
                may("templates: deploy") && (
                  <div className="row wrap">
                    <RunExample of="execution" />
                    <Link className="button" href="/templates">
                      <Trans>Deploy a template</Trans>
                    </Link>
                  </div>
                )
              }
            >
              <Trans>
                A plan is a graph of steps. Each deploy of a template makes one; or write your own.
              </Trans>
            </Empty>
          )
        }
        label={t`Plans`}
        keyOf={(row) => row.id}
        href={(row) => `/plans/${row.id}`}
        columns={COLUMNS}
      />
    </PageFrame>
  );
}

function One({ id }: { id: string }) {
  const [params] = useParams();
  const may = useMay();
  const read = useApi("/api/plans/{id}", { path: { id } });
  const tabs = [
    { id: "steps", name: t`Steps`, href: `/plans/${id}` },
    ...(may("plans: execute") ? [{ id: "run", name: t`Run`, href: `/plans/${id}?tab=run` }] : []),
  ];
  const tab = tabs.some((each) => each.id === params.get("tab")) ? params.get("tab") : "steps";
  return (
    <PageFrame
      title={read.data?.name ?? t`Plan`}
      actions={
        <Link className="button" href={`/executions?planId=${id}`}>
          <Trans>Executions</Trans>
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
                <Trans>
                  created <Ago at={plan.createdAt} />
                </Trans>
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
            <Tabs label={t`Parts of the plan`} tabs={tabs} current={tab ?? "steps"} />
            {tab === "run" ? (
              <Run
                target={{ kind: "plan", id }}
                schema={plan.inputSchema}
                steps={plan.steps}
                hitl={plan.hitl}
              />
            ) : (
              <Panel title={t`Steps`}>
                <Steps steps={plan.steps} hitl={plan.hitl} />
              </Panel>
            )}
          </>
        )}
      </Loaded>
    </PageFrame>
  );
}
