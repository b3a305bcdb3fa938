import { expect, it } from "vitest";
import { bodyOf, changesOf, draftOf } from "./draft";
import type { Schedule } from "./read";

const schedule = {
  id: "dt_sched_1",
  name: "nightly",
  cron: "0 3 * * *",
  timezone: "Europe/Berlin",
  overlap: "skip",
  catchUp: "last",
  jitterMs: 1500,
  enabled: true,
  target: { templateId: "report-v1", input: { day: "{{meta.scheduledDate}}" } },
} as unknown as Schedule;

it("asks for nothing where nothing was changed", () => {
  expect(changesOf(schedule, draftOf(schedule))).toEqual({});
});

it("sends what was changed and leaves the target, which decides whose the work is", () => {
  const draft = { ...draftOf(schedule), cron: "0 4 * * *", jitter: "2" };
  expect(changesOf(schedule, draft)).toEqual({ cron: "0 4 * * *", jitterMs: 2000 });
});

it("goes from a timetable to a single time without the timetable's zone", () => {
  const changes = changesOf(schedule, { ...draftOf(schedule), kind: "at", at: "2030-01-02T03:04" });
  expect(changes).toEqual({ at: new Date("2030-01-02T03:04").toISOString() });
});

it("leaves out members of the target that were emptied", () => {
  const draft = { ...draftOf(schedule), target: { templateId: "report-v1", version: undefined } };
  expect(bodyOf(draft).target).toEqual({ templateId: "report-v1" });
});
