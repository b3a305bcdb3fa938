/** Times: relative, with the absolute one in a tooltip. */
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
      <span className="hide">{first} s</span>
      <span aria-hidden="true">{Math.min(first, secondsUntil(until, now))} s</span>
    </>
  );
}

const secondsUntil = (until: number, now: number) => Math.max(1, Math.ceil((until - now) / 1000));

/** The time from `from` to `to`, or until now. */
export function Lasted({ from, to }: { from: string | undefined; to?: string }) {
  const now = useNow();
  if (!from) return <span className="faint">–</span>;
  const end = to ? Date.parse(to) : now;
  return (
    <span data-tip={`from ${instant(from)}${to ? `\nto ${instant(to)}` : ""}`}>
      {duration(Math.max(0, end - Date.parse(from)))}
    </span>
  );
}
