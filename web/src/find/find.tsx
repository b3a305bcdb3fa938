/** The search of everything: names, tags, keys and ids in the lists, and words in the texts of the last days. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import { type ApiError, type DataOf, get } from "../api/client";
import { usePage } from "../api/hooks";
import { moveAmongLinks } from "../lib/arrows";
import { useNameOf } from "../lib/names";
import { visible } from "../lib/visible";
import { useMay } from "../session/session";
import { Button, Loading } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Icon, type IconName } from "../ui/icons";
import { State, Status } from "../ui/status";
import { Ago } from "../ui/time";
import "./find.css";

type Found = DataOf<"/api/search">;
type Hit = Found["hits"][number];

/** The time without a key after which the words are looked for. */
const PAUSE = 250;
/** The letters from which texts are searched. */
const LEAST = 3;
/** The items of each list. */
const SHOWN = 5;

export default function Find({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const words = useSettled(text.trim());
  const lists = useLists(words);
  const texts = useTexts(words);
  const isOver = !lists.isReading && !texts.isReading;
  return (
    <Dialog title={t`Search everything`} onClose={onClose} size="wide">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrows move among its links, which have the focus */}
      <div className="find" onKeyDown={moveAmongLinks}>
        <input
          className="input"
          type="search"
          aria-label={t`Search everything`}
          placeholder={t`Words of a title, tag, key, prompt or output, or an id`}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.nativeEvent.isComposing || words !== text.trim()) return;
            event.currentTarget.closest(".find")?.querySelector("a")?.click();
          }}
        />
        <div className="find-results">
          {words === "" ? (
            <p className="soft small">
              <Trans>
                Beginnings of words count, in any case; all words must be there. The arrows move through the
                results, Enter opens the first.
              </Trans>
            </p>
          ) : (
            <>
              {lists.isReading ? <Loading lines={3} /> : lists.groups(onClose)}
              {texts.group(onClose)}
              {isOver && lists.total + texts.total === 0 && (
                <p className="soft" role="status">
                  <Trans>Nothing has all of these words.</Trans>
                </p>
              )}
            </>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/** A text once it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), text === "" ? 0 : PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** The items of the lists. They are shown once all have answered, so that none moves another. */
function useLists(words: string) {
  const may = useMay();
  const nameOf = useNameOf();
  const query = { search: words, limit: SHOWN };
  const asked = (action: string) => ({
    enabled: words !== "" && may(action),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  const executions = usePage("/api/plans/executions", { query }, asked("executions: read"));
  const tasks = usePage("/api/tasks", { query }, asked("tasks: read"));
  const templates = usePage("/api/templates", { query }, asked("templates: read"));
  const plans = usePage("/api/plans", { query }, asked("plans: read"));
  const all = [executions, tasks, templates, plans];
  const groups = (close: () => void) => (
    <>
      <Group
        title={t`Executions`}
        icon="executions"
        more={moreOf("/executions", words, executions.data?.total)}
        close={close}
      >
        {executions.data?.items.map((it) => (
          <Line key={it.id} href={`/executions/${it.id}`} close={close} end={<State of={it} />}>
            {visible(it.title ?? nameOf(it))}{" "}
            {it.title && <span className="faint">{visible(nameOf(it))}</span>}
          </Line>
        ))}
      </Group>
      <Group title={t`Tasks`} icon="tasks" more={moreOf("/tasks", words, tasks.data?.total)} close={close}>
        {tasks.data?.items.map((it) => (
          <Line key={it.id} href={`/tasks/${it.id}`} close={close} end={<State of={it} />}>
            {it.title ? visible(it.title) : <span className="mono">{it.id}</span>}
          </Line>
        ))}
      </Group>
      <Group
        title={t`Templates`}
        icon="templates"
        more={moreOf("/templates", words, templates.data?.total)}
        close={close}
      >
        {templates.data?.items.map((it) => (
          <Line key={it.id} href={`/templates/${encodeURIComponent(it.id)}`} close={close}>
            {visible(it.name)} <span className="faint">{it.id}</span>
          </Line>
        ))}
      </Group>
      <Group title={t`Plans`} icon="plans" more={moreOf("/plans", words, plans.data?.total)} close={close}>
        {plans.data?.items.map((it) => (
          <Line key={it.id} href={`/plans?search=${encodeURIComponent(it.id)}`} close={close}>
            {visible(it.name)}
          </Line>
        ))}
      </Group>
    </>
  );
  return {
    isReading: all.some((read) => read.isLoading),
    total: all.reduce((sum, read) => sum + (read.data?.total ?? 0), 0),
    groups,
  };
}

/** The address of the whole list, if it has more than is shown. */
function moreOf(page: string, words: string, total = 0) {
  return total > SHOWN ? { href: `${page}?search=${encodeURIComponent(words)}`, total } : undefined;
}

/** The hits in texts, a part of the last days at a time. */
function useTexts(words: string) {
  const may = useMay();
  const read = useInfiniteQuery<Found, ApiError>({
    queryKey: ["/api/search", words],
    queryFn: ({ pageParam, signal }) =>
      get(
        "/api/search",
        { query: { q: words, ...(pageParam ? { cursor: pageParam as string } : {}) } },
        signal,
      ),
    initialPageParam: undefined,
    getNextPageParam: (last) => last.next,
    enabled: [...words].length >= LEAST && /[\p{L}\p{N}]/u.test(words) && may("tasks: read"),
    staleTime: 0,
    gcTime: 0,
  });
  const hits = read.data?.pages.flatMap((page) => page.hits) ?? [];
  const last = read.data?.pages.at(-1);
  const isOff = read.error?.status === 409;
  const group = (close: () => void) => {
    if (isOff || (!read.isLoading && !read.data && !read.error)) return null;
    return (
      <section className="find-group" aria-label={t`In texts`} aria-busy={read.isFetching}>
        <h3>
          <Icon name="search" /> <Trans>In texts</Trans>
        </h3>
        {read.isLoading && <Loading lines={2} />}
        {read.error && <p className="soft small">{read.error.message}</p>}
        <ul>
          {hits.map((hit) => (
            <HitLine key={hit.id} hit={hit} close={close} />
          ))}
        </ul>
        {last && (
          <p className="soft small row wrap" role="status">
            {hits.length === 0 && <Trans>No text has all of these words.</Trans>}{" "}
            <span>
              <Trans>
                Searched back to <Ago at={last.searchedTo} />.
              </Trans>
            </span>
            {last.next && (
              <Button size="small" busy={read.isFetchingNextPage} onClick={() => void read.fetchNextPage()}>
                <Trans>Search further back</Trans>
              </Button>
            )}
          </p>
        )}
      </section>
    );
  };
  return { isReading: read.isLoading, total: hits.length + (last?.next ? 1 : 0), group };
}

const PLACES: Record<Hit["where"], string> = {
  prompt: t`in the prompt`,
  systemPrompt: t`in the system prompt`,
  messages: t`in the earlier turns`,
  context: t`in the context`,
  args: t`in the arguments`,
  output: t`in the output`,
  thinking: t`in the thinking`,
};

function HitLine({ hit, close }: { hit: Hit; close: () => void }) {
  const href = hit.executionId
    ? `/executions/${hit.executionId}?step=${encodeURIComponent(hit.stepId ?? "")}`
    : `/tasks/${hit.id}`;
  return (
    <li>
      <Link href={href} onClick={close} className="find-hit">
        <span className="find-line">
          <span className="cut">
            {hit.title ? visible(hit.title) : <span className="mono">{hit.executionId ?? hit.id}</span>}{" "}
            <span className="faint">
              {hit.stepId && `${visible(hit.stepId)}, `}
              {PLACES[hit.where] ?? hit.where}
            </span>
          </span>
          <Status state={hit.status} />
          <span className="soft small">
            <Ago at={hit.createdAt} />
          </span>
        </span>
        <span className="find-snippet" dir="auto" translate="no">
          {hit.snippet.map((piece, at) => {
            const text = visible(piece.text);
            return piece.match ? <mark key={at}>{text}</mark> : <span key={at}>{text}</span>;
          })}
        </span>
      </Link>
    </li>
  );
}

type GroupProps = {
  title: string;
  icon: IconName;
  more: { href: string; total: number } | undefined;
  close: () => void;
  children: ReactNode[] | undefined;
};

function Group({ title, icon, more, close, children }: GroupProps) {
  if (!children || children.length === 0) return null;
  return (
    <section className="find-group" aria-label={title}>
      <h3>
        <Icon name={icon} /> {title}
        {more && (
          <Link href={more.href} onClick={close} className="small">
            <Trans>all {more.total}</Trans>
          </Link>
        )}
      </h3>
      <ul>{children}</ul>
    </section>
  );
}

function Line({
  href,
  close,
  end,
  children,
}: {
  href: string;
  close: () => void;
  end?: ReactNode;
  children: ReactNode;
}) {
  return (
    <li>
      <Link href={href} onClick={close} className="find-line">
        <span className="cut" translate="no">
          {children}
        </span>
        {end}
      </Link>
    </li>
  );
}
