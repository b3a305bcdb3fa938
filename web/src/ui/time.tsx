/** Times: relative, with the absolute one in a tooltip. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { useNow } from "../lib/clock";
import { age, duration, instant, relative } from "../lib/format";

export function Ago({ at, plain = false }: { at: string | undefined; plain?: boolean }) {
  const now = useNow();
  if (!at) return <span className="faint">–</span>;
  const then = Date.parse(at);
  return (
    <time dateTime={at} data-tip={instant(then)}>
      {plain ? age(now - then) : relative(then, now)}
    </time>
  );
}

/** The whole seconds until a moment. A screen reader is told the first number only. */
export function TimeLeft({ until }: { until: number }) {
  const now = useNow();
  const [first] = useState(() => secondsUntil(until, Date.now()));
  return (
    <>
      <span className="hide">
        <Trans>{first} s</Trans>
      </span>
      <span aria-hidden="true">
        <Trans>{Math.min(first, secondsUntil(until, now))} s</Trans>
      </span>
    </>
  );
}

const secondsUntil = (until: number, now: number) => Math.max(1, Math.ceil((until - now) / 1000));

/** Two lines of a tooltip: from when, and to when if it has ended. */
export const fromTo = (from: string | number, to?: string | number) =>
  [t`from ${instant(from)}`, ...(to === undefined ? [] : [t`to ${instant(to)}`])].join("\n");

/** The time from `from` to `to`, or until now. */
export function Lasted({ from, to }: { from: string | undefined; to?: string }) {
  const now = useNow();
  if (!from) return <span className="faint">–</span>;
  const end = to ? Date.parse(to) : now;
  return <span data-tip={fromTo(from, to)}>{duration(Math.max(0, end - Date.parse(from)))}</span>;
}
