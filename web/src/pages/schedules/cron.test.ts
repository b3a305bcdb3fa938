import { describe, expect, it } from "vitest";
import { instants, inWords, isInterval, nextOf, yearOf } from "./cron";
import { changesOf } from "./zone";

const at = (text: string) => Date.parse(text);
const iso = (found: number[]) => found.map((each) => new Date(each).toISOString().slice(0, 16));
const count = (cron: string, zone: string, day: string, hours = 24) =>
  [...instants(cron, zone, at(day) - 1000, at(day) + hours * 3_600_000)].length;

describe("the instants of a cron expression are those of the server", () => {
  it("moves a fixed time of a gap to its end, and several of one gap are one", () => {
    expect(iso(nextOf("30 2 * * *", "Europe/Berlin", at("2026-03-27T12:00:00Z"), 3))).toEqual([
      "2026-03-28T01:30",
      "2026-03-29T01:00",
      "2026-03-30T00:30",
    ]);
    expect(iso(nextOf("0,15,30,45 2,3 * * *", "Europe/Berlin", at("2026-03-29T00:00:00Z"), 5))).toEqual([
      "2026-03-29T01:00",
      "2026-03-29T01:15",
      "2026-03-29T01:30",
      "2026-03-29T01:45",
      "2026-03-30T00:00",
    ]);
  });

  it("runs a fixed time that comes twice at the first of the two, also from within the second", () => {
    expect(iso(nextOf("30 2 * * *", "Europe/Berlin", at("2026-10-24T12:00:00Z"), 2))).toEqual([
      "2026-10-25T00:30",
      "2026-10-26T01:30",
    ]);
    expect(iso(nextOf("0,30 2,3 * * *", "Europe/Berlin", at("2026-10-24T23:45:00Z"), 4))).toEqual([
      "2026-10-25T00:00",
      "2026-10-25T00:30",
      "2026-10-25T02:00",
      "2026-10-25T02:30",
    ]);
    expect(iso(nextOf("0,30 2,3 * * *", "Europe/Berlin", at("2026-10-25T01:10:00Z"), 1))).toEqual([
      "2026-10-25T02:00",
    ]);
  });

  it("lets an interval go on evenly through both changes", () => {
    // Days of 25 and 23 hours, as the table of the docs has them.
    expect(count("*/15 * * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", 25)).toBe(100);
    expect(count("*/15 * * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", 23)).toBe(92);
    expect(count("*/15 2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", 25)).toBe(8);
    expect(count("*/15 2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", 23)).toBe(0);
    for (const [cron, minutes, zone, from] of [
      ["*/30 * * * *", 30, "Australia/Lord_Howe", "2026-04-04T00:00:00Z"],
      ["*/15 * * * *", 15, "Australia/Lord_Howe", "2026-10-03T00:00:00Z"],
      ["0 * * * *", 60, "America/Santiago", "2026-04-04T12:00:00Z"],
      ["0 * * * *", 60, "Asia/Beirut", "2026-03-28T12:00:00Z"],
      ["@hourly", 60, "America/New_York", "2026-03-08T00:00:00Z"],
    ] as const) {
      const found = nextOf(cron, zone, at(from), 60);
      const steps = new Set(found.slice(1).map((each, index) => each - (found[index] ?? 0)));
      expect([...steps]).toEqual([minutes * 60_000]);
    }
  });

  it("tells an interval from fixed times", () => {
    expect(["*/15 * * * *", "30 * * * *", "*/10 2 * * *", "@hourly"].map(isInterval)).toEqual(
      Array(4).fill(true),
    );
    expect(["30 2 * * *", "0 0-23 * * *", "@daily"].map(isInterval)).toEqual(Array(3).fill(false));
  });

  it("reads either day unless a + asks for both", () => {
    const from = at("2026-02-12T00:00:00Z");
    expect(iso(nextOf("0 0 13 * +FRI", "UTC", from, 2))).toEqual(["2026-02-13T00:00", "2026-03-13T00:00"]);
    expect(iso(nextOf("0 0 13 * FRI", "UTC", from, 2))).toEqual(["2026-02-13T00:00", "2026-02-20T00:00"]);
  });
});

describe("a year", () => {
  it("has the runs of each day, and the days on which the clocks change", () => {
    const days = yearOf("*/15 2 * * MON-SUN", "Europe/Berlin", at("2026-01-01T12:00:00Z"));
    expect(days).toHaveLength(365);
    const changed = days.filter(({ change }) => change !== undefined);
    expect(changed).toEqual([
      { wall: at("2026-03-29T00:00:00Z"), runs: 0, change: 3_600_000 },
      { wall: at("2026-10-25T00:00:00Z"), runs: 8, change: -3_600_000 },
    ]);
    expect(days.filter(({ runs }) => runs === 4)).toHaveLength(363);
    const mondays = yearOf("0 9 * * MON", "Europe/Berlin", at("2026-01-01T12:00:00Z"));
    expect(mondays.filter(({ runs }) => runs === 1)).toHaveLength(52);
  });

  it("finds the changes to the second", () => {
    const found = changesOf("Europe/Berlin", at("2026-01-01T05:17:11Z"), at("2027-01-01T00:00:00Z"));
    expect(iso(found.map((each) => each.at))).toEqual(["2026-03-29T01:00", "2026-10-25T01:00"]);
  });
});

describe("words", () => {
  it("says what an expression means", () => {
    expect(inWords("*/15 9-17 * * MON-FRI")).toBe(
      "Every 15 minutes, between 09:00 and 17:59, Monday through Friday",
    );
    expect(inWords("@daily")).toBe("At 00:00");
    expect(inWords("0 0 13 * FRI")).toMatch(/either$/);
    expect(inWords("0 0 13 * +FRI")).toMatch(/both$/);
    expect(() => inWords("0 0 0 1 1 *")).toThrow();
    expect(() => inWords("61 * * * *")).toThrow();
  });
});
