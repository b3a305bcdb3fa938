/** Events for components, and for the cache: what is shown is read again when an event says that it changed. */
import { useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { inProject } from "../lib/project";
import { sessionDoubted } from "../session/session";
import { apply, begun } from "./cache";
import { type Connection, type Filter, type LiveEvent, LiveSocket } from "./socket";

const Context = createContext<LiveSocket | null>(null);

function address(): string {
  const { protocol, host } = window.location;
  return `${protocol === "https:" ? "wss" : "ws"}://${host}${inProject("/ws")}`;
}

/** Connects while it is mounted, which is while somebody is signed in. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const [socket] = useState(() => new LiveSocket(address()));
  const client = useQueryClient();
  useEffect(() => {
    socket.start();
    // A session that ended closes its socket.
    const stopDoubts = socket.onConnection((state) => {
      if (state !== "live") sessionDoubted(client);
    });
    const stop = socket.onLoss(() => void client.invalidateQueries());
    const hurry = () => {
      if (document.visibilityState === "visible") socket.hurry();
    };
    const offline = () => socket.offline();
    window.addEventListener("online", hurry);
    window.addEventListener("offline", offline);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      window.removeEventListener("online", hurry);
      window.removeEventListener("offline", offline);
      document.removeEventListener("visibilitychange", hurry);
      stop();
      stopDoubts();
      socket.stop();
    };
  }, [socket, client]);
  return <Context value={socket}>{children}</Context>;
}

/** The state of the connection. */
export function useConnection(): Connection {
  const socket = useContext(Context);
  return useSyncExternalStore(
    (changed) => socket?.onConnection(changed) ?? (() => {}),
    () => socket?.connection() ?? "reconnecting",
  );
}

/**
 * Keeps the cache right while the component is mounted, and calls `listener` for each event. The first events are
 * those after `onBegun`, so a component that reads anything beside the cache's paths reads it again there.
 * `events` are names or groups (`hitl.*`). What events change in the cache stands in cache.ts.
 */
export function useLive(
  events: string[],
  filter?: Filter,
  listener?: (event: LiveEvent) => void,
  onBegun?: () => void,
) {
  const socket = useContext(Context);
  const client = useQueryClient();
  const latest = useRef({ listener, onBegun });
  latest.current = { listener, onBegun };
  const key = JSON.stringify([events, filter ?? null]);
  useEffect(() => {
    const [names, about] = JSON.parse(key) as [string[], Filter | null];
    return socket?.subscribe(
      names,
      about ?? undefined,
      (event) => {
        apply(client, event);
        latest.current.listener?.(event);
      },
      () => {
        begun(client, names);
        latest.current.onBegun?.();
      },
    );
  }, [socket, client, key]);
}
