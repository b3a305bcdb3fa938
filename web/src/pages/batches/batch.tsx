/** One batch: how far it is, what it costs, its rows, and how sure they are. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link, useParams as useRoute } from "wouter";
import { useApi } from "../../api/hooks";
import { count, tail } from "../../lib/format";
import { useNameOf } from "../../lib/names";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useMay } from "../../session/session";
import { Loaded, PageFrame } from "../../ui/basics";
import { Filters, listOf } from "../../ui/filters";
import { Icon } from "../../ui/icons";
import { Status } from "../../ui/status";
import { Tags } from "../../ui/tags";
import { TemplateName } from "../../ui/template-name";
import { Ago } from "../../ui/time";
import { Actions, Exports } from "./actions";
import { Confidence } from "./confidence";
import { Bar, Counts, Figures } from "./progress";
import type { Batch, BatchRow } from "./read";
import { NAMES, queryOf, RowFilters, Rows, useRead, useSeen } from "./rows";
import "../../ui/plain.css";
import "../definition/definition.css";
import "../executions/executions.css";
import "./batches.css";

const NONE: BatchRow[] = [];

export default function BatchPage() {
  const { id = "" } = useRoute();
  useLive(["batch.*"]);
  const nameOf = useNameOf();
  const read = useApi("/api/batches/{id}", { path: { id } });
  const batch = read.data;
  const title = batch ? (batch.name ?? `${nameOf(batch)} ${tail(id)}`) : t`Batch`;
  return (
    <PageFrame title={visible(title)} fill actions={batch && <Actions batch={batch} />}>
      <Loaded query={read} lines={8}>
        {(data) => <Shown key={data.id} batch={data} />}
      </Loaded>
    </PageFrame>
  );
}

function Shown({ batch }: { batch: Batch }) {
  const [params, set] = useParams();
  const may = useMay();
  const template = useApi(
    "/api/templates/{id}",
    { path: { id: batch.templateId }, query: { version: batch.version } },
    { enabled: may("templates: read"), retry: false },
  );
  const query = queryOf(params);
  const status = listOf(params.get("status"));
  const read = useRead(batch, query);
  // The columns are not made of outputs while the template, which declares them, is on its way.
  const isKnown = !template.isFetching || template.data !== undefined;
  const seen = useSeen(isKnown ? read.known : NONE, template.data?.outputSchema);
  const step = params.get("step") ?? seen.steps.at(-1);
  const steps = template.data?.steps?.map(({ id }) => id) ?? seen.steps;
  const isWide = seen.steps.length > 0 || params.has("min") || params.has("max");
  return (
    <>
      <Summary batch={batch} />
      <div className="batches-top" data-two={isWide}>
        <div className="stack">
          <Bar batch={batch} />
          <Counts
            batch={batch}
            chosen={status}
            set={(chosen) => set({ status: chosen.join(",") || undefined })}
          />
          <Figures batch={batch} />
        </div>
        {isWide && step && <Confidence batch={batch} step={step} params={params} set={set} />}
      </div>
      <div className="row wrap between">
        <Filters
          isFiltered={query !== undefined}
          clear={() => set(Object.fromEntries(NAMES.map((name) => [name, undefined])))}
        >
          <RowFilters params={params} set={set} steps={steps} />
          <span className="soft" role="status">
            {query === undefined
              ? plural(batch.rows, { one: "# row", other: "# rows" })
              : read.total !== undefined
                ? plural(read.total, {
                    one: `# row of ${count(batch.rows)}`,
                    other: `# rows of ${count(batch.rows)}`,
                  })
                : ""}
          </span>
        </Filters>
        <Exports batch={batch} status={status} />
      </div>
      <Rows
        // Another question has other rows and begins at the top.
        key={JSON.stringify(query)}
        batch={batch}
        read={read}
        isFiltered={query !== undefined}
        seen={seen}
        step={params.get("step") ?? undefined}
      />
    </>
  );
}

function Summary({ batch }: { batch: Batch }) {
  const personOf = useNames();
  return (
    <>
      <div className="executions-summary">
        <span data-batch-status={batch.status}>
          <Status state={batch.status} filled />
        </span>
        <Link href={`/templates/${batch.templateId}?version=${encodeURIComponent(batch.version)}`}>
          <TemplateName id={batch.templateId} />{" "}
          <span translate="no" className="mono">
            {batch.version}
          </span>
        </Link>
        <span>
          <Trans>
            created <Ago at={batch.createdAt} /> by {visible(personOf(batch.createdBy))}
          </Trans>
        </span>
        {batch.tags && batch.tags.length > 0 && <Tags of={batch} list="/batches" />}
        <Link href={`/batches/compare?a=${batch.id}`}>
          <Trans>Compare with another</Trans>
        </Link>
        {batch.progress.awaitingApproval > 0 && (
          <Link href="/review">
            <Trans>Review what waits</Trans>
          </Link>
        )}
      </div>
      {batch.reason && (
        <div className="notice" data-tone="warn" role="status">
          <span className="status" data-tone="warn">
            <Icon name="clock" />
          </span>
          <div className="grow executions-wrap">
            <strong>{batch.status === "paused" ? t`It is paused` : t`Rows wait`}</strong>
            <div>{visible(batch.reason)}</div>
          </div>
        </div>
      )}
    </>
  );
}
