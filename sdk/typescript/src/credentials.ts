import { ConfigurationError } from "./errors.js";
import type { Session } from "./schema.js";

/** Renews a session with its refresh token. */
export type Renewal = (refreshToken: string) => Promise<Session>;

/** An API key, a login of the command line, or neither. */
export interface Credentials {
  /** True for a key, which lasts. */
  readonly isKey: boolean;
  /** The token of the next request. */
  token(renew: Renewal): Promise<string | undefined>;
  /** Replaces a token that the server refused; false if there is nothing in its place. */
  replaced(stale: string | undefined, renew: Renewal): Promise<boolean>;
}

export interface Found {
  url: URL;
  credentials: Credentials;
}

/** A key. */
export function fixed(key: string | undefined): Credentials {
  const token = key?.trim();
  if (token && !/^[!-~]+$/.test(token)) throw new ConfigurationError("the API key has characters that no key has");
  return { isKey: Boolean(token), token: async () => token || undefined, replaced: async () => false };
}

const NO_URL = "the server's address is no URL: use one such as http://127.0.0.1:8080";

/** The address of a server in one form: without a slash at its end and without `/api`. */
export function serverUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw new ConfigurationError(NO_URL);
  }
  if (!/^https?:$/.test(url.protocol) || !url.hostname) throw new ConfigurationError(NO_URL);
  if (url.username || url.password || url.search || url.hash) {
    throw new ConfigurationError(`the address of ${url.hostname} has a user, a query or a fragment: leave it out`);
  }
  url.pathname = url.pathname
    .replace(/\/+$/, "")
    .replace(/\/api$/, "")
    .replace(/\/+$/, "");
  return url;
}
