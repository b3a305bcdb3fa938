/** Every batch, the newest first. */
import { t } from "@lingui/core/macro";
import { Plural, Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import type { ParamsOf } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { count, money } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Empty, PageFrame } from "../../ui/basics";
import { FilterBar } from "../../ui/chips";
import { Filters, listOf, States, TextFilter } from "../../ui/filters";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { Bar, endedOf } from "./progress";
import type { Batch } from "./read";
import "../executions/executions.css";
import "./batches.css";

type Query = NonNullable<ParamsOf<"/api/batches">["query"]>;
const STATES = ["loading", "running", "paused", "completed", "cancelled"] as const;
const NAMES = ["status", "templateId", "tags"];

export default function Batches() {
  useLive(["batch.*"]);
  const [params, set] = useParams();
  const may = useMay();
  const nameOf = useNameOf();
  const personOf = useNames();
  const status = listOf(params.get("status"));
  const templateId = params.get("templateId") ?? "";
  const templates = usePage("/api/templates", { query: { limit: 100 } });
  const isListed = templates.data?.items.some(({ id }) => id === templateId);
  const isFiltered = NAMES.some((name) => params.has(name));
  const query = {
    ...(status.length > 0 && { status: status as Query["status"] }),
    ...(templateId && { templateId }),
    ...(params.has("tags") && { tags: listOf(params.get("tags")) }),
  };
  const list = useRows("/api/batches", { query });
  const columns: Column<Batch>[] = [
    {
      id: "name",
      header: t`Batch`,
      width: "minmax(180px, 3fr)",
      cell: (it) => (
        <Link href={`/batches/${it.id}`} className="cut" data-tip={it.id}>
          {visible(it.name ?? nameOf(it))}
        </Link>
      ),
    },
    {
      id: "template",
      header: t`Template`,
      width: "minmax(150px, 2fr)",
      cell: (it) => (
        <span className="cut">
          <Link href={`/templates/${it.templateId}?version=${encodeURIComponent(it.version)}`}>
            {visible(nameOf(it))}
          </Link>{" "}
          <span translate="no" className="faint mono">
            {it.version}
          </span>
        </span>
      ),
    },
    { id: "status", header: t`Status`, width: "116px", cell: (it) => <Status state={it.status} /> },
    {
      id: "progress",
      header: t`Rows`,
      width: "minmax(190px, 1.6fr)",
      cell: (it) => (
        <span className="batches-progress">
          <Bar batch={it} small />
          <span className="num">
            <Trans>
              {count(endedOf(it))} of {count(it.rows)}
            </Trans>
          </span>
          {it.progress.failed > 0 && <Status state="failed" word={t`${count(it.progress.failed)} failed`} />}
        </span>
      ),
    },
    {
      id: "cost",
      header: t`Cost`,
      width: "92px",
      number: true,
      cell: (it) => money(it.cost.actual),
    },
    {
      id: "by",
      header: t`By`,
      width: "minmax(90px, 1fr)",
      phone: false,
      cell: (it) => <span className="cut">{visible(personOf(it.createdBy))}</span>,
    },
    {
      id: "created",
      header: t`Created`,
      width: "96px",
      number: true,
      cell: (it) => <Ago at={it.createdAt} />,
    },
  ];
  return (
    <PageFrame
      title={t`Batches`}
      fill
      actions={
        <>
          {list.data && (
            <span className="soft executions-total">
              <Plural value={list.total} one="# batch" other="# batches" />
            </span>
          )}
          <Link className="button" href="/batches/compare">
            <Trans>Compare</Trans>
          </Link>
          {may("batches: run") && (
            <Link className="button" data-kind="primary" href="/batches/new">
              <Trans>New batch</Trans>
            </Link>
          )}
        </>
      }
    >
      <Filters>
        <States states={STATES} chosen={status} set={set} />
        <select
          className="select"
          aria-label={t`Template`}
          value={templateId}
          onChange={(event) => set({ templateId: event.target.value || undefined })}
        >
          <option value="">{t`of every template`}</option>
          {templateId && !isListed && <option value={templateId}>{templateId}</option>}
          {templates.data?.items.map(({ id, name }) => (
            <option key={id} value={id}>
              {visible(name)}
            </option>
          ))}
        </select>
        <TextFilter name="tags" label={t`Tags`} params={params} set={set} />
      </Filters>
      <FilterBar page="batches" names={NAMES} set={set} />
      <Listed
        list={list}
        empty={<Nothing isFiltered={isFiltered} />}
        label={t`Batches`}
        keyOf={(it) => it.id}
        href={(it) => `/batches/${it.id}`}
        columns={columns}
      />
    </PageFrame>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  const may = useMay();
  if (isFiltered)
    return (
      <Empty title={t`No batch matches`}>
        <Trans>Clear the filters to see all.</Trans>
      </Empty>
    );
  return (
    <Empty
      title={t`No batch was created yet`}
      command="callboard batches create mails.csv --template support-reply-v1 --key id --watch"
      needs="batches: run"
      action={
        <div className="row wrap">
          {may("batches: run") && (
            <Link className="button" href="/batches/new">
              <Trans>Choose a file</Trans>
            </Link>
          )}
          <Link className="button" data-kind="quiet" href="/docs/how-to/batch">
            <Trans>How it goes, step by step</Trans>
          </Link>
        </div>
      }
    >
      <Trans>
        A batch runs one template for each row of a file: CSV, or lines of JSON. Each row becomes an
        execution; the results come back as a table.
      </Trans>
    </Empty>
  );
}
