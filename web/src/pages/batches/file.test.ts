import { expect, test } from "vitest";
import { Counter } from "./confidence";
import { Csv, CsvRows, type FileRow, type Found, LineRows, look, mediaOf, rowChecker, typed } from "./file";

/** What a reader gives, whatever the pieces in which the text comes. */
function whole<T>(
  make: () => { feed: (text: string) => Iterable<T>; finish: () => Iterable<T> },
  text: string,
) {
  const results = [1, 2, 3, text.length].map((size) => {
    const reader = make();
    const found: T[] = [];
    for (let from = 0; from < text.length; from += size)
      found.push(...reader.feed(text.slice(from, from + size)));
    return [...found, ...reader.finish()];
  });
  for (const each of results) expect(each).toEqual(results[0]);
  return results[0] as T[];
}

test("a record of CSV knows the line on which it begins, with texts of several lines before it", () => {
  const text = 'id,subject\r\n1,"a ""b"",\nc"\n\n2,plain "x"\n3,';
  expect(whole(() => new Csv(), text)).toEqual([
    { line: 1, cells: ["id", "subject"] },
    { line: 2, cells: ["1", 'a "b",\nc'] },
    { line: 5, cells: ["2", 'plain "x"'] },
    { line: 6, cells: ["3", ""] },
  ]);
});

test("the key's column is no field of the input unless the template declares it", () => {
  const rows = (keeps: boolean) =>
    whole(
      () => new CsvRows("id", (name) => (name === "n" ? "integer" : undefined), keeps),
      "id,n\na,7\nb,x\nc\n",
    );
  expect(rows(false)).toEqual([
    { number: 1, line: 2, key: "a", input: { n: 7 } },
    { number: 2, line: 3, key: "b", input: {}, fault: 'n must be of type integer, not "x".' },
    { number: 3, line: 4, fault: expect.stringContaining("1 cells") },
  ]);
  expect(rows(true)[0]?.input).toEqual({ id: "a", n: 7 });
});

test("a header that no row can be read with is refused with the way out", () => {
  const refused = (text: string) => () => whole(() => new CsvRows(undefined, () => undefined, false), text);
  expect(refused("a;b\n1;2\n")).toThrow(/separated by semicolons/);
  expect(refused("a\tb\n")).toThrow(/separated by tabs/);
  expect(refused("a,a\n")).toThrow(/names the column a twice/);
  expect(refused("a,\n")).toThrow(/Column 2 has no name/);
  expect(refused("")).toThrow(/empty/);
});

test("lines of JSON say what is wrong by line", () => {
  const text = '{"key":1,"input":{"a":1}}\n\nno\n{"input":{},"x":1}\n{"key":"k"}\n[]\n{"input":{}}';
  const rows = whole(() => new LineRows(), text);
  expect(rows.map(({ number, line, key }) => [number, line, key])).toEqual([
    [1, 1, "1"],
    [2, 3, undefined],
    [3, 4, undefined],
    [4, 5, "k"],
    [5, 6, undefined],
    [6, 7, undefined],
  ]);
  expect(rows.map(({ fault }) => fault !== undefined)).toEqual([false, true, true, true, true, false]);
});

test("a cell has the type that its field declares", () => {
  expect(typed("7", "integer")).toEqual({ value: 7 });
  expect(typed("7", "string")).toEqual({ value: "7" });
  expect(typed(" ", "number")).toEqual({ value: undefined });
  expect(typed("TRUE", "boolean")).toEqual({ value: true });
  expect(typed("x", "number")).toEqual({ fault: 'must be of type number, not "x".' });
});

test("a key that is there twice, and an input that the schema refuses, are faults", () => {
  const check = rowChecker({ type: "object", required: ["a"], properties: { a: { type: "string" } } });
  const row = (more: Partial<FileRow>): FileRow => ({ number: 1, line: 1, ...more });
  expect(check(row({ key: "k", input: { a: "x" } }))).toBeUndefined();
  expect(check(row({ key: "k", input: { a: "x" } }))).toBe("An earlier row has the key k.");
  expect(check(row({ key: "l", input: {} }))).toBe("a: this is required.");
  expect(check(row({ key: "m", input: { a: 7 } }))).toBe("a: this must be string.");
  expect(check(row({ key: "", input: { a: "x" } }))).toBe("The key is empty.");
});

test("a file is told by its name, or by how it begins", () => {
  expect(mediaOf("a.csv", "")).toBe("text/csv");
  expect(mediaOf("a.ndjson", "")).toBe("application/x-ndjson");
  expect(mediaOf("rows", '\ufeff {"input":{}}')).toBe("application/x-ndjson");
  expect(() => mediaOf("rows.json", "[1]")).toThrow(/one object on each line/);
});

test("a file is read to its end, with a mark at its beginning and letters that two pieces share", async () => {
  const lines = Array.from({ length: 40_000 }, (_, at) => `${at},müßig`);
  const file = new File([`\ufeffid,a\n${lines.join("\n")}\n`], "a.csv");
  const told: Found[] = [];
  const stop = new AbortController();
  await look(file, "text/csv", "id", undefined, (found) => told.push(found), stop.signal);
  expect(told.at(-1)).toMatchObject({ rows: 40_000, faulty: 0, columns: ["id", "a"], done: true });
  expect(told.at(-1)?.first[0]).toEqual({ number: 1, line: 2, key: "0", input: { a: "müßig" } });
});

test("confidences are counted in tenths, whatever the pieces", () => {
  const counter = new Counter();
  for (const piece of ["steps.a.conf", "idence\r\n0\r\n0.", '05\n0.1\n""\n\n1\n0.99', "\n0.3"])
    counter.feed(piece);
  expect(counter.finish()).toEqual({ bins: [2, 1, 0, 1, 0, 0, 0, 0, 0, 2], none: 2 });
});
