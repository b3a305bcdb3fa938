/** What the list and the page of a budget show alike. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "wouter";
import { useApi } from "../../api/hooks";
import { useNow } from "../../lib/clock";
import { money } from "../../lib/format";
import { useNames } from "../../lib/people";
import { locale } from "../../lib/texts";
import { visible } from "../../lib/visible";
import { useAgain } from "../../live/again";
import { Mark } from "../../ui/status";
import { TemplateName } from "../../ui/template-name";
import { type Budget, groupOf, leftOf, meanRate, runsOut, sharesOf } from "./rate";
import "../../ui/plain.css";
import "./budgets.css";

export const PERIODS: Record<string, string> = {
  day: t`a day`,
  week: t`a week`,
  month: t`a month`,
  total: t`in all`,
};
export const RULES: Record<string, string> = {
  wait: t`tasks wait until there is room`,
  reject: t`tasks are refused`,
  alert: t`tasks run; only events say so`,
};

const ENDS = ["task.completed", "task.rejected", "task.failed"];

/** Reads the budgets again after what changes them without an event of theirs, and their rates more seldom. */
export function useSpending() {
  const isBudget = ([path]: readonly unknown[]) => String(path).startsWith("/api/budgets");
  useAgain(["budget.*", "task.started", ...ENDS], isBudget, 3_000);
  useAgain(ENDS, ([path]) => path === "/api/usage", 10_000);
}

/** The tasks that a budget is for, as links to them. */
export function Match({ of: { match } }: { of: Budget }) {
  const personOf = useNames();
  const { account, templateId, model } = match;
  const tags = match.tags ?? [];
  if (tags.length === 0 && !account && !templateId && !model) return <Trans>every task</Trans>;
  return (
    <span className="budgets-match">
      {tags.map((tag) => (
        <Link key={tag} className="tag" translate="no" href={`/tasks?tags=${encodeURIComponent(tag)}`}>
          {visible(tag)}
        </Link>
      ))}
      {templateId && (
        <span>
          <Trans>
            template{" "}
            <Link href={`/templates/${templateId}`}>
              <TemplateName id={templateId} />
            </Link>
          </Trans>
        </span>
      )}
      {model && (
        <span>
          <Trans>
            model{" "}
            <Link translate="no" href={`/tasks?model=${encodeURIComponent(model)}`}>
              {visible(model)}
            </Link>
          </Trans>
        </span>
      )}
      {account && (
        <span data-tip={account}>
          <Trans>of {visible(personOf(account))}</Trans>
        </span>
      )}
    </span>
  );
}

/** Spent, reserved and left as parts of the limit, with marks where an alert is sent. */
export function SpentBar({ of, marks = false }: { of: Budget; marks?: boolean }) {
  const { spent, reserved } = sharesOf(of);
  const tone = spent + reserved >= 1 ? "bad" : of.alertAt.some((at) => spent >= at) ? "warn" : "good";
  const label = t`${money(of.spent)} spent, ${money(of.reserved ?? 0)} reserved, ${money(leftOf(of))} left of ${money(of.limit)}`;
  return (
    <span className="budgets-bar" role="img" aria-label={label} data-tip={label} data-large={marks}>
      <i data-tone={tone} style={{ width: `${spent * 100}%` }} />
      <i data-tone="reserved" style={{ width: `${reserved * 100}%` }} />
      {marks && of.alertAt.map((at) => <b key={at} style={{ left: `${at * 100}%` }} />)}
    </span>
  );
}

const HOUR = 3_600_000;

/** USD a day: of the last 24 hours where the usage knows it, else the mean of the period. */
export function useRate(of: Budget): { rate: number | undefined; isMean: boolean } {
  const hour = Math.floor(useNow() / HOUR) * HOUR;
  const group = groupOf(of);
  const from = new Date(hour - 24 * HOUR).toISOString();
  const read = useApi(
    "/api/usage",
    { query: { groupBy: group === "all" || !group ? "model" : group.by, from } },
    { enabled: group !== undefined, retry: false },
  );
  const mean = meanRate(of, hour);
  if (!group || read.error || read.data?.truncated) return { rate: mean, isMean: true };
  if (!read.data) return { rate: undefined, isMean: false };
  const sum = group === "all" ? read.data.total : read.data.groups.find(({ key }) => key === group.key);
  return { rate: sum?.totalCost ?? 0, isMean: false };
}

const dayFormat = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });

/** The day on which nothing is left, at the rate of today. */
export function RunsOut({ of }: { of: Budget }) {
  const now = useNow();
  const { rate, isMean } = useRate(of);
  if (rate === undefined) return <span className="faint">…</span>;
  const found = runsOut(of, rate, now);
  const tip = t`At ${money(rate)} a day: ${isMean ? t`the mean of the period` : t`the last 24 hours`}`;
  if (found === "spent") {
    return (
      <Mark tone="bad" icon="warn">
        <Trans>nothing is left</Trans>
      </Mark>
    );
  }
  if (typeof found === "object") {
    return (
      <span data-tip={tip}>
        <Mark tone="warn" icon="clock">
          <Trans>on {dayFormat.format(found.at)}</Trans>
        </Mark>
      </span>
    );
  }
  return (
    <span className="soft" data-tip={tip}>
      {found === "never" ? t`nothing is spent` : t`not in this period`}
    </span>
  );
}
