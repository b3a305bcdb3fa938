/** /review/decided: what was decided, the latest decision first: by whom, when, with which words. */
import { useEffect } from "react";
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { useRows } from "../../api/hooks";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useWho } from "../../session/session";
import { Button, Empty, Failed, Loading, PageFrame } from "../../ui/basics";
import { Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { useNames } from "./names";
import { matches } from "./select";

/** A search reads so many of the latest decisions. */
const SEARCHED = 1_000;

export default function DecidedList() {
  const [params, setParams] = useParams();
  const who = useWho();
  const nameOf = useNames();
  useLive(["hitl.*"]);
  const isMine = params.get("mine") === "1";
  const verdict = params.get("verdict") ?? "";
  const text = params.get("q") ?? "";
  const list = useRows("/api/hitl", {
    query: {
      status: verdict === "approved" || verdict === "rejected" ? [verdict] : ["approved", "rejected"],
      orderBy: "decidedAt",
      reviewerId: isMine ? who.user.id : undefined,
    },
  });
  const { rows, total, more, hasNextPage } = list;
  useEffect(() => {
    if (text && hasNextPage && rows.length < SEARCHED) more();
  }, [text, hasNextPage, rows.length, more]);
  const found = rows.filter((item) => says(item, text, nameOf(item.decision?.by)));
  const columns: Column<Approval>[] = [
    {
      id: "item",
      header: "Output",
      width: "minmax(220px, 3fr)",
      cell: (item) => (
        <span className="cut" translate="no" dir="auto">
          {visible(item.title || item.summary || "(empty)")}
        </span>
      ),
    },
    {
      id: "verdict",
      header: "Decision",
      width: "150px",
      cell: (item) => (
        <Status state={item.status} word={item.decision?.wasModified ? "approved, edited" : undefined} />
      ),
    },
    {
      id: "by",
      header: "By",
      width: "140px",
      cell: (item) => <span className="cut">{nameOf(item.decision?.by)}</span>,
    },
    { id: "at", header: "When", width: "110px", cell: (item) => <Ago at={item.decision?.at} /> },
    {
      id: "step",
      header: "Step",
      width: "minmax(120px, 1fr)",
      phone: false,
      cell: (item) => (
        <span className="cut">
          {item.stepId ? `${item.templateId ?? "plan"} / ${item.stepId}` : item.queue}
        </span>
      ),
    },
    {
      id: "comment",
      header: "Comment",
      width: "minmax(140px, 2fr)",
      phone: false,
      cell: (item) => (
        <span className="cut soft" translate="no" dir="auto">
          {visible(item.decision?.comment ?? "")}
        </span>
      ),
    },
  ];
  return (
    <PageFrame title="Decided" fill actions={<Link href="/review">What waits</Link>}>
      <div className="filters">
        <input
          className="input"
          type="search"
          aria-label="Search"
          placeholder="Search text, step, tag, comment, name"
          value={text}
          onChange={(event) => setParams({ q: event.target.value })}
        />
        <select
          className="select"
          aria-label="Decision"
          value={verdict}
          onChange={(event) => setParams({ verdict: event.target.value })}
        >
          <option value="">Approved and rejected</option>
          <option value="approved">Approved</option>
          <option value="rejected">Rejected</option>
        </select>
        <label className="check small">
          <input
            type="checkbox"
            checked={isMine}
            onChange={(event) => setParams({ mine: event.target.checked ? "1" : undefined })}
          />
          By me
        </label>
        <span className="faint">{list.data && (text ? `${found.length} of ${total}` : total)}</span>
      </div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.refetch()} />
      ) : !list.data ? (
        <Loading />
      ) : found.length === 0 ? (
        <Empty
          title="Nothing matches"
          action={
            <Button onClick={() => setParams({ q: undefined, mine: undefined, verdict: undefined })}>
              Clear the filters
            </Button>
          }
        >
          {total > SEARCHED ? `The latest ${SEARCHED} decisions were searched.` : "No decision is like that."}
        </Empty>
      ) : (
        <Table
          label="Decided outputs"
          rows={found}
          total={text ? found.length : total}
          more={text ? undefined : more}
          keyOf={(item) => item.taskId}
          href={(item) => `/review/${item.taskId}`}
          columns={columns}
        />
      )}
    </PageFrame>
  );
}

function says(item: Approval, text: string, by: string): boolean {
  if (matches(item, text, undefined)) return true;
  const wanted = text.toLowerCase();
  const { title, decision } = item;
  return [title, decision?.comment, decision?.modifiedOutput, by].some((field) =>
    field?.toLowerCase().includes(wanted),
  );
}
