/** Schemas of libraries go to the server and come back as their values. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Callboard, errors, withJsonSchema } from "@callboard/client";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import { z } from "zod";
import { RunningWorker, Server } from "./support.js";

const server = new Server();
let cb: Callboard;
let worker: RunningWorker;

before(async () => {
  await server.start();
  cb = await server.client();
  worker = await RunningWorker.start(server, { concurrency: 32 });
});
after(async () => {
  await worker.stop();
  await server.end();
});

const Tree = z.object({
  name: z.string(),
  get children(): z.ZodArray<typeof Tree> {
    return z.array(Tree);
  },
});
const Shape = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("circle"), radius: z.number().positive() }),
  z.object({ kind: z.literal("square"), side: z.number() }),
]);

/** A schema of each kind, with an output under it. */
const KINDS: [z.ZodType, unknown][] = [
  [z.string().min(1).max(20), "text “é” 😀"],
  [z.email(), "a@example.com"],
  [z.url(), "https://example.com/a?b=c"],
  [z.uuid(), "123e4567-e89b-42d3-a456-426614174000"],
  [z.iso.date(), "2026-02-28"],
  [z.iso.datetime({ offset: true }), "2026-02-28T12:30:00+01:00"],
  [z.iso.datetime().transform((it) => new Date(it)), "2026-02-28T12:30:00Z"],
  [z.iso.time(), "12:30:00"],
  [z.ipv4(), "192.0.2.1"],
  [z.string().regex(/^\p{Lu}[a-z]+(?=!)!$/u), "Hello!"],
  [z.string().transform((it) => BigInt(it)), "12345678901234567890"],
  [z.string().regex(/^-?\d+\.\d{2}$/), "12.30"],
  [z.int().min(-5).max(5), -5],
  [z.number().multipleOf(0.01), 12.34],
  [z.boolean(), false],
  [z.null(), null],
  [z.enum(["red", "green"]), "green"],
  [z.literal([1, "one", true]), "one"],
  [z.union([z.string(), z.int()]), 7],
  [z.tuple([z.string(), z.int()]), ["a", 1]],
  [z.array(z.number()).min(1).max(3), [1.5, 2]],
  [z.record(z.string(), z.int()), { a: 1, "b c": 2 }],
  [z.strictObject({ a: z.string(), b: z.int().optional() }), { a: "x" }],
  [z.object({ a: z.string().default("none"), b: z.string().nullable() }), { b: null }],
  [z.object({ a: z.int() }).and(z.object({ b: z.int() })), { a: 1, b: 2 }],
  [Tree, { name: "root", children: [{ name: "leaf", children: [] }] }],
  [Shape, { kind: "circle", radius: 2 }],
  [
    z.object({ when: z.iso.date(), lines: z.array(z.object({ sum: z.number(), of: Shape })) }),
    {
      when: "2026-02-28",
      lines: [{ sum: 1, of: { kind: "square", side: 1 } }],
    },
  ],
];

/** Each kind within others. */
const AROUND: ((schema: z.ZodType, value: unknown) => [z.ZodType, unknown])[] = [
  (schema, value) => [schema, value],
  (schema, value) => [z.object({ it: schema, note: z.string().optional() }), { it: value }],
  (schema, value) => [z.array(schema), [value, value]],
  (schema, value) => [z.nullable(schema), value],
  (schema, value) => [z.union([schema, z.object({ none: z.literal(true) })]), value],
  (schema, value) => [z.record(z.string(), schema), { one: value, two: value }],
  (schema, value) => [z.tuple([schema, z.string()]), [value, "end"]],
  (schema, value) => [
    z.object({ a: z.object({ b: z.array(z.object({ it: schema })) }) }),
    { a: { b: [{ it: value }] } },
  ],
];

test("schemas of zod come back as their values", async () => {
  const cases = KINDS.flatMap(([schema, value]) => AROUND.map((around) => around(schema, value)));
  assert.ok(cases.length >= 200);
  await Promise.all(
    cases.map(async ([schema, value]) => {
      const json = JSON.stringify(value);
      const found = await cb.tasks.run(`say ${json}`, { schema }).catch((it) => assert.fail(`${json}: ${it}`));
      assert.deepEqual(found, schema.parse(value));
    }),
  );
});

test("the type of the output is that of the schema", async () => {
  const shape = await cb.tasks.run('say {"kind": "square", "side": 2}', { schema: Shape });
  const side: number = shape.kind === "square" ? shape.side : shape.radius;
  assert.equal(side, 2);
  const plain: unknown = await cb.tasks.run("say 2", { schema: { type: "integer" } });
  assert.equal(plain, 2);
});

test("schemas of other libraries do too", async () => {
  const schema = v.object({ name: v.string(), size: v.pipe(v.string(), v.transform(Number)) });
  const found = await cb.tasks.run('say {"name": "a", "size": "7"}', { schema: toStandardJsonSchema(schema) });
  const size: number = found.size;
  assert.deepEqual([found.name, size], ["a", 7]);
  await assert.rejects(cb.tasks.run("x", { schema }), /the schema of valibot tells no JSON Schema: .* withJsonSchema/);
  const json = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const given = await cb.tasks.run('say {"name": "a", "size": "8"}', { schema: withJsonSchema(schema, json) });
  assert.equal(given.size, 8);
  // The server has not checked what this JSON Schema leaves out.
  const refused = await cb.tasks.run('say {"name": "a"}', { schema: withJsonSchema(schema, json) }).catch((it) => it);
  assert.ok(refused instanceof errors.OutputMismatch && /size: /.test(refused.message));
  assert.equal(refused.output, '{"name": "a"}');
});
