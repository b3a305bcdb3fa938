/** Outputs that wait for a reviewer: the list, and the one that is open. All of it by keyboard. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useParams as useRoute } from "wouter";
import { type Approval, api, unwrap } from "../../api/client";
import { useApi, usePage, useRows } from "../../api/hooks";
import { keyOf, useKeys } from "../../lib/keys";
import { useNarrow } from "../../lib/narrow";
import { useNames } from "../../lib/people";
import { useParams } from "../../lib/search";
import { useLive } from "../../live/live";
import { useMay, useWho } from "../../session/session";
import { Button, Failed, Loaded, Loading } from "../../ui/basics";
import { FilterBar, without } from "../../ui/chips";
import { useStable } from "../../ui/stable";
import { toast } from "../../ui/toast";
import { AGES, agedQuery } from "./ages";
import { BulkDialog } from "./bulk";
import { type Choice, decide, onOutcome, undo, useDecisions } from "./decisions";
import { Detail, type DetailHandle } from "./detail";
import { hasEdit } from "./drafts";
import { List } from "./list";
import { Done, Nothing } from "./nothing";
import { Unlisted } from "./notices";
import { groupOf, matches, opened, remember } from "./select";
import { tellMade, tellOutcomes, tellTaken } from "./tell";
import "./review.css";

/** The filters in the address. */
const NAMES = ["q", "step", "mine", "queue", "age"];
/** More than that nobody scrolls through; filters find the rest. */
const LOADED = 500;
const PAGE = 100;

export default function Review() {
  const { taskId } = useRoute<{ taskId?: string }>();
  const [params, setParams] = useParams();
  const [, navigate] = useLocation();
  const who = useWho();
  const may = useMay()("hitl: approve/reject");
  const nameOf = useNames();
  const { isDecided } = useDecisions();
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [bulk, setBulk] = useState<Approval[]>();
  const detail = useRef<DetailHandle>(null);
  const search = useRef<HTMLInputElement>(null);

  useLive(["hitl.*"]);
  const isMine = params.get("mine") === "1";
  const age = params.get("age");
  const aged = useMemo(() => agedQuery(age), [age]);
  const query = {
    ...aged,
    queue: params.get("queue") ?? undefined,
    reviewerId: isMine ? who.user.id : undefined,
  };
  const isNewestFirst = params.get("sort") === "newest";
  const counted = usePage("/api/hitl/pending", { query: { ...query, limit: 1 } });
  const first = useFirst(JSON.stringify(query), isNewestFirst ? undefined : counted.data?.total);
  const list = useRows("/api/hitl/pending", { query }, { enabled: counted.data !== undefined, first });
  const { rows, total, more, hasNextPage } = list;
  // The oldest come last: the order is known once all are there.
  const isWhole = list.data !== undefined && ((isNewestFirst && rows.length >= LOADED) || !hasNextPage);
  const wholeOnce = useRef<string>(undefined);
  const asked = JSON.stringify(query);
  if (isWhole) wholeOnce.current = asked;
  const isComplete = wholeOnce.current === asked && list.data !== undefined;
  useEffect(() => {
    if (!isWhole && hasNextPage) more();
  }, [isWhole, hasNextPage, more]);

  const text = params.get("q") ?? "";
  const group = params.get("step") ?? undefined;
  const shown = useMemo(() => {
    const waiting = rows.filter((item) => !isDecided(item.taskId) && matches(item, text, group));
    return isNewestFirst ? waiting : waiting.reverse();
  }, [rows, isDecided, text, group, isNewestFirst]);
  const stable = useStable(shown, (item) => item.taskId, `${asked} ${group} ${text}`);
  const item = useApi(
    "/api/hitl/{taskId}",
    { path: { taskId: taskId ?? "" } },
    { enabled: taskId !== undefined },
  );
  const isFiltered = Boolean(text || group || isMine || query.queue || age);
  // Beyond the most that is loaded the open item has a row all the same.
  const beyond = isComplete && !isFiltered && item.data && isOpen(item.data) ? item.data : undefined;
  const items = useMemo(() => {
    // A decided item leaves at once, even under the pointer: the reviewer has sent it away.
    const listed = stable.rows.filter((each) => !isDecided(each.taskId));
    const isListed =
      !beyond || isDecided(beyond.taskId) || listed.some((each) => each.taskId === beyond.taskId);
    return isListed ? listed : [beyond, ...listed];
  }, [stable.rows, isDecided, beyond]);

  const address = useCallback(
    (id: string | undefined) => {
      const tail = params.toString();
      return `/review${id ? `/${id}` : ""}${tail ? `?${tail}` : ""}`;
    },
    [params],
  );
  // The list and the open item fit beside each other.
  const isWide = !useNarrow();
  const head = isComplete ? items[0]?.taskId : undefined;
  useEffect(() => {
    if (!taskId && head && isWide) navigate(address(head), { replace: true });
  }, [taskId, head, isWide, navigate, address]);
  useEffect(() => {
    if (taskId) remember(taskId);
  }, [taskId]);

  /** The item before or after the open one, which may have left the list. */
  const place = useRef(0);
  const index = items.findIndex((item) => item.taskId === taskId);
  if (index >= 0) place.current = index;
  const neighbour = (step: 1 | -1): Approval | undefined => {
    if (index >= 0) return items[index + step];
    return step === 1 ? items[place.current] : items[place.current - 1];
  };
  const go = (item: Approval | undefined) => {
    if (item) navigate(address(item.taskId));
  };

  const stepTo = (item: Approval | undefined) => item && (() => go(item));

  const advance = (gone: ReadonlySet<string>) => {
    const after = items
      .slice(Math.max(index, 0))
      .find((item) => !gone.has(item.taskId) && item.taskId !== taskId);
    const next = after ?? items.findLast((item) => !gone.has(item.taskId) && item.taskId !== taskId);
    navigate(isWide || next ? address(next?.taskId) : address(undefined), { replace: true });
  };

  const settle = (of: Approval[], choice: Choice) => {
    const made = decide(of, choice);
    const gone = new Set(of.map((item) => item.taskId));
    setChosen(new Set([...chosen].filter((id) => !gone.has(id))));
    if (taskId && gone.has(taskId)) advance(gone);
    tellMade(made, () => takeBack(made.id));
  };
  const takeBack = (id?: number) => {
    const taken = undo(id);
    if (!taken) return toast(t`Nothing waits to be undone.`);
    tellTaken(taken);
    const item = taken.items[0];
    if (item) navigate(address(item.taskId));
  };
  useEffect(
    () => onOutcome((outcomes, made) => tellOutcomes(outcomes, made, nameOf, (id) => navigate(address(id)))),
    [nameOf, navigate, address],
  );

  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  // What the filters hide is not decided along with what is shown.
  const selected = items.filter((item) => chosen.has(item.taskId));
  const hidden = chosen.size - selected.length;
  const askBulk = () => {
    const [one] = selected;
    if (!one) return;
    const isOneGroup =
      one.templateId !== undefined &&
      one.stepId !== undefined &&
      selected.every((item) => groupOf(item) === groupOf(one));
    if (!isOneGroup)
      return toast(t`Only outputs of one step of one template can be approved together.`, { tone: "bad" });
    if (selected.some((item) => hasEdit(item.taskId)))
      return toast(t`One of them has an edit, which would be lost: approve that one by itself.`, {
        tone: "bad",
      });
    if (selected.length < 2) return toast(t`Select two or more.`, { tone: "bad" });
    const seen = selected.filter((item) => opened(item.taskId)).length;
    if (seen < Math.min(3, selected.length)) {
      return toast(t`Open at least ${Math.min(3, selected.length)} of them first: you have opened ${seen}.`, {
        tone: "bad",
      });
    }
    setBulk(selected);
  };

  const deciding = [
    { id: "review.approve", key: "a", label: t`Approve`, run: () => detail.current?.approve() },
    { id: "review.edit", key: "e", label: t`Edit`, run: () => detail.current?.edit() },
    { id: "review.reject", key: "r", label: t`Reject`, run: () => detail.current?.reject() },
    { id: "review.reopen", key: "o", label: t`Reopen the decision`, run: () => detail.current?.reopen() },
    { id: "review.select", key: "x", label: t`Select`, run: () => taskId && toggle(taskId) },
    { id: "review.undo", key: "z", label: t`Undo the last decision`, run: () => takeBack() },
  ];
  useKeys(t`Review`, [
    { id: "review.next", key: "j", label: t`Next`, run: () => go(neighbour(1)) },
    { id: "review.previous", key: "k", label: t`Previous`, run: () => go(neighbour(-1)) },
    { id: "review.skip", key: "s", label: t`Skip to the next`, run: () => go(neighbour(1) ?? items[0]) },
    ...(may ? deciding : []),
    { id: "review.diff", key: "d", label: t`Show the difference`, run: () => detail.current?.diff() },
    { id: "review.search", key: "/", label: t`Search`, run: () => search.current?.focus() },
  ]);

  useClaim(may && item.data && isOpen(item.data) ? taskId : undefined);

  const steps = useMemo(() => [...new Set(rows.map(groupOf))].sort(), [rows]);
  const queues = useMemo(() => [...new Set(rows.map((each) => each.queue))].sort(), [rows]);
  const clear = () => setParams(without(NAMES));

  return (
    <div className="review" data-open={taskId !== undefined}>
      <title>{t`Review · Callboard`}</title>
      <section className="review-side" aria-label={t`Outputs that wait`}>
        <div className="page-head review-head">
          <h1>
            <Trans>Review</Trans>
          </h1>
          <span className="soft grow">
            {isComplete && (shown.length === total ? total : t`${shown.length} of ${total}`)}
          </span>
          <Link href="/review/decided" className="small">
            <Trans>Decided</Trans>
          </Link>
        </div>
        <div className="review-filters">
          <input
            ref={search}
            className="input"
            type="search"
            aria-label={t`Search`}
            placeholder={t`Search text, step, tag  ${keyOf("review.search", "/")}`}
            value={text}
            onChange={(event) => setParams({ q: event.target.value })}
            onKeyDown={(event) => {
              if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
              if (event.key === "Enter" && index < 0) go(items[0]);
            }}
          />
          <select
            className="select"
            aria-label={t`Step`}
            value={group ?? ""}
            onChange={(event) => setParams({ step: event.target.value })}
          >
            <option value="">{t`All steps`}</option>
            {steps.map((step) => (
              <option key={step}>{step}</option>
            ))}
          </select>
          {(queues.length > 1 || query.queue) && (
            <select
              className="select"
              aria-label={t`Queue`}
              value={query.queue ?? ""}
              onChange={(event) => setParams({ queue: event.target.value })}
            >
              <option value="">{t`All queues`}</option>
              {[...new Set([...queues, ...(query.queue ? [query.queue] : [])])].map((queue) => (
                <option key={queue}>{queue}</option>
              ))}
            </select>
          )}
          <select
            className="select"
            aria-label={t`Age`}
            value={age ?? ""}
            onChange={(event) => setParams({ age: event.target.value || undefined })}
          >
            <option value="">{t`Of any age`}</option>
            {AGES.map((part) => (
              <option key={part.age} value={part.age}>
                {part.name}
              </option>
            ))}
          </select>
          <div className="row between wrap">
            <label className="check small">
              <input
                type="checkbox"
                checked={isMine}
                onChange={(event) => setParams({ mine: event.target.checked ? "1" : undefined })}
              />
              <Trans>Assigned to me</Trans>
            </label>
            <button
              type="button"
              className="button"
              data-kind="quiet"
              data-size="small"
              onClick={() => setParams({ sort: isNewestFirst ? undefined : "newest" })}
            >
              {isNewestFirst ? t`Newest first` : t`Oldest first`}
            </button>
          </div>
          <FilterBar page="review" names={NAMES} set={setParams} />
        </div>
        {chosen.size > 0 && (
          <div className="review-chosen">
            <span>
              <Trans>{selected.length} selected</Trans>
              {hidden > 0 && t`, ${hidden} more hidden`}
            </span>
            <Button size="small" needs="hitl: approve/reject" onClick={askBulk}>
              <Trans>Approve {selected.length}…</Trans>
            </Button>
            <Button size="small" kind="quiet" onClick={() => setChosen(new Set())}>
              <Trans>Clear</Trans>
            </Button>
          </div>
        )}
        {(list.error ?? counted.error) ? (
          <Failed
            error={(list.error ?? counted.error) as Error}
            retry={() => void (list.error ? list : counted).refetch()}
          />
        ) : !isComplete ? (
          <Loading lines={8} />
        ) : items.length === 0 ? (
          <Nothing
            isMine={isMine && !text && !group && !query.queue && !age}
            isFiltered={isFiltered}
            clear={clear}
          />
        ) : (
          <List
            items={items}
            current={taskId}
            chosen={chosen}
            toggle={may ? toggle : undefined}
            hrefOf={address}
            gone={stable.gone}
            waiting={stable.waiting}
            take={stable.take}
            hold={stable.hold}
          />
        )}
        {total > LOADED && rows.length >= LOADED && (
          <p className="faint small review-most">
            {isNewestFirst
              ? t`The ${rows.length} latest of ${total}.`
              : t`The ${rows.length} oldest of ${total}.`}
          </p>
        )}
      </section>
      <section className="review-main" aria-label={t`The open output`}>
        {!isWide && taskId !== undefined && (
          <h1 className="hide">
            <Trans>Review</Trans>
          </h1>
        )}
        {taskId === undefined ? (
          isWide && isComplete && !isFiltered && items.length === 0 && <Done />
        ) : (
          <Loaded query={item} lines={8}>
            {(item) => (
              <Detail
                key={item.taskId}
                ref={detail}
                item={item}
                position={index >= 0 ? `${index + 1} of ${items.length}` : undefined}
                list={index >= 0 ? "marked" : isComplete ? "hidden" : "loading"}
                unlisted={
                  index < 0 &&
                  isComplete && (
                    <Unlisted
                      first={items[0] && (() => go(items[0]))}
                      clear={isFiltered ? clear : undefined}
                    />
                  )
                }
                backTo={address(undefined)}
                onStep={{ before: stepTo(neighbour(-1)), after: stepTo(neighbour(1)) }}
                onDecide={(choice) => settle([item], choice)}
                onNext={() => go(neighbour(1) ?? items.find((each) => each.taskId !== item.taskId))}
                hasNext={items.some((each) => each.taskId !== item.taskId)}
              />
            )}
          </Loaded>
        )}
      </section>
      {bulk && (
        <BulkDialog
          items={bulk}
          onClose={() => setBulk(undefined)}
          onApprove={(comment) => {
            setBulk(undefined);
            settle(bulk, { kind: "approve", bulk: bulk.length, ...(comment ? { comment } : {}) });
          }}
        />
      )}
    </div>
  );
}

/**
 * Where the oldest begin. The server lists the latest first, so that the beginning of a long list is left out.
 * It stays where it is while a good number of the oldest is there, because the list is read anew if it moves.
 */
function useFirst(asked: string, total: number | undefined): number {
  const kept = useRef({ asked: "", first: 0 });
  if (total === undefined) return 0;
  const left = total - kept.current.first;
  const isFew = kept.current.first > 0 && left < 2 * PAGE;
  if (kept.current.asked !== asked || isFew || left > 2 * LOADED) {
    kept.current = { asked, first: Math.max(0, Math.floor((total - LOADED) / PAGE) * PAGE) };
  }
  return kept.current.first;
}

export const isOpen = (item: Approval) =>
  ["pending", "assigned", "escalated", "expired"].includes(item.status);

/** Claims an item once it was open for a while, so that other reviewers see who looks at it. */
function useClaim(taskId: string | undefined) {
  useEffect(() => {
    if (!taskId) return;
    const params = { path: { taskId } };
    let isClaimed = false;
    const claim = async () => {
      // Another's claim is shown, and bars nothing.
      isClaimed = await unwrap(api.POST("/api/hitl/{taskId}/claim", { params })).then(
        () => true,
        () => false,
      );
    };
    const timer = setTimeout(claim, 3_000);
    const again = setInterval(() => isClaimed && void claim(), 240_000);
    return () => {
      clearTimeout(timer);
      clearInterval(again);
      if (isClaimed)
        void unwrap(api.POST("/api/hitl/{taskId}/release", { params, keepalive: true })).catch(() => {});
    };
  }, [taskId]);
}
