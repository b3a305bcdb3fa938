/** How long outputs have waited: the parts of the overview, each a filter of the review page. */
import { t } from "@lingui/core/macro";
import type { ParamsOf } from "../../api/client";

type Query = NonNullable<ParamsOf<"/api/hitl/pending">["query"]>;

const HOUR = 3_600_000;
const MINUTE = 60_000;

export const AGES = [
  { age: "overdue", name: t`overdue`, tone: "bad" },
  { age: "4h", name: t`over 4 h`, tone: "warn" },
  { age: "1h", name: t`1 to 4 h`, tone: "run" },
  { age: "new", name: t`under 1 h`, tone: "mute" },
] as const;

/** The parameters of the API for an age; to the minute, so that a sum and its list ask the same. */
export function agedQuery(age: string | null, now = Date.now()): Query {
  const before = (hours: number) =>
    new Date(Math.floor((now - hours * HOUR) / MINUTE) * MINUTE).toISOString();
  const status: Query["status"] = ["pending", "assigned", "escalated"];
  if (age === "overdue") return { status: ["expired"] };
  if (age === "4h") return { status, createdBefore: before(4) };
  if (age === "1h") return { status, createdAfter: before(4), createdBefore: before(1) };
  if (age === "new") return { status, createdAfter: before(1) };
  return { includeExpired: true };
}
