import { type CallOptions, call, type Path, type Query } from "./call.js";
import type { Transport } from "./transport.js";

const PAGE = 100;

/**
 * A list of the server, read as it is iterated, 100 items at a time.
 *
 * A new item comes first and moves the others on: none is seen twice. An item that leaves the list between two pages (a
 * task that ends, in a list of pending ones) moves another over the page's edge, where it is not seen; read such a list
 * whole before you change its items.
 */
export class Pages<Item> implements AsyncIterable<Item> {
  readonly #transport: Transport;
  readonly #list: List<Item>;

  constructor(transport: Transport, list: List<Item>) {
    this.#transport = transport;
    this.#list = list;
  }

  /** The number of items. */
  async total(): Promise<number> {
    return (await this.#page(0, 1)).pagination.total ?? 0;
  }

  /** All items. */
  async all(): Promise<Item[]> {
    const items: Item[] = [];
    for await (const item of this.#read()) items.push(item);
    return items;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, void> {
    if (this.#list.whole) yield* await this.all();
    else yield* this.#read();
  }

  async *#read(): AsyncGenerator<Item, void, void> {
    const seen = new Set<string>();
    for (let offset = 0; ; ) {
      const { data, pagination } = await this.#page(offset, PAGE);
      for (const it of data) {
        const name: string | undefined = it.id ?? it.taskId;
        if (name !== undefined && seen.has(name)) continue;
        if (name !== undefined) seen.add(name);
        yield this.#list.make ? this.#list.make(it) : it;
      }
      offset += data.length;
      if (data.length === 0 || !pagination.hasMore) return;
    }
  }

  #page(offset: number, limit: number) {
    const { method, path, names, query, signal } = this.#list;
    const page = call(method, path, { names: names as never, query: { ...query, limit, offset } });
    return this.#transport.answered(page, signal);
  }
}

interface List<Item> extends CallOptions {
  method: "GET";
  path: Path<"GET">;
  names?: Record<string, string> | undefined;
  query: Record<string, unknown>;
  whole: boolean | undefined;
  make: ((data: unknown) => Item) | undefined;
}

/** The filters of a list, and its signal. */
export type Filters<P extends Path<"GET">> = Partial<Query<P>> & CallOptions;
