import { expect, test } from "vitest";
import { DEFAULT, inProject, projectOf, switched, withoutProject } from "./project";

const LEGAL = "prj_01m8j6az0hh3ptgrvc0rxmvf00";

test("an address names its project, and default by its silence", () => {
  expect(projectOf(`?status=failed&project=${LEGAL}`)).toBe(LEGAL);
  for (const search of ["", "?status=failed", "?project=", "?project=default", `?project=${DEFAULT}`])
    expect(projectOf(search)).toBeUndefined();
});

test("an address keeps its parameters and its place in a project, and names no second one", () => {
  expect(inProject("/tasks", LEGAL)).toBe(`/tasks?project=${LEGAL}`);
  expect(inProject("/tasks?tags=a%3Ab#top", LEGAL)).toBe(`/tasks?tags=a%3Ab&project=${LEGAL}#top`);
  expect(inProject(`/tasks?project=prj_other&status=failed`, LEGAL)).toBe(
    `/tasks?status=failed&project=${LEGAL}`,
  );
  expect(inProject("/tasks?status=failed", DEFAULT)).toBe("/tasks?status=failed");
  expect(inProject(`/tasks?project=${LEGAL}`, DEFAULT)).toBe("/tasks");
  expect(projectOf(inProject("/", "Legal & Co").slice(1))).toBe("Legal & Co");
});

test("another project opens at the same list, and at the same guide", () => {
  expect(switched("/tasks/dt_task_1", LEGAL)).toBe(`/tasks?project=${LEGAL}`);
  expect(switched("/", LEGAL)).toBe(`/?project=${LEGAL}`);
  expect(switched("/docs/how-to/batch", LEGAL)).toBe(`/docs/how-to/batch?project=${LEGAL}`);
  expect(switched("/sign-in", DEFAULT)).toBe("/");
});

test("pages read the parameters without the project", () => {
  expect(withoutProject(`?project=${LEGAL}&status=failed`)).toBe("status=failed");
  expect(withoutProject("?tags=a%3Ab")).toBe("?tags=a%3Ab");
});
