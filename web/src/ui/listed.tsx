/** A list as a table, with its refusal, the lines while it is read, and the text in the place of no rows. */
import type { ReactNode } from "react";
import { Loaded } from "./basics";
import { Sized } from "./sized";
import { Table, type TableProps } from "./table";

/** What `useRows` gives; `data` is undefined until the first rows are there. */
type List<T> = {
  data: unknown;
  error: Error | null;
  refetch: () => unknown;
  rows: T[] | undefined;
  total?: number;
  more?: () => void;
};

type Props<T> = Omit<TableProps<T>, "rows" | "total" | "more"> & {
  list: List<T>;
  empty?: ReactNode;
  /** The height of a row in lines; the table is then as high as its rows instead of filling its place. */
  sized?: number;
};

export function Listed<T>({ list, empty, sized, ...props }: Props<T>) {
  const { rows = [], total, more } = list;
  const table = <Table {...props} rows={rows} total={total} more={more} />;
  return (
    <Loaded query={list}>
      {() => {
        if (rows.length === 0 && empty) return empty;
        return sized ? <Sized rows={rows.length * sized}>{table}</Sized> : table;
      }}
    </Loaded>
  );
}
