import { UnexpectedAnswer } from "./errors.js";

const LARGEST_EVENT = 64 * 1024 * 1024;

/** JSON whose members are documented rather than typed. */
// biome-ignore lint/suspicious/noExplicitAny: each access would need a cast otherwise
export type Json = any;

/** One server-sent event. */
export interface ServerEvent {
  name: string;
  id: string | undefined;
  data: Json;
}

/** Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export class EventParser {
  /** The `id` of the last whole event that had one, also of one without data. */
  lastId: string | undefined;
  #id: string | undefined;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #rest = "";
  #name = "";
  #data: string[] = [];
  #size = 0;

  /** The events that end in this chunk. Lines end with a line feed, as the server writes them. */
  *feed(chunk: Uint8Array): Generator<ServerEvent> {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const found = this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (found) yield found;
    }
    if (this.#size + this.#rest.length > LARGEST_EVENT) {
      throw new UnexpectedAnswer(`an event of the stream has more than ${LARGEST_EVENT} characters`);
    }
  }

  #line(line: string): ServerEvent | undefined {
    if (line !== "") {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (name === "event") this.#name = value;
      else if (name === "id") this.#id = value;
      else if (name === "data") {
        this.#data.push(value);
        this.#size += value.length;
      }
      return undefined;
    }
    // Only here: a stream that is cut behind an id goes on before its event.
    this.lastId = this.#id;
    const name = this.#name;
    const data = this.#data.join("\n");
    this.#name = "";
    this.#data = [];
    this.#size = 0;
    if (data === "") return undefined;
    try {
      return { name, id: this.lastId, data: JSON.parse(data) };
    } catch {
      throw new UnexpectedAnswer(`the event ${name} is no JSON`);
    }
  }
}

/**
 * The text of a task, from the events of its streams: what is new of it, across breaks and attempts.
 *
 * The server counts characters (code points); JavaScript counts units of UTF-16.
 */
export class Text {
  #told = "";
  #count = 0;
  #now = "";
  /** True if the attempt's text is what was told. */
  #aligned = true;

  /** The text that an event adds; undefined if the text that was told is void. */
  next(name: string, data: Json): string | undefined {
    if (name === "delta") return this.#delta(String(data.text ?? ""), Number(data.offset ?? 0));
    if (name === "restart") return this.#become("");
    if (name === "snapshot" && (data.status === "pending" || data.status === "running")) {
      return this.#become(String(data.output ?? ""));
    }
    if (name !== "end") return "";
    const output = String(data.output ?? "");
    return output.length < this.#told.length ? undefined : this.#become(output);
  }

  #delta(text: string, offset: number): string | undefined {
    // A piece that was missed comes with the end.
    if (this.#aligned) return offset <= this.#count ? this.#tell(text.slice(units(text, this.#count - offset))) : "";
    return this.#become(offset <= points(this.#now) ? this.#now.slice(0, units(this.#now, offset)) + text : this.#now);
  }

  #become(now: string): string | undefined {
    this.#aligned = now.startsWith(this.#told);
    this.#now = this.#aligned ? "" : now;
    if (this.#aligned) return this.#tell(now.slice(this.#told.length));
    return this.#told.startsWith(now) ? "" : undefined;
  }

  #tell(fresh: string): string {
    this.#told += fresh;
    this.#count += points(fresh);
    return fresh;
  }
}

function points(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The units of UTF-16 that this many characters of the text take. */
function units(text: string, characters: number): number {
  let at = 0;
  for (let left = characters; left > 0 && at < text.length; left -= 1)
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}
