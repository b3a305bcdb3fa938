import { type Credentials, type Found, fixed, serverUrl } from "./credentials.js";

export const headers: Record<string, string> = {};

/** The server of the page, and its session's cookie, unless they are given. */
export function find(server: string | undefined, apiKey: string | undefined): Found {
  const key: Credentials = fixed(apiKey);
  return { url: serverUrl(server ?? globalThis.location.origin), credentials: key };
}
