import { InvalidSignature } from "./errors.js";

/** Why a task or an execution failed. */
export interface WebhookError {
  code: string;
  message: string;
  stepId?: string;
}

/** What a task says more with `callbackDetails`. */
export interface WebhookDetails {
  tags: string[];
  title?: string;
  model: string;
  confidence?: number;
  /** USD. */
  totalCost: number;
  attempt: number;
  error?: WebhookError;
  /** The decision of a reviewer. */
  review?: { by: string; at: string; wasModified: boolean };
}

/**
 * An event of a task or an execution. The same webhook may arrive more than once: keep the `delivery` of those that
 * you handled.
 */
export interface Webhook {
  event: string;
  /** The task; in `execution.awaiting_approval` the one whose output waits. */
  taskId?: string;
  executionId?: string;
  planId?: string;
  templateId?: string;
  stepId?: string;
  status: string;
  output: string | null;
  /** Tokens: of a task's last answer, or of a whole execution, which has its cost in USD as well. */
  usage: { input: number; output: number; totalCost?: number };
  tags?: string[];
  title?: string;
  /** Absent while an output waits for a reviewer. */
  completedAt?: string;
  error?: WebhookError;
  details?: WebhookDetails;
  /** `test` for a task of the sandbox. */
  environment?: string;
  /** The `webhook-id`: the same for each attempt. Empty from `verifyBody`. */
  delivery: string;
}

/** The headers of a request, as Fetch, Node.js and most frameworks have them. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** The greatest age, which stops replays. Default: 300 s. */
  toleranceMs?: number;
  /** The time now, as `Date.now()` tells it. */
  now?: number;
}

const SIGNATURE_UNITS = 87;
const utf8 = new TextEncoder();

/** Checks the headers of a webhook and reads it; throws `InvalidSignature`. `body` is the body as it arrived. */
export async function verify(
  secret: string,
  body: string | Uint8Array,
  headers: WebhookHeaders,
  { toleranceMs = 300_000, now = Date.now() }: VerifyOptions = {},
): Promise<Webhook> {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const lower = new Map(entries.map(([name, value]) => [name.toLowerCase(), [value].flat()[0]]));
  const header = (name: string) => {
    const value = lower.get(name);
    if (value === undefined) throw new InvalidSignature(`the webhook has no header ${name}`);
    return value;
  };
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (!/^\d+$/.test(timestamp) || Math.abs(now - Number(timestamp) * 1000) > toleranceMs) {
    throw new InvalidSignature("the webhook is too old, or a clock is wrong");
  }
  const text = bytes(body);
  const raw = decoded(secret.replace(/^whsec_/, ""));
  if (!raw) throw new InvalidSignature("the secret is no webhook secret: `callboard webhooks secret` shows it");
  const key = await imported(raw);
  const signed = joined(utf8.encode(`${id}.${timestamp}.`), text);
  for (const given of header("webhook-signature").split(" ")) {
    const signature = given.startsWith("v1,") ? decoded(given.slice(3)) : undefined;
    if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) return read(text, id);
  }
  throw new InvalidSignature("the signature of the webhook is not of this secret and body");
}

/** Checks the member `signature`, for receivers that do not get the headers. It does not stop replays. */
export async function verifyBody(secret: string, body: string | Uint8Array): Promise<Webhook> {
  const text = bytes(body);
  const end = new TextDecoder().decode(text.slice(-SIGNATURE_UNITS));
  const hex = /^,"signature":"sha256=([0-9a-f]{64})"\}$/.exec(end)?.[1];
  const signed = joined(text.slice(0, -SIGNATURE_UNITS), utf8.encode("}"));
  const signature = Uint8Array.from(hex?.match(/../g) ?? [], (it) => Number.parseInt(it, 16));
  if (!(await crypto.subtle.verify("HMAC", await imported(utf8.encode(secret)), signature, signed))) {
    throw new InvalidSignature("the signature in the webhook is not of this secret and body");
  }
  return read(text, "");
}

function bytes(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? utf8.encode(body) : body;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

function imported(key: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (it) => it.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function read(body: Uint8Array, delivery: string): Webhook {
  return { ...JSON.parse(new TextDecoder().decode(body)), delivery };
}
