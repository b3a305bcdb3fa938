/** /templates: the list. /templates/new: the editor. /templates/:id: one template. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { Link, useParams as useRoute } from "wouter";
import type { ItemOf } from "../../api/client";
import { useRows } from "../../api/hooks";
import { count, duration, money } from "../../lib/format";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useMay } from "../../session/session";
import { Button, Empty, Loading, PageFrame } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { Listed } from "../../ui/listed";
import { Published } from "../../ui/published";
import type { Column } from "../../ui/table";
import { Search } from "../definition/search";
import { STARTER } from "./starter";
import { VISIBILITIES, visibilityOf } from "./visibility";
import "./templates.css";

const Write = lazy(() => import("../definition/write"));
const One = lazy(() => import("./template"));

export default function Templates() {
  const { id } = useRoute<{ id?: string }>();
  const may = useMay();
  if (id === "new" && may("templates: create")) {
    return (
      <PageFrame title={t`New template`}>
        <Suspense fallback={<Loading />}>
          <Write kind="template" initial={STARTER} of="new" />
        </Suspense>
      </PageFrame>
    );
  }
  if (id) {
    return (
      <Suspense fallback={<Loading />}>
        <One key={id} id={id} />
      </Suspense>
    );
  }
  return <List />;
}

type Row = ItemOf<"/api/templates">;
const NAMES = ["search", "industry", "visibility", "tags"];
const WORDS = { visibility: { of: visibilityOf } };
const INDUSTRIES = ["legal", "finance", "devops", "marketing", "healthcare", "custom"];

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    header: t`Template`,
    width: "minmax(200px, 3fr)",
    cell: (row) => (
      <span className="templates-name">
        <Link href={`/templates/${row.id}`}>{visible(row.name)}</Link>
        <span translate="no" className="faint small mono cut">
          {row.id}
        </span>
      </span>
    ),
  },
  {
    id: "version",
    header: t`Version`,
    width: "74px",
    cell: (row) => (
      <span translate="no" className="mono">
        {row.version}
      </span>
    ),
  },
  { id: "industry", header: t`Industry`, width: "100px", cell: (row) => row.industry },
  {
    id: "steps",
    header: t`Steps`,
    phone: false,
    width: "60px",
    number: true,
    cell: (row) => count(row.stepsCount),
  },
  {
    id: "held",
    header: t`Gates`,
    phone: false,
    width: "64px",
    number: true,
    cell: (row) =>
      row.hitlSteps.length > 0 ? (
        <span data-tip={t`Always reviewed: ${row.hitlSteps.join(", ")}`}>{row.hitlSteps.length}</span>
      ) : (
        <span className="faint">0</span>
      ),
  },
  { id: "cost", header: t`Cost`, width: "104px", number: true, cell: (row) => money(row.estimatedCost) },
  {
    id: "time",
    header: t`Time`,
    width: "90px",
    number: true,
    cell: (row) => duration(row.estimatedDurationMs),
  },
  {
    id: "author",
    header: t`Author`,
    width: "minmax(130px, 1fr)",
    phone: false,
    cell: (row) => (
      <span className="cut" translate="no">
        {row.author}
      </span>
    ),
  },
  {
    id: "visibility",
    header: t`Seen by`,
    width: "110px",
    phone: false,
    cell: (row) => visibilityOf(row.visibility),
  },
  {
    id: "created",
    header: t`Published`,
    width: "124px",
    phone: false,
    cell: (row) => <Published of={row} />,
  },
];

function List() {
  const [params, set] = useParams();
  const industry = params.get("industry") ?? "";
  const visibility = params.get("visibility") ?? "";
  const search = params.get("search") ?? "";
  const tags = params.get("tags") ?? "";
  const query = {
    industry: industry || undefined,
    visibility: visibility || undefined,
    search: search || undefined,
    tags: tags || undefined,
  };
  const list = useRows("/api/templates", { query } as never);
  const may = useMay();
  const isFiltered = Boolean(industry || visibility || search || tags);
  return (
    <PageFrame
      title={t`Templates`}
      fill
      actions={
        may("templates: create") && (
          <Link href="/templates/new" className="button" data-kind="primary">
            <Trans>New template</Trans>
          </Link>
        )
      }
    >
      <div className="filters" role="search">
        <Search label={t`Search templates`} />
        <select
          className="select"
          aria-label={t`Industry`}
          value={industry}
          onChange={(event) => set({ industry: event.target.value })}
        >
          <option value="">{t`every industry`}</option>
          {INDUSTRIES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <select
          className="select"
          aria-label={t`Visibility`}
          value={visibility}
          onChange={(event) => set({ visibility: event.target.value })}
        >
          <option value="">{t`seen by anybody`}</option>
          {Object.entries(VISIBILITIES).map(([name, word]) => (
            <option key={name} value={name}>
              {word}
            </option>
          ))}
        </select>
        <Search label={t`Tags`} name="tags" />
        <span className="faint">{list.data ? t`${count(list.total)} found` : ""}</span>
      </div>
      <FilterBar page="templates" names={NAMES} set={set} words={WORDS} />
      <Listed
        list={list}
        empty={
          <Empty title={isFiltered ? t`No template matches` : t`No template is visible to you`}>
            {isFiltered && (
              <Button onClick={() => set(without(NAMES))}>
                <Trans>Show all</Trans>
              </Button>
            )}
          </Empty>
        }
        label={t`Templates`}
        keyOf={(row) => row.id}
        href={(row) => `/templates/${row.id}`}
        columns={COLUMNS}
      />
    </PageFrame>
  );
}
