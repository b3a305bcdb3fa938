/** The audit log: who did what, when, from where. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ItemOf } from "../../api/client";
import { usePage, useRows } from "../../api/hooks";
import { count, tail } from "../../lib/format";
import { useParams } from "../../lib/search";
import { Button, Empty } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { Listed } from "../../ui/listed";
import type { Column } from "../../ui/table";
import { Ago } from "../../ui/time";
import { Search } from "../definition/search";

type Entry = ItemOf<"/api/audit">;
const NAMES = ["action", "actor", "since", "until"];

export default function Audit() {
  const [params, set] = useParams();
  const query = {
    actor: params.get("actor") ?? undefined,
    action: params.get("action") ?? undefined,
    since: instantOf(params.get("since"), "T00:00:00Z"),
    until: instantOf(params.get("until"), "T23:59:59.999Z"),
  };
  const list = useRows("/api/audit", { query } as never);
  const users = usePage("/api/auth/users", { query: { limit: 100 } } as never);
  const emails = new Map(users.data?.items.map(({ id, email }) => [id, email]));
  const isFiltered = Object.values(query).some(Boolean);
  const columns: Column<Entry>[] = [
    { id: "at", header: t`When`, width: "100px", cell: (entry) => <Ago at={entry.at} /> },
    {
      id: "action",
      header: t`What`,
      width: "minmax(150px, 1fr)",
      cell: (entry) => (
        <span translate="no" className="mono">
          {entry.action}
        </span>
      ),
    },
    {
      id: "actor",
      header: t`Who`,
      width: "minmax(150px, 1fr)",
      cell: (entry) => (
        <button
          type="button"
          className="admin-pick cut"
          data-tip={`${entry.actor}\n${t`Show only these`}`}
          onClick={() => set({ actor: entry.actor })}
        >
          {emails.get(entry.actor) ?? tail(entry.actor)}
        </button>
      ),
    },
    {
      id: "target",
      header: t`On`,
      width: "minmax(120px, 1fr)",
      cell: (entry) =>
        entry.target ? (
          <span translate="no" className="mono cut" data-tip={entry.target}>
            {emails.get(entry.target) ?? tail(entry.target)}
          </span>
        ) : (
          <span className="faint">–</span>
        ),
    },
    {
      id: "details",
      header: t`Details`,
      width: "minmax(200px, 2fr)",
      cell: (entry) => {
        const text = Object.entries(entry.details ?? {})
          .map(([name, value]) => `${name}: ${value}`)
          .join("\n");
        return (
          <span className="cut soft" data-tip={text || undefined}>
            {text.replaceAll("\n", ", ")}
          </span>
        );
      },
    },
    {
      id: "address",
      header: t`From`,
      width: "120px",
      phone: false,
      cell: (entry) => (
        <span translate="no" className="mono">
          {entry.address ?? <span className="faint">–</span>}
        </span>
      ),
    },
    {
      id: "number",
      header: t`Number`,
      width: "80px",
      number: true,
      phone: false,
      cell: (entry) => (
        <span data-tip={`${t`hash ${entry.hash}`}\n${t`after ${entry.previousHash}`}`}>
          {count(entry.number)}
        </span>
      ),
    },
  ];
  return (
    <>
      <div className="filters" role="search">
        <Search label={t`Action, such as key.created`} name="action" />
        <Search label={t`Who, by id`} name="actor" />
        <Day label={t`From day`} value={params.get("since")} onChange={(since) => set({ since })} />
        <Day label={t`To day`} value={params.get("until")} onChange={(until) => set({ until })} />
        <span className="faint small">UTC</span>
        <span className="faint">{list.data ? count(list.total) : ""}</span>
      </div>
      <FilterBar
        page="admin/audit"
        names={NAMES}
        set={set}
        words={{
          actor: { of: (actor) => emails.get(actor) ?? tail(actor) },
          since: { word: t`From day`, of: (day) => day },
        }}
      />
      <Listed
        list={list}
        empty={
          <Empty title={t`No entry matches`}>
            {isFiltered && (
              <Button onClick={() => set(without(NAMES))}>
                <Trans>Show all</Trans>
              </Button>
            )}
          </Empty>
        }
        label={t`Audit log`}
        keyOf={(entry) => entry.id}
        columns={columns}
      />
    </>
  );
}

const instantOf = (day: string | null, time: string) => (day ? `${day}${time}` : undefined);

function Day({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | null;
  onChange: (day: string | undefined) => void;
}) {
  return (
    <label className="row small soft">
      {label}
      <input
        type="date"
        className="input"
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value || undefined)}
      />
    </label>
  );
}
