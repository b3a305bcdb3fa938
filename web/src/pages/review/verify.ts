/**
 * Verifies the history of an approval in the browser, by the rule in docs/reference/approvals.md: each entry's
 * hash is the SHA-256 of its members as sorted, compact JSON, and holds the hash of the entry before.
 */
import { t } from "@lingui/core/macro";
import type { Approval, Schemas } from "../../api/client";

export type Entry = Schemas["Entry"];
export type Verdict = { ok: true } | { ok: false; number: number; why: string };

const ZERO = "0".repeat(64);

async function sha256(text: string): Promise<string> {
  return hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

function hex(digest: ArrayBuffer): string {
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The commitment to a text: version 2 hashes the salt before it, version 1 the text alone. */
async function committed(salt: string | undefined, text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  const prefix = Uint8Array.from(salt?.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  const whole = new Uint8Array(prefix.length + bytes.length);
  whole.set(prefix);
  whole.set(bytes, prefix.length);
  return hex(await crypto.subtle.digest("SHA-256", whole));
}

/** Numbers in their shortest form, without an exponent. */
function number(value: number): string {
  const text = String(value);
  return text.includes("e") ? value.toFixed(20).replace(/\.?0+$/, "") : text;
}

export function canonical(taskId: string, entry: Entry): string {
  const { details } = entry;
  const members: Record<string, string | number | undefined> = {
    action: entry.action,
    actor: entry.actor,
    afterMs: details?.escalationAfterMs,
    bulk: details?.bulk,
    commentHash: entry.commentHash,
    confidence: entry.confidence,
    editHash: entry.editHash,
    from: entry.from,
    item: details?.item,
    number: entry.number,
    outputHash: entry.outputHash,
    planExecutionId: details?.planExecutionId,
    previous: entry.previousHash,
    reason: details?.reason,
    retryTaskId: entry.retryTaskId,
    reviewerId: entry.reviewerId,
    stepId: details?.stepId,
    taskId,
    threshold: details?.threshold,
    timestamp: entry.timestamp,
    to: entry.assignedTo ?? entry.to,
    until: entry.claimedUntil ?? details?.timeoutAt,
    version: entry.version,
    why: details?.why,
  };
  const texts: Record<string, string> = {};
  for (const name of Object.keys(members).sort()) {
    const value = members[name];
    if (value !== undefined) texts[name] = typeof value === "number" ? number(value) : value;
  }
  return JSON.stringify(texts);
}

/** True if this browser can hash: not on a page over plain HTTP from another machine. */
export const canVerify = () => globalThis.crypto?.subtle !== undefined;

export async function verify(item: Approval, entries: Entry[]): Promise<Verdict> {
  let before = ZERO;
  for (const [index, entry] of entries.entries()) {
    const fault = (why: string): Verdict => ({ ok: false, number: index + 1, why });
    if (entry.number !== index + 1) return fault(t`an entry is missing`);
    if (entry.previousHash !== before) return fault(t`it does not follow the entry before`);
    before = await sha256(canonical(item.taskId, entry));
    if (entry.hash !== before) return fault(t`its members are not those that were hashed`);
    if (item.erasedAt) continue;
    const said = entry.comment ?? entry.reason;
    const differs = async (hash: string | undefined, text: string | undefined) =>
      text !== undefined && hash !== (await committed(entry.salt, text));
    if (await differs(entry.commentHash, said)) return fault(t`its text was changed`);
    if (await differs(entry.editHash, entry.modifiedOutput)) return fault(t`its edit was changed`);
    if (entry.outputHash && (await differs(entry.outputHash, item.output)))
      return fault(t`the output was changed`);
  }
  if (item.history.length !== entries.length || item.history.hash !== before) {
    return { ok: false, number: entries.length, why: t`the history does not end where the approval says` };
  }
  return { ok: true };
}
