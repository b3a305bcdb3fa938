/**
 * The project of this page. The address names it, and it is read once, before any request is made: a switch loads the
 * page again, so that nothing of another project is left in it.
 */

/** The project to which everything belongs on a server with one; no address and no request names it. */
export const DEFAULT = "prj_00000000000000000000000000";
const NAME = "project";
export const HEADER = "callboard-project";

/** The project that an address names; none is `default`. */
export function projectOf(search: string): string | undefined {
  const named = new URLSearchParams(search).get(NAME);
  return named && named !== DEFAULT && named !== "default" ? named : undefined;
}

/** The id of the project, as the address names it; nothing for `default`. */
export const project = projectOf(globalThis.location?.search ?? "");

/** The header of a request for a project. */
export const headerOf = (of: string | undefined) => ({ [HEADER]: of ?? DEFAULT });

/** An address of a page or of the API, in a project. */
export function inProject(address: string, of = project): string {
  const [, path = "", search = "", hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(address) ?? [];
  const rest = withoutProject(search).replace(/^\?/, "");
  const named = of === undefined || of === DEFAULT ? "" : `${NAME}=${encodeURIComponent(of)}`;
  const all = [rest, named].filter(Boolean).join("&");
  return `${path}${all && `?${all}`}${hash}`;
}

/** The address in another project: the same list, for an item and its filters are of one project only. */
export function switched(path: string, to: string): string {
  const first = path.split("/")[1] ?? "";
  const isEntry = first === "sign-in" || first === "setup";
  return inProject(first === "docs" ? path : isEntry ? "/" : `/${first}`, to);
}

/** The parameters of an address as pages read them: without the project. */
export function withoutProject(search: string): string {
  const params = new URLSearchParams(search);
  if (!params.has(NAME)) return search;
  params.delete(NAME);
  return params.toString();
}
