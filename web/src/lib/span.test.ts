import { expect, test } from "vitest";
import { dateOf, lastDays, midnight, spanOf } from "./span";

test("a day of the reader is from midnight to midnight, however long", () => {
  const { after, before } = spanOf("2026-03-29");
  expect(new Date(after as string).getTime()).toBe(midnight("2026-03-29"));
  expect(new Date(before as string).getTime()).toBe(midnight("2026-03-30"));
  expect(new Date(after as string).getHours()).toBe(0);
});

test("the last days end today and leave none out", () => {
  const now = new Date(2026, 2, 2, 13).getTime();
  expect(lastDays(4, now)).toEqual(["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
  expect(dateOf(now)).toBe("2026-03-02");
});

test("a span that moves is the same for a while, and what is no time is no filter", () => {
  const now = Date.parse("2026-11-28T12:05:01Z");
  expect(spanOf("24h", now)).toEqual({ after: "2026-11-27T12:00:00.000Z" });
  expect(spanOf("24h", now + 200_000)).toEqual(spanOf("24h", now));
  expect(spanOf("2026-11-28T10:00:00Z")).toEqual({ after: "2026-11-28T10:00:00.000Z" });
  for (const none of [null, "", "yesterday", "2026-13-99x"]) expect(spanOf(none, now)).toEqual({});
});
