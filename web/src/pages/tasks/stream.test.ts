import { expect, test } from "vitest";
import { type Message, NOTHING, streamed } from "./stream";

const after = (...messages: Message[]) => messages.reduce(streamed, NOTHING);

test("deltas follow the snapshot, and what it had already is not written twice", () => {
  const { text, missing, state } = after(
    { kind: "snapshot", output: "abc" },
    { kind: "delta", text: "bcd", offset: 1 },
    { kind: "delta", text: "ef", offset: 4 },
    { kind: "delta", text: "ab", offset: 0 },
  );
  expect({ text, missing, state }).toEqual({ text: "abcdef", missing: 0, state: "open" });
});

test("offsets count characters, not halves of them", () => {
  const { text, missing } = after(
    { kind: "snapshot", output: "😀é" },
    { kind: "delta", text: "é!", offset: 1 },
    { kind: "delta", text: "?", offset: 3 },
  );
  expect({ text, missing }).toEqual({ text: "😀é!?", missing: 0 });
});

test("a hole is told", () => {
  expect(after({ kind: "snapshot" }, { kind: "delta", text: "x", offset: 10 })).toMatchObject({
    text: "x",
    missing: 10,
    end: 11,
  });
});

test("a new attempt begins anew, and the end has the whole", () => {
  const begun: Message[] = [
    { kind: "snapshot", output: "old" },
    { kind: "restart" },
    { kind: "delta", text: "n", offset: 0 },
  ];
  expect(after(...begun).text).toBe("n");
  expect(after(...begun, { kind: "end", output: "new" })).toMatchObject({ text: "new", state: "ended" });
  expect(after(...begun, { kind: "end" })).toMatchObject({ text: "n", state: "ended" });
});

test("a connection that is lost keeps the text, and a snapshot replaces it", () => {
  const lost = after({ kind: "snapshot", output: "abc" }, { kind: "lost" });
  expect(lost).toMatchObject({ text: "abc", state: "lost" });
  expect(streamed(lost, { kind: "snapshot", output: "abcd" })).toMatchObject({ text: "abcd", state: "open" });
});
