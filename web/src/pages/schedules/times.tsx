/** Times of a schedule: in its own time zone and in the reader's. */
import { Trans } from "@lingui/react/macro";
import { lazy, Suspense } from "react";
import { zone as readersZone } from "../../lib/span";
import { language, locale } from "../../lib/texts";
import { isZone } from "./zone";

/** Days stand before months: a reader of the United States gets the international order of English. */
export const schedulesLocale = language === "en" ? "en-GB" : locale;

const formats = new Map<string, Intl.DateTimeFormat>();

/** "Mon 30 Mar 2026, 02:30" as the clocks of a zone show it. */
export function clockOf(zone: string, at: number): string {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat(schedulesLocale, {
      timeZone: isZone(zone) ? zone : "UTC",
      weekday: "short",
      day: "2-digit",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    });
    formats.set(zone, format);
  }
  return format.format(at);
}

/** A time in the schedule's zone; in the reader's beneath, where the clocks differ. */
export function Both({ at, zone }: { at: string | number | undefined; zone: string }) {
  if (at === undefined) return <span className="faint">–</span>;
  const instant = typeof at === "number" ? at : Date.parse(at);
  const own = readersZone();
  const [there, here] = [clockOf(zone, instant), clockOf(own, instant)];
  return (
    <span className="schedules-both">
      <time dateTime={new Date(instant).toISOString()}>{there}</time>
      {there !== here && (
        <span className="faint small" data-tip={own}>
          <Trans>{here} for you</Trans>
        </span>
      )}
    </span>
  );
}

const Text = lazy(async () => {
  const { inWords } = await import("./cron");
  return {
    default: ({ cron }: { cron: string }) => {
      try {
        return inWords(cron);
      } catch {
        return (
          <span className="soft">
            <Trans>not an expression of five fields</Trans>
          </span>
        );
      }
    },
  };
});

/** A cron expression in words; the reader of expressions comes with the first one. */
export function Words({ cron }: { cron: string }) {
  return (
    <Suspense fallback={<span className="faint">…</span>}>
      <Text cron={cron} />
    </Suspense>
  );
}
