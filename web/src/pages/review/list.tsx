/** The items that wait, as cards of two lines; only those in view are in the document. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { Link } from "wouter";
import type { Approval } from "../../api/client";
import { ratio } from "../../lib/format";
import { keyOf } from "../../lib/keys";
import { useNameOf } from "../../lib/names";
import { useNames } from "../../lib/people";
import { visible } from "../../lib/visible";
import type { Stable } from "../../ui/stable";
import { Mark, Status } from "../../ui/status";
import { Ago } from "../../ui/time";
import { useRefusals } from "./refusals";

type Props = Pick<Stable<Approval>, "gone" | "waiting" | "take" | "hold"> & {
  items: Approval[];
  current: string | undefined;
  chosen: ReadonlySet<string>;
  toggle?: (taskId: string) => void;
  hrefOf: (taskId: string) => string;
};

export function List({ items, current, chosen, toggle, hrefOf, gone, waiting, take, hold }: Props) {
  const nameOf = useNames();
  const templateOf = useNameOf();
  const refusals = useRefusals();
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 64,
    overscan: 8,
    getItemKey: (index) => items[index]?.taskId ?? index,
  });
  const place = items.findIndex((item) => item.taskId === current);
  useEffect(() => {
    if (place >= 0) virtual.scrollToIndex(place, { align: "auto" });
  }, [place, virtual]);
  return (
    <div className="review-list" {...hold}>
      {waiting > 0 && (
        <button type="button" className="button table-new" data-size="small" onClick={take}>
          <Trans>{waiting} new</Trans>
        </button>
      )}
      <div className="review-scroll" ref={scroller}>
        <ul style={{ height: virtual.getTotalSize() }} aria-label={t`${items.length} outputs`}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const item = items[index] as Approval;
            const id = item.taskId;
            return (
              <li
                key={id}
                className="review-item"
                aria-setsize={items.length}
                aria-posinset={index + 1}
                data-current={id === current}
                data-gone={gone.has(id) || undefined}
                data-task={id}
                style={{ transform: `translateY(${start}px)` }}
              >
                {toggle && (
                  <span className="review-item-box">
                    <input
                      type="checkbox"
                      aria-label={t`Select ${item.stepId ?? id}`}
                      checked={chosen.has(id)}
                      onChange={() => toggle(id)}
                    />
                    {id === current && <kbd translate="no">{keyOf("review.select", "x")}</kbd>}
                  </span>
                )}
                <Link href={hrefOf(id)} aria-current={id === current ? "true" : undefined}>
                  <span className="cut review-item-text" translate="no" dir="auto">
                    {visible(item.title || item.summary || "(empty)")}
                  </span>
                  <span className="review-item-facts">
                    <span className="cut">
                      {item.stepId ? `${templateOf(item)} / ${item.stepId}` : item.queue}
                    </span>
                    {refusals[id] && (
                      <Mark tone="bad" icon="warn">
                        <Trans>refused</Trans>
                      </Mark>
                    )}
                    {item.claimedBy && <span className="tag cut">{nameOf(item.claimedBy)}</span>}
                    {(item.status === "escalated" || item.status === "expired") && (
                      <Status state={item.status} />
                    )}
                    <span className="num" data-tip={t`Confidence`}>
                      {ratio(item.confidence)}
                    </span>
                    <span className="num review-item-age">
                      <Ago at={item.createdAt} plain />
                    </span>
                  </span>
                </Link>
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}
