/** Who is signed in, and what they may do. The session itself is a cookie that no script can read. */
import { t } from "@lingui/core/macro";
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useCallback, useContext } from "react";
import { ApiError, api, type DataOf, get, unwrap } from "../api/client";
import { queries } from "../api/hooks";
import { usePreference } from "../lib/preferences";
import { project } from "../lib/project";
import { toastError } from "../ui/toast";

export type Who = DataOf<"/api/auth/session">;
const KEY = ["/api/auth/session"];

/** `null` while nobody is signed in, `undefined` while that is not known yet. */
export function useSession(): { who: Who | null | undefined; error: Error | null; refetch: () => void } {
  const read = useQuery<Who | null, ApiError>({
    queryKey: KEY,
    queryFn: async ({ signal }) => {
      try {
        return await get("/api/auth/session", undefined, signal);
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return null;
        throw error;
      }
    },
  });
  return { who: read.data, error: read.error, refetch: () => void read.refetch() };
}

/** What the signed-in user may do: `may("hitl: approve/reject")`, named as `x-callboard-action` in the API. */
export function useMay(): (action: string) => boolean {
  const { data } = useQuery<Who | null>({ queryKey: KEY, enabled: false });
  const actions = data?.actions;
  return useCallback((action) => actions?.includes(action) ?? false, [actions]);
}

/** Who is signed in, for everything inside: a part never sees a sign-out before the whole does. */
export const Signed = createContext<Who | null>(null);

/** The user who is signed in, inside of the layout, which shows nothing without one. */
export function useWho(): Who {
  const who = useContext(Signed);
  if (!who) throw new Error(t`nobody is signed in`);
  return who;
}

/** The name of something of the user who is signed in, apart from other users of this browser. */
export const own = (name: string) => `${signedIn() ?? ""}.${name}`;

/** The id of the user who is signed in. */
export const signedIn = () => queries.getQueryData<Who | null>(KEY)?.user.id;

/** A draft of the user who is signed in, which no other user of this browser sees, and no other project. */
export function useOwn<T>(name: string, fallback: T): [T, (value: T | undefined) => void] {
  const of = project ? `${project}.` : "";
  return usePreference<T>(`${useWho().user.id}.${of}${name}`, fallback);
}

const endings = new Set<() => Promise<void>>();

/** Calls `run` before the session ends here, which waits for it. */
export function beforeEnd(run: () => Promise<void>) {
  endings.add(run);
}

const end = () => Promise.all([...endings].map((run) => run()));

/** Turns the token of a sign-in into the cookie, and forgets the token. */
export function useSignIn() {
  const client = useQueryClient();
  return async (call: Promise<{ data?: unknown; error?: unknown; response: Response }>) => {
    const { token } = (await unwrap(call)) as unknown as { token: string };
    const headers = { authorization: `Bearer ${token}` };
    const who = await unwrap(api.POST("/api/auth/cookie", { headers }));
    // The answer is of no project: what the user may do in this one is read.
    if (project) await client.refetchQueries({ queryKey: KEY });
    else become(client, who);
  };
}

export function useSignOut() {
  const client = useQueryClient();
  return async () => {
    // Decisions that wait are this user's, so they are sent before the session ends.
    await end();
    try {
      await unwrap(api.POST("/api/auth/logout"));
    } catch (error) {
      const isOver = error instanceof ApiError && error.status === 401;
      if (!isOver) return toastError(error, t`You are still signed in`);
    }
    become(client, null);
  };
}

/** Another user sees nothing of what the one before has read. */
function become(client: QueryClient, who: Who | null) {
  // Nobody else sends them: they are refused now, and that is told.
  if (who === null) void end();
  client.setQueryData(KEY, who);
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== KEY[0] });
}

/** The session ended elsewhere: the page gives way to the sign-in. A role that changed is read again. */
export function sessionRefused(client: QueryClient, error: unknown) {
  if (!(error instanceof ApiError) || !client.getQueryData(KEY)) return;
  if (error.status === 401) become(client, null);
  // Of a project in which one has no role any more, everything is unknown.
  if (error.status === 403 || (error.status === 404 && project)) sessionDoubted(client);
}

/** True for the refusal of a session: the project of this page is none of the user's. */
export const isLost = (error: Error | null) =>
  project !== undefined && error instanceof ApiError && error.status === 404;

/** True for the query that reads the session. */
export const isSession = ({ queryKey }: { queryKey: readonly unknown[] }) => queryKey[0] === KEY[0];

/** Asks whether the session still counts, and for what. */
export function sessionDoubted(client: QueryClient) {
  void client.invalidateQueries({ queryKey: KEY });
  void client.invalidateQueries({ queryKey: ["/api/projects"] });
}
