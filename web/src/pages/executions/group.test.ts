import { expect, test } from "vitest";
import { grouped, nowOf } from "./group";

test("what ran lately comes first, by its last run, a plan only by itself, then the other templates", () => {
  const templates = ["a", "b", "c"].map((id) => ({ id, name: `template ${id}` }));
  const latest = [
    { planId: "p" },
    { templateId: "c", planId: "of c" },
    { planId: "p" },
    { templateId: "deleted", planId: "of deleted" },
  ];
  const nameOf = ({ templateId, planId }: { templateId?: string; planId?: string }) =>
    templateId ?? `plan ${planId}`;
  expect(grouped(templates, latest, nameOf)).toEqual([
    { of: "planId", id: "p", name: "plan p" },
    { of: "templateId", id: "c", name: "c" },
    { of: "templateId", id: "deleted", name: "deleted" },
    { of: "templateId", id: "a", name: "template a" },
    { of: "templateId", id: "b", name: "template b" },
  ]);
});

test("an open run counts once: as running, held for review, or waiting", () => {
  const open = [
    { status: "running" },
    { status: "running", waitingFor: "approval" },
    { status: "running", waitingFor: "worker" },
    { status: "pending", waitingFor: "schedule" },
    { status: "pending" },
  ];
  expect(nowOf(open)).toEqual({ running: 1, held: 1, waiting: 3 });
});
