import type { CallOptions, Data, Names, Path } from "./call.js";
import { type Filters, Pages } from "./pages.js";
import type { Transport } from "./transport.js";

/** The data of an item as the server showed it, as members, beside the methods of its class. */
export class Item {
  declare protected readonly transport: Transport;

  constructor(transport: Transport, data: object) {
    // Not enumerable, so that JSON and logs have the data alone.
    Object.defineProperty(this, "transport", { value: transport });
    Object.assign(this, data);
  }

  /** Takes over the members of a newer answer about the same item. */
  protected take(data: object): this {
    for (const name of Object.keys(this)) Reflect.deleteProperty(this, name);
    return Object.assign(this, data);
  }
}

/** The base of a class of items whose members are those of `Data`. */
export function itemOf<Data extends object>(): new (transport: Transport, data: Data) => Item & Readonly<Data> {
  return Item as never;
}

/** Methods of one kind of items. */
export abstract class Resource {
  constructor(protected readonly transport: Transport) {}

  /** A list; `make` turns the data of an item into the item. */
  protected pages<P extends Path<"GET">, Item = Element<P>>(
    method: "GET",
    path: P,
    given: ListOptions<P>,
    make?: (data: Element<P>) => Item,
  ): Pages<Item> {
    const { names, whole, filters = {} } = given;
    const { signal, ...query } = filters as CallOptions;
    return new Pages<Item>(this.transport, {
      method,
      path,
      names: names as never,
      query,
      signal,
      whole,
      make: make as never,
    });
  }
}

type Element<P extends Path<"GET">> = Data<"GET", P> extends readonly (infer E)[] ? E : never;

interface ListOptions<P extends Path<"GET">> {
  names?: Names<"GET", P>;
  filters?: Filters<P>;
  /** True to read the list to its end before the first item. */
  whole?: boolean;
}
