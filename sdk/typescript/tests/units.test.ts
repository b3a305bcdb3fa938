/** Decisions without a server. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { errors, type Json, Plan, type Step, Template, webhooks } from "@callboard/client";
import { z } from "zod";
import { call, mayRepeat, pauseMs } from "#internal/call.js";
import { serverUrl } from "#internal/credentials.js";
import { requests } from "#internal/requests.js";
import { EventParser, Text } from "#internal/sse.js";
import { ROOT } from "./support.js";

const VECTORS = JSON.parse(readFileSync(join(ROOT, "docs/webhooks/vectors.json"), "utf8"));

test("webhooks are verified", async () => {
  const { secret } = VECTORS;
  for (const { body, headers, output } of VECTORS.vectors) {
    const now = Number(headers["webhook-timestamp"]) * 1000 + 299_000;
    const upper = Object.fromEntries(
      Object.entries(headers as Record<string, string>).map(([name, it]) => [name.toUpperCase(), it]),
    );
    for (const given of [upper, new Headers(headers)]) {
      const found = await webhooks.verify(secret, Buffer.from(body), given, { now });
      assert.deepEqual([found.output, found.delivery], [output, headers["webhook-id"]]);
    }
    assert.equal((await webhooks.verifyBody(secret, body)).output, output);
    const signatures = `v1,!!! v1a,AAAA ${headers["webhook-signature"]}`;
    await webhooks.verify(secret, body, { ...headers, "webhook-signature": signatures }, { now });
    const wrong = body.replace("completed", "complete!");
    for (const refused of [
      () => webhooks.verify(secret, wrong, headers, { now }),
      () => webhooks.verify(`${secret.slice(0, -4)}AAAA`, body, headers, { now }),
      () => webhooks.verify("hunter2!", body, headers, { now }),
      () => webhooks.verify(secret, body, { ...headers, "webhook-id": "dlv_0" }, { now }),
      () => webhooks.verify(secret, body, {}, { now }),
      () => webhooks.verify(secret, body, headers, { now: now + 2_000 }),
      () => webhooks.verify(secret, body, headers),
      () => webhooks.verifyBody(secret, wrong),
      () => webhooks.verifyBody(secret, "{}"),
    ])
      await assert.rejects(refused, errors.InvalidSignature);
  }
});

test("events are read however they are cut", () => {
  const text =
    ': hello\n\nid: e1\n\nevent: a\ndata: {"x":\ndata: "é\u2028😀"}\n\nid: e2\r\nevent: b\r\ndata: 1\r\n\r\n';
  const bytes = Buffer.from(text);
  for (let size = 1; size < bytes.length; size += 1) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...parser.feed(bytes.subarray(at, at + size)));
    assert.deepEqual(
      found.map((it) => [it.name, it.id, it.data]),
      [
        ["a", "e1", { x: "é\u2028😀" }],
        ["b", "e2", 1],
      ],
    );
  }
  const parser = new EventParser();
  assert.deepEqual([[...parser.feed(Buffer.from("id: e7\n\n"))], parser.lastId], [[], "e7"]);
  // The place of an event that was cut off is that of the one before.
  assert.deepEqual([[...parser.feed(Buffer.from("id: e8\ndata: 1\n"))], parser.lastId], [[], "e7"]);
  assert.deepEqual([[...parser.feed(Buffer.from("\n"))].length, parser.lastId], [1, "e8"]);
});

type Told = [string, Record<string, unknown>];
const told = (...events: Told[]) => {
  const text = new Text();
  return events.map(([name, data]) => text.next(name, data));
};
const delta = (offset: number, text: string): Told => ["delta", { offset, text }];
const snapshot = (output: string | null): Told => ["snapshot", { status: "running", output }];
const end = (output: string): Told => ["end", { status: "completed", output }];
const restart: Told = ["restart", { attempt: 2 }];

test("a text goes on over breaks", () => {
  assert.deepEqual(told(snapshot(null), delta(0, "ab"), delta(2, "c"), end("abc")), ["", "ab", "c", ""]);
  // Another connection shows more, as much, or less than was told; a piece may overlap.
  assert.deepEqual(told(delta(0, "ab"), snapshot("abcd"), delta(4, "e"), end("abcde")), ["ab", "cd", "e", ""]);
  assert.deepEqual(told(delta(0, "abc"), snapshot("ab"), delta(2, "cd"), end("abcd")), ["abc", "", "d", ""]);
  assert.deepEqual(told(delta(0, "abc"), delta(1, "bcd"), end("abcd")), ["abc", "d", ""]);
  // Pieces that were missed come with the end.
  assert.deepEqual(told(delta(0, "ab"), delta(3, "d"), end("abcd")), ["ab", "", "cd"]);
  assert.deepEqual(told(delta(0, "ab"), snapshot(null), end("abcd")), ["ab", "", "cd"]);
  // The offsets count characters, of which 😀 is one, and not units of UTF-16.
  assert.deepEqual(told(delta(0, "😀é"), delta(2, "b"), delta(2, "b😀c"), end("😀éb😀cd")), ["😀é", "b", "😀c", "d"]);
  assert.deepEqual(told(delta(0, "😀b"), snapshot("😀"), delta(1, "bc"), end("😀bc")), ["😀b", "", "c", ""]);
});

test("another attempt is void only if it differs", () => {
  assert.deepEqual(told(delta(0, "ab"), restart, delta(0, "a"), delta(1, "bc"), end("abc")), ["ab", "", "", "c", ""]);
  assert.deepEqual(told(delta(0, "ab"), restart, delta(0, "x")), ["ab", "", undefined]);
  assert.deepEqual(told(restart, delta(0, "x"), end("x")), ["", "x", ""]);
  // A reviewer's text in its place.
  assert.deepEqual(told(delta(0, "ab"), end("a")), ["ab", undefined]);
  assert.deepEqual(told(delta(0, "ab"), end("xyz")), ["ab", undefined]);
});

test("a request is repeated only where that is safe", () => {
  const refusal = { code: "", details: {}, requestId: undefined, retryable: true, retryAfterMs: undefined };
  const refused = new errors.Unavailable("x", { ...refusal, status: 503, retryAfterMs: 2_000 });
  const limited = new errors.RateLimited("x", { ...refusal, status: 429 });
  const broken = new errors.ServerUnreachable("x", { cause: { code: "ECONNRESET" } });
  const away = new errors.ServerUnreachable("x", { cause: { cause: { errors: [{ code: "ECONNREFUSED" }] } } });
  const failures = [refused, limited, broken, away];
  const get = call("GET", "/");
  const post = call("POST", "/");
  const keyed = call("POST", "/", { key: { value: undefined } });
  for (const error of failures) assert.ok(mayRepeat(get, error) && mayRepeat(keyed, error));
  assert.deepEqual(
    failures.map((it) => mayRepeat(post, it)),
    [false, true, false, true],
  );
  assert.equal(pauseMs(0, refused), 2_000);
  assert.equal(
    pauseMs(0, new errors.Unavailable("x", { ...refusal, status: 503, retryAfterMs: 3_600_000 })),
    undefined,
  );
  assert.equal(pauseMs(0, new errors.NotFound("x", { ...refusal, status: 404, retryable: false })), undefined);
  const longest = pauseMs(90, broken) ?? 0;
  assert.ok(7_000 < longest && longest <= 12_000);
  assert.notEqual(
    keyed.headers["Idempotency-Key"],
    call("POST", "/", { key: { value: undefined } }).headers["Idempotency-Key"],
  );
});

test("a name cannot leave its place", () => {
  const { path } = call("GET", "/api/queues/{name}", {
    names: { name: "a/../b?c=ä" } as never,
    query: { tags: ["a b", "c"], no: undefined },
  });
  assert.equal(path, "/api/queues/a%2F..%2Fb%3Fc%3D%C3%A4?tags=a%20b%2Cc");
});

test("addresses are read as the command line does", () => {
  for (const text of ["http://H:80", "http://h/", "http://h/api", " http://h/api/ "])
    assert.equal(serverUrl(text).href, "http://h/");
  assert.equal(serverUrl("https://h/board/api/").href, "https://h/board");
  for (const bad of ["h:8080", "", "ftp://h", "http://h?x=1", "http://u:hunter2@h", "https://h/?api_key=hunter2"]) {
    assert.throws(
      () => serverUrl(bad),
      (it: Error) => it instanceof errors.ConfigurationError && !it.message.includes("hunter2"),
    );
  }
});

test("a mistake in a plan is found before it is sent", () => {
  const refused = (message: RegExp, build: (plan: Plan) => void) =>
    assert.throws(
      () => {
        const plan = new Plan("p");
        build(plan);
        plan.body();
      },
      (it: Error) => it instanceof errors.InvalidArgument && message.test(it.message),
    );
  refused(/the step a exists/, (it) => [it.step("a", "x"), it.step("a", "x")]);
  refused(/depends on b, which is no step/, (it) => it.step("a", "x", { dependsOn: ["b"] }));
  refused(/reads the output of a: name it/, (it) => [it.step("a", "x"), it.step("b", "{{ a.output.x }}")]);
  refused(/reads the output of c, which is no step/, (it) => it.step("b", "x", { condition: "{{c.output}} == 1" }));
  refused(/reads the output of d, which is no step/, (it) =>
    it.step("b", "x", { forEach: { one: "{{d.output}}" }, maxItems: 3 }),
  );
  refused(/a, b wait for each other/, (it) => [
    it.step("a", "x", { dependsOn: ["b"] }),
    it.step("b", "x", { dependsOn: ["a"] }),
  ]);
  refused(/StepRequest: id: must match/, (it) => it.step("A", "x"));
  refused(/temperature: must be at most/, (it) => it.step("a", "x", { temperature: 3 }));
  refused(/maxToken: is unknown/, (it) => it.step("a", "x", { maxToken: 1 } as object));
  refused(/steps: must be at least 1 items/, () => {});
  const plan = new Plan("p");
  const step: Step = plan.step("a", '{{"{{b.output}}"}} {{input.x}} {{item.output}}', {
    forEach: "{{input.rows}}",
    maxItems: 3,
  });
  plan.step("c", `${step.output} {{row.output}}`, { dependsOn: [step], forEach: { row: step.output }, maxItems: 3 });
  assert.equal((plan.body().steps as { forEach: string }[])[0]?.forEach, "{{input.rows}}");
});

test("the patterns of requests are those of JavaScript too", () => {
  const patterns = JSON.stringify(requests).match(/"pattern":"(?:[^"\\\\]|\\\\.)*"/g) ?? [];
  assert.ok(patterns.length > 5);
  for (const it of patterns) new RegExp(JSON.parse(`{${it}}`).pattern, "u");
});

test("a template takes schemas of a library", () => {
  const input = z.object({ text: z.string() });
  const template = new Template("t", { version: "1.0.0", input, output: z.array(z.int()), hitl: { sampleRate: 0.5 } });
  template.step("a", "x", { schema: input, retry: { maxAttempts: 2 } });
  const body = template.body() as Json;
  assert.deepEqual(
    [body.inputSchema.required, body.outputSchema.type, body.hitl],
    [["text"], "array", { sampleRate: 0.5 }],
  );
  assert.deepEqual(body.steps[0].retry, { maxAttempts: 2 });
  assert.throws(() => new Template("t", { version: "1", input }).body(), /version/);
});
