/**
 * A file of rows, read in pieces as the server reads it, to show what it has before it is sent. The server has the
 * last word.
 *
 *     bytes ─▶ text ─▶ records with their lines ─▶ rows ─▶ faults
 */
import { t } from "@lingui/core/macro";
import { type Fault, valueChecker } from "../../ui/form/check";

export type Media = "text/csv" | "application/x-ndjson";
const SAMPLE = '{"key": "a", "input": {…}}';
export const MAX_ROWS = 100_000;
const MAX_BYTES = 1 << 30;
const MAX_ROW = 2 << 20;
const MAX_KEY = 200;

/** A row of the file, from 1, and the line on which it begins. */
export type FileRow = {
  number: number;
  line: number;
  key?: string;
  input?: Record<string, unknown>;
  /** What is wrong with it; it is kept as invalid. */
  fault?: string;
};

export type Found = {
  rows: number;
  first: FileRow[];
  faults: FileRow[];
  faulty: number;
  /** The columns of CSV, or the members of the first inputs. */
  columns: string[];
  done: boolean;
};

/** What no row can be read from. */
export class Unreadable extends Error {}

/** The media type of a file, by its name; of others, by how it begins. */
export function mediaOf(name: string, start: string): Media {
  if (/\.(csv|txt)$/i.test(name)) return "text/csv";
  if (/\.(jsonl|ndjson)$/i.test(name)) return "application/x-ndjson";
  const begins = start.replace(/^\ufeff/, "").trimStart();
  if (begins.startsWith("["))
    throw new Unreadable(t`This is a list in JSON. Write one object on each line: ${SAMPLE}.`);
  return begins.startsWith("{") ? "application/x-ndjson" : "text/csv";
}

type CsvRecord = { line: number; cells: string[] };

/** Records of CSV with commas (RFC 4180). Empty lines are skipped. */
export class Csv {
  private cells: string[] = [];
  private cell = "";
  private state: "start" | "plain" | "quoted" | "quote" = "start";
  private line = 1;
  private began = 1;
  private isAfterReturn = false;

  *feed(text: string): Generator<CsvRecord> {
    for (const sign of text) {
      const isEnd = sign === "\n" || sign === "\r";
      const isSecond = sign === "\n" && this.isAfterReturn;
      if (isEnd && !isSecond) this.line += 1;
      this.isAfterReturn = sign === "\r";
      if (this.state === "quoted") {
        if (sign === '"') this.state = "quote";
        else this.cell += sign;
      } else if (sign === '"' && this.state === "start") {
        this.state = "quoted";
      } else if (sign === '"' && this.state === "quote") {
        this.cell += sign;
        this.state = "quoted";
      } else if (sign === ",") {
        this.cells.push(this.cell);
        this.cell = "";
        this.state = "start";
      } else if (isEnd) {
        yield* this.finish();
      } else {
        this.cell += sign;
        this.state = "plain";
      }
    }
  }

  *finish(): Generator<CsvRecord> {
    const isEmpty = this.cells.length === 0 && this.cell === "" && this.state === "start";
    const record = { line: this.began, cells: [...this.cells, this.cell] };
    this.cells = [];
    this.cell = "";
    this.state = "start";
    this.began = this.line;
    if (!isEmpty) yield record;
  }
}

/** The rows of a CSV file. */
export class CsvRows {
  readonly csv = new Csv();
  columns: string[] = [];
  private number = 0;
  private keyAt = -1;

  constructor(
    private readonly keyColumn: string | undefined,
    private readonly typeOf: (name: string) => string | undefined,
    private readonly keepsKey: boolean,
  ) {}

  *feed(text: string): Generator<FileRow> {
    for (const record of this.csv.feed(text)) yield* this.row(record);
  }

  *finish(): Generator<FileRow> {
    for (const record of this.csv.finish()) yield* this.row(record);
    if (this.columns.length === 0)
      throw new Unreadable(t`The file is empty: its first line must name the columns.`);
  }

  private *row({ line, cells }: CsvRecord): Generator<FileRow> {
    if (this.columns.length === 0) {
      this.begin(cells);
      return;
    }
    const row: FileRow = { number: ++this.number, line };
    if (cells.length !== this.columns.length) {
      row.fault = t`It has ${cells.length} cells, and the header ${this.columns.length} columns: put a text with a comma or a line break into double quotes.`;
      yield row;
      return;
    }
    if (this.keyAt >= 0) row.key = cells[this.keyAt];
    const input: Record<string, unknown> = {};
    for (const [at, name] of this.columns.entries()) {
      if (at === this.keyAt && !this.keepsKey) continue;
      const read = typed(cells[at] ?? "", this.typeOf(name));
      if ("fault" in read) row.fault ??= `${name} ${read.fault}`;
      else if (read.value !== undefined) input[name] = read.value;
    }
    row.input = input;
    yield row;
  }

  private begin(cells: string[]) {
    const [only = ""] = cells;
    if (cells.length === 1 && /[;\t]/.test(only)) {
      const sign = only.includes(";") ? t`semicolons` : t`tabs`;
      throw new Unreadable(
        t`The columns are separated by ${sign}, and must be by commas: save the file as "CSV UTF-8 (comma delimited)".`,
      );
    }
    for (const [at, name] of cells.entries()) {
      if (name.trim() === "") throw new Unreadable(t`Column ${at + 1} has no name in the first line.`);
      if (cells.indexOf(name) < at) throw new Unreadable(t`The first line names the column ${name} twice.`);
    }
    this.columns = cells;
    this.keyAt = this.keyColumn === undefined ? -1 : cells.indexOf(this.keyColumn);
  }
}

/** The value of a cell for a member of this type: a text as it is, any other as the JSON that it is. */
export function typed(cell: string, type: string | undefined): { value: unknown } | { fault: string } {
  if (type === undefined || type === "string") return { value: cell };
  const text = cell.trim();
  if (text === "") return { value: undefined };
  if (text === "TRUE" || text === "True") return { value: true };
  if (text === "FALSE" || text === "False") return { value: false };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: t`must be of type ${type}, not ${JSON.stringify(text.slice(0, 80))}.` };
  }
}

/** The rows of lines of JSON. */
export class LineRows {
  columns: string[] = [];
  private rest = "";
  private line = 0;
  private number = 0;

  *feed(text: string): Generator<FileRow> {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) yield* this.row(line);
  }

  *finish(): Generator<FileRow> {
    yield* this.row(this.rest);
    if (this.number === 0) throw new Unreadable(t`The file has no row.`);
  }

  private *row(text: string): Generator<FileRow> {
    this.line += 1;
    if (text.trim() === "") return;
    const row: FileRow = { number: ++this.number, line: this.line };
    Object.assign(row, lineOf(text));
    if (row.input && this.columns.length < 50) {
      const more = Object.keys(row.input).filter((name) => !this.columns.includes(name));
      if (more.length > 0) this.columns = [...this.columns, ...more].slice(0, 50);
    }
    yield row;
  }
}

function lineOf(text: string): Pick<FileRow, "key" | "input" | "fault"> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: t`This is not JSON: ${(error as Error).message}` };
  }
  if (!isObject(value)) return { fault: t`It must be an object: ${SAMPLE}.` };
  const { key, input, ...others } = value;
  const [other] = Object.keys(others);
  const found: Pick<FileRow, "key" | "input" | "fault"> = {};
  if (typeof key === "string" || typeof key === "number") found.key = String(key);
  else if (key !== undefined && key !== null) return { fault: t`key must be a text.` };
  if (other !== undefined)
    found.fault = t`It has the members key and input, not ${other}: put that into input.`;
  else if (input === undefined) found.fault = t`input is missing.`;
  else if (!isObject(input)) found.fault = t`input must be an object.`;
  else found.input = input;
  return found;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The types that a schema declares at its root. */
export function typesOf(schema: unknown): Map<string, string> {
  const found = new Map<string, string>();
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  for (const [name, property] of Object.entries(properties)) {
    const type = isObject(property) ? property.type : undefined;
    if (typeof type === "string") found.set(name, type);
    else if (isObject(property)) found.set(name, "string");
  }
  return found;
}

const SHOWN = 6;
const LISTED = 100;
/** The page stays usable while a file is read: it has the processor for so long, in milliseconds. */
const SLICE = 12;

/** Finds the faults of rows, one after the other. */
export function rowChecker(schema: unknown): (row: FileRow) => string | undefined {
  const check = valueChecker(schema, "input");
  const keys = new Set<string>();
  return ({ number, key = String(number), input, fault }) => {
    if (key === "") return t`The key is empty.`;
    if ([...key].length > MAX_KEY) return t`The key has more than ${MAX_KEY} characters.`;
    if (keys.has(key)) return t`An earlier row has the key ${key}.`;
    keys.add(key);
    if (fault) return fault;
    const [first] = input ? check(input).filter(({ mild }) => !mild) : [];
    return first && saidOf(first);
  };
}

const saidOf = ({ field, message }: Fault) =>
  `${field.replace(/^input\.?/, "") || t`The row`}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;

/** Reads a file to its end, and tells what it has found so far. */
export async function look(
  file: File,
  media: Media,
  keyColumn: string | undefined,
  schema: unknown,
  tell: (found: Found) => void,
  signal: AbortSignal,
): Promise<void> {
  if (file.size > MAX_BYTES) throw new Unreadable(t`The file is larger than 1 GiB.`);
  const types = typesOf(schema);
  const reader =
    media === "text/csv"
      ? new CsvRows(keyColumn, (name) => types.get(name), keyColumn !== undefined && types.has(keyColumn))
      : new LineRows();
  const check = rowChecker(schema);
  const found: Found = { rows: 0, first: [], faults: [], faulty: 0, columns: [], done: false };
  const take = (row: FileRow) => {
    found.rows += 1;
    const fault = check(row);
    const shown = fault === undefined ? row : { ...row, fault };
    if (found.first.length < SHOWN) found.first.push(shown);
    if (fault === undefined) return;
    found.faulty += 1;
    if (found.faults.length < LISTED) found.faults.push(shown);
  };
  // A piece of the file at a time: what is dropped is not read to its end.
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let until = performance.now() + SLICE;
  const takeAll = async (rows: Iterable<FileRow>) => {
    for (const row of rows) {
      take(row);
      if (found.rows > MAX_ROWS)
        throw new Unreadable(t`The file has more than 100,000 rows: split it into several batches.`);
      if (performance.now() < until) continue;
      tell({ ...found, columns: reader.columns });
      await new Promise((resolve) => setTimeout(resolve));
      signal.throwIfAborted();
      until = performance.now() + SLICE;
    }
  };
  for (let from = 0; from < file.size; from += MAX_ROW / 8) {
    const bytes = await file.slice(from, from + MAX_ROW / 8).arrayBuffer();
    signal.throwIfAborted();
    let text: string;
    try {
      text = decoder.decode(bytes, { stream: true });
    } catch {
      throw new Unreadable(t`The file is not UTF-8: save it as "CSV UTF-8".`);
    }
    await takeAll(reader.feed(text));
  }
  await takeAll(reader.finish());
  tell({ ...found, columns: reader.columns, done: true });
}
