import { describe, expect, it } from "vitest";
import { accepted, csvOf, metGate, nearest } from "./figures";
import { buckets, names, parse, quantile, value } from "./metrics";

const TEXT = `# HELP svc_queue_depth Ready tasks.
# TYPE svc_queue_depth gauge
svc_queue_depth{queue="default"} 3.0
svc_queue_depth{queue="a \\"b\\", c"} 1
svc_task_run_seconds_bucket{le="0.5",model="m"} 2
svc_task_run_seconds_bucket{le="1.0",model="m"} 8
svc_task_run_seconds_bucket{le="+Inf",model="m"} 10
svc_tasks_duration_seconds{model="m",quantile="0.5"} NaN
svc_uptime_seconds 55.5
`;

describe("metrics", () => {
  const samples = parse(TEXT);
  it("reads names, labels and values", () => {
    expect(value(samples, "svc_queue_depth", { queue: "default" })).toBe(3);
    expect(names(samples, "svc_queue_depth", "queue")).toEqual(['a "b", c', "default"]);
    expect(value(samples, "svc_uptime_seconds")).toBe(55.5);
    expect(value(samples, "svc_none")).toBeUndefined();
    expect(value(samples, "svc_tasks_duration_seconds")).toBeNaN();
  });
  it("gives the bucket in which a quantile lies, and nothing without an observation", () => {
    const all = buckets(samples, "svc_task_run_seconds", { model: "m" });
    expect(quantile(all, 0.2)).toEqual({ from: 0, to: 0.5 });
    expect(quantile(all, 0.5)).toEqual({ from: 0.5, to: 1 });
    expect(quantile(all, 0.99)).toEqual({ from: 1, to: Number.POSITIVE_INFINITY });
    expect(quantile([], 0.5)).toBeUndefined();
  });
});

describe("figures", () => {
  const none = { approved: 0, edited: 0, rejected: 0, unreviewed: 4, undecided: 0, sampled: 0 };
  it("knows no share where nobody decided", () => {
    expect(accepted(none)).toBeUndefined();
    expect(accepted({ ...none, approved: 3, rejected: 1 })).toBe(0.75);
  });
  it("counts an output that waits once", () => {
    expect(metGate({ ...none, undecided: 2 })).toBe(4);
    expect(metGate({ ...none, approved: 1, edited: 1, rejected: 1, undecided: 4 })).toBe(7);
  });
  it("writes a table that a spreadsheet reads, and computes nothing in", () => {
    const sum = { tasks: 1, input: 2, output: 3, totalCost: 0.5 };
    const text = csvOf(
      [{ ...sum, key: '=1+1,"x"' }, { ...sum, key: "K-10241", priceUnknown: true }, sum],
      "tagKey",
    );
    expect(text.split("\n")).toEqual([
      "tagKey,tasks,input,output,costUsd,priceUnknown",
      `"'=1+1,""x""",1,2,3,0.5,false`,
      "K-10241,1,2,3,0.5,true",
      ",1,2,3,0.5,false",
      "",
    ]);
  });
  it("finds the nearest threshold", () => {
    const at = (threshold: number) => ({ threshold }) as never;
    expect(nearest([at(0.05), at(0.8), at(0.85)], 0.84)).toBe(2);
  });
});
