/** Figures, times and plurals for a reader of German. The language is read once, so this file has its own modules. */
import { plural } from "@lingui/core/macro";
import { beforeAll, expect, test, vi } from "vitest";

let format: typeof import("./format");
let texts: typeof import("./texts");
beforeAll(async () => {
  vi.stubGlobal("navigator", { ...navigator, languages: ["fr-CH", "de-AT", "en"] });
  vi.resetModules();
  texts = await import("./texts");
  await import("./texts-rest");
  format = await import("./format");
  return () => vi.unstubAllGlobals();
});

test("the first language of the browser that there are texts for is taken, with its region", () => {
  expect([texts.language, texts.locale, document.documentElement.lang]).toEqual(["de", "de-AT", "de"]);
});

test("figures and times are the reader's", () => {
  const { age, count, duration, percent, ratio, relative } = format;
  expect([ratio(0.8), percent(0.123, 1), count(1234567).replace(/\s/g, " ")]).toEqual([
    "0,80",
    "12,3 %",
    "1 234 567",
  ]);
  expect([duration(1500), duration(3_725_000), age(200_000_000)]).toEqual([
    "1,5 s",
    "1 Std. 2 Min.",
    "2 Tg.",
  ]);
  expect([relative(0, 90_000), relative(7_200_000, 0), relative(0, 0)]).toEqual([
    "vor 1 Min.",
    "in 2 Std.",
    "jetzt",
  ]);
  expect(format.money(1234.5).replace(/\s/g, " ")).toMatch(/1.234,50/);
});

test("a plural has the form of its number", () => {
  const tasks = (number: number) => plural(number, { one: "Cancel # task", other: "Cancel # tasks" });
  expect([0, 1, 2].map(tasks)).toEqual([
    "0 Aufgaben abbrechen",
    "1 Aufgabe abbrechen",
    "2 Aufgaben abbrechen",
  ]);
});

test("a cron expression is in words", async () => {
  const { inWords } = await import("../pages/schedules/cron");
  expect(inWords("0 9 * * 1")).toMatch(/09:00.*Montag/);
});
