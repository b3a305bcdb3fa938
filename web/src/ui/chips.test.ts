import { expect, it } from "vitest";
import { chipsOf, queryOf } from "./chips";

it("makes a chip of each filter that is set, and of each value of a list", () => {
  const params = new URLSearchParams("status=failed,running&search=K-102&queue=&view=templates");
  expect(chipsOf(params, ["search", "status", "queue", "tags"])).toEqual([
    { name: "search", value: "K-102", rest: undefined },
    { name: "status", value: "failed", rest: "running" },
    { name: "status", value: "running", rest: "failed" },
  ]);
});

it("keeps a view in one order, without what passes", () => {
  const query = (text: string) => queryOf(new URLSearchParams(text));
  expect(query("tags=a%2Cb&status=failed&submit=1")).toBe("status=failed&tags=a%2Cb");
  expect(query("status=failed&tags=a,b")).toBe(query("tags=a%2Cb&status=failed"));
  expect(query("submit=1")).toBe("");
});
