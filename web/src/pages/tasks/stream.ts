/** The text of a task while it is written: the stream of one item (`/api/tasks/{id}/stream`). */
import { useEffect, useState } from "react";
import { inProject } from "../../lib/project";

export type Streamed = {
  text: string;
  /** Characters (code points, as the server counts) of the attempt that are known or known to be missing. */
  end: number;
  /** Characters that were not sent. */
  missing: number;
  state: "opening" | "open" | "ended" | "lost";
};
export type Message =
  | { kind: "snapshot" | "end"; output?: string }
  | { kind: "delta"; text: string; offset: number }
  | { kind: "restart" }
  | { kind: "lost" };

export const NOTHING: Streamed = { text: "", end: 0, missing: 0, state: "opening" };

export function streamed(known: Streamed, message: Message): Streamed {
  switch (message.kind) {
    case "snapshot":
      return { ...fresh(message.output ?? ""), state: "open" };
    case "restart":
      return { ...fresh(""), state: "open" };
    case "end":
      return { ...(message.output === undefined ? known : fresh(message.output)), state: "ended" };
    case "lost":
      return { ...known, state: "lost" };
    case "delta": {
      const { offset } = message;
      // Nothing is written twice: what the snapshot had already is left out.
      const more = offset < known.end ? [...message.text].slice(known.end - offset).join("") : message.text;
      const hole = Math.max(0, offset - known.end);
      return {
        text: known.text + more,
        end: Math.max(known.end, offset + length(message.text)),
        missing: known.missing + hole,
        state: "open",
      };
    }
  }
}

const fresh = (text: string): Omit<Streamed, "state"> => ({ text, end: length(text), missing: 0 });

function length(text: string): number {
  let pairs = 0;
  for (let index = 0; index < text.length; index++) {
    if ((text.charCodeAt(index) & 0xfc00) === 0xd800) pairs++;
  }
  return text.length - pairs;
}

/** Follows a task until it ends. The text is shown at most twenty times a second. */
export function useStream(taskId: string): Streamed {
  const [shown, setShown] = useState(NOTHING);
  useEffect(() => {
    let known = NOTHING;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const source = new EventSource(inProject(`/api/tasks/${encodeURIComponent(taskId)}/stream`));
    const show = () => {
      timer = undefined;
      setShown(known);
    };
    const take = (message: Message) => {
      known = streamed(known, message);
      if (known.state === "ended") source.close();
      timer ??= setTimeout(show, 50);
    };
    const read = (event: Event) => JSON.parse((event as MessageEvent<string>).data);
    source.addEventListener("snapshot", (event) => take({ kind: "snapshot", output: read(event).output }));
    source.addEventListener("delta", (event) => take({ kind: "delta", ...read(event) }));
    source.addEventListener("restart", () => take({ kind: "restart" }));
    source.addEventListener("end", (event) => take({ kind: "end", output: read(event).output }));
    // The browser comes back by itself, and is sent a new snapshot.
    source.addEventListener("error", () => take({ kind: "lost" }));
    setShown(NOTHING);
    return () => {
      source.close();
      clearTimeout(timer);
    };
  }, [taskId]);
  return shown;
}
