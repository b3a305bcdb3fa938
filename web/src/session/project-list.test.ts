import { expect, test } from "vitest";
import { matching } from "./project-list";

const project = (name: string, description?: string) => ({ id: name, name, description, members: 1 });
const ALL = [project("default"), project("Legal", "Contracts and claims"), project("Claims", "Of insurers")];

test("a search finds the projects that have every word, in whatever case, in the order of the list", () => {
  const found = (text: string) => matching(ALL, text).map(({ name }) => name);
  expect(found("")).toEqual(["default", "Legal", "Claims"]);
  expect(found("CLAIM")).toEqual(["Legal", "Claims"]);
  expect(found("  insur  claims ")).toEqual(["Claims"]);
  expect(found("claims nobody")).toEqual([]);
});
