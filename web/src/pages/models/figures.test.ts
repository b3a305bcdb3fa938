import { expect, it } from "vitest";
import { fallbacksOf, gaugesOf, type Model, perMillion, shareOf } from "./figures";

it("has the use beside each limit, and what the provider says is left", () => {
  const model = {
    name: "m",
    workers: 1,
    limits: { requestsPerMinute: 10, tokensPerMinute: 1_000 },
    used: { requests: 4, inputTokens: 300, outputTokens: 900, inFlight: 2 },
    reported: { requests: { limit: 60, remaining: 7 } },
  } as Model;
  const gauges = new Map(gaugesOf(model).map((gauge) => [gauge.id, gauge]));
  expect(gauges.get("requests")).toMatchObject({ used: 4, limit: 10, left: { remaining: 7 } });
  expect(shareOf(gauges.get("tokens") as never)).toBe(1);
  expect(shareOf(gauges.get("inFlight") as never)).toBeUndefined();
});

it("counts the fall-backs by model and reason", () => {
  const task = (modelUsed?: string, fallbackReason?: string) => ({ modelUsed, fallbackReason }) as never;
  expect(
    fallbacksOf([task("b", "timeout"), task("c", "unavailable"), task("c", "unavailable"), task("a")]),
  ).toEqual([
    { to: "c", reason: "unavailable", tasks: 2 },
    { to: "b", reason: "timeout", tasks: 1 },
  ]);
});

it("writes prices of a million tokens", () => {
  expect(perMillion(0.00000015)).toBe("$0.15");
  expect(perMillion(0)).toBe("$0.00");
});
