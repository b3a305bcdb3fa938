/** /review/decided: what was decided, the latest decision first: by whom, when, with which words. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { Approval, ParamsOf } from "../../api/client";
import { useRows } from "../../api/hooks";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { visible } from "../../lib/visible";
import { useLive } from "../../live/live";
import { useWho } from "../../session/session";
import { Button, Empty, PageFrame } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { Listed } from "../../ui/listed";
import { Status } from "../../ui/status";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { matches } from "./select";

/** Words of outputs and comments, which the server does not search, are looked for in so many of the latest. */
const SEARCHED = 1_000;
const NAMES = ["q", "verdict", "mine"];
const WORDS = { mine: { word: t`By`, of: () => t`me` } };

type Query = NonNullable<ParamsOf<"/api/hitl">["query"]>;

export default function DecidedList() {
  const [params, setParams] = useParams();
  const who = useWho();
  const nameOf = useNames();
  useLive(["hitl.*"]);
  const isMine = params.get("mine") === "1";
  const verdict = params.get("verdict") ?? "";
  const text = params.get("q") ?? "";
  const query: Query = {
    status: verdict === "approved" || verdict === "rejected" ? [verdict] : ["approved", "rejected"],
    orderBy: "decidedAt",
    reviewerId: isMine ? who.user.id : undefined,
  };
  const list = useRows("/api/hitl", { query });
  // The server finds title, tag, key and id in every decision.
  const asked = useLater(text.trim());
  const named = useRows("/api/hitl", { query: { ...query, search: asked } }, { enabled: asked !== "" });
  const { rows, total, more, hasNextPage } = list;
  useEffect(() => {
    if (text && hasNextPage && rows.length < SEARCHED) more();
  }, [text, hasNextPage, rows.length, more]);
  const found = text
    ? together(
        asked === "" ? [] : named.rows,
        rows.filter((item) => says(item, text, nameOf(item.decision?.by))),
      )
    : rows;
  const columns: Column<Approval>[] = [
    {
      id: "item",
      header: t`Output`,
      width: "minmax(220px, 3fr)",
      cell: (item) => (
        <Link href={`/review/${item.taskId}`} className="cut" translate="no" dir="auto">
          {visible(item.title || item.summary || t`(empty)`)}
        </Link>
      ),
    },
    {
      id: "verdict",
      header: t`Decision`,
      width: "150px",
      cell: (item) => (
        <Status state={item.status} word={item.decision?.wasModified ? t`approved, edited` : undefined} />
      ),
    },
    {
      id: "by",
      header: t`By`,
      width: "140px",
      cell: (item) => <span className="cut">{nameOf(item.decision?.by)}</span>,
    },
    { id: "at", header: t`When`, width: "110px", cell: (item) => <Ago at={item.decision?.at} /> },
    {
      id: "step",
      header: t`Step`,
      width: "minmax(120px, 1fr)",
      phone: false,
      cell: (item) => (
        <span className="cut">
          {item.stepId ? `${item.templateId ?? t`plan`} / ${item.stepId}` : item.queue}
        </span>
      ),
    },
    {
      id: "comment",
      header: t`Comment`,
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
    <PageFrame
      title={t`Decided`}
      fill
      actions={
        <Link href="/review">
          <Trans>What waits</Trans>
        </Link>
      }
    >
      <div className="filters">
        <input
          className="input"
          type="search"
          aria-label={t`Search`}
          placeholder={t`Search title, tag, key, id, text, comment, name`}
          value={text}
          onChange={(event) => setParams({ q: event.target.value })}
        />
        <select
          className="select"
          aria-label={t`Decision`}
          value={verdict}
          onChange={(event) => setParams({ verdict: event.target.value })}
        >
          <option value="">{t`Approved and rejected`}</option>
          <option value="approved">{t`Approved`}</option>
          <option value="rejected">{t`Rejected`}</option>
        </select>
        <label className="check small">
          <input
            type="checkbox"
            checked={isMine}
            onChange={(event) => setParams({ mine: event.target.checked ? "1" : undefined })}
          />
          <Trans>By me</Trans>
        </label>
        <span className="faint">
          {list.data && (text ? t`${found.length}${named.hasNextPage ? "+" : ""} of ${total}` : total)}
        </span>
      </div>
      <FilterBar page="review/decided" names={NAMES} set={setParams} words={WORDS} />
      <Listed
        label={t`Decided outputs`}
        list={{
          data: found.length === 0 && named.isFetching ? undefined : list.data,
          error: list.error,
          refetch: list.refetch,
          rows: found,
          total: text ? found.length : total,
          more: text ? named.more : more,
        }}
        keyOf={(item) => item.taskId}
        href={(item) => `/review/${item.taskId}`}
        columns={columns}
        empty={
          <Empty
            title={t`Nothing matches`}
            action={
              <Button onClick={() => setParams(without(NAMES))}>
                <Trans>Clear the filters</Trans>
              </Button>
            }
          >
            {total > SEARCHED
              ? t`Titles, tags, keys and ids of all decisions were searched, and the texts of the latest ${SEARCHED}.`
              : t`No decision is like that.`}
          </Empty>
        }
      />
    </PageFrame>
  );
}

/** Both, the latest decision first, each once. */
function together(some: Approval[], others: Approval[]): Approval[] {
  const all = new Map([...some, ...others].map((item) => [item.taskId, item]));
  const at = ({ decision }: Approval) => Date.parse(decision?.at ?? "") || 0;
  return [...all.values()].sort((one, other) => at(other) - at(one));
}

/** A text once nothing was typed for a moment: each is a request. */
function useLater(text: string): string {
  const [later, setLater] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setLater(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return text === "" ? "" : later;
}

function says(item: Approval, text: string, by: string): boolean {
  if (matches(item, text, undefined)) return true;
  const wanted = text.toLowerCase();
  const { title, decision } = item;
  return [title, decision?.comment, decision?.modifiedOutput, by].some((field) =>
    field?.toLowerCase().includes(wanted),
  );
}
