/** What is generated is fresh, and the interface is whole. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import * as library from "@callboard/client";
import { Worker } from "@callboard/client/worker";
import { byCode } from "#internal/errors.js";
import { directory, HERE, ROOT, Server } from "./support.js";

const server = new Server();
const read = (path: string) => readFileSync(path, "utf8");
let document: library.Json;

before(async () => {
  await server.start();
  document = await new library.Callboard({ server: server.url, apiKey: "none" }).system.openapi();
});
after(() => server.end());

test("the generated parts are those of the server", () => {
  const path = join(directory(), "openapi.json");
  writeFileSync(path, JSON.stringify(document));
  const check = process.env.CALLBOARD_WRITE_GOLDEN ? [] : ["--check"];
  execFileSync(process.execPath, [join(HERE, "generate.mjs"), ...check, path], { stdio: "inherit" });
});

test("every route has a method, and every method exists", () => {
  const page = read(join(ROOT, "docs/reference/libraries.md"));
  const rows = new Map(
    [...page.matchAll(/^\| `(\w+ \S+)` \| [^|]* \| ([^|]*) \| [^|]* \|$/gm)].map(([, route, cell]) => [
      route,
      cell ?? "",
    ]),
  );
  const routes = Object.entries<object>(document.paths).flatMap(([path, it]) =>
    Object.keys(it)
      .filter((method) => method !== "parameters")
      .map((method) => `${method.toUpperCase()} ${path}`),
  );
  assert.deepEqual([...rows.keys()].sort(), routes.sort());
  assert.deepEqual(
    [...rows].filter(([, cell]) => cell.includes("MISSING")),
    [],
  );
  const cb = new library.Callboard({ server: server.url, apiKey: "none" });
  for (const cell of rows.values()) {
    for (const [, name = ""] of cell.matchAll(/`cb\.([\w.]+)`/g)) {
      const found = name.split(".").reduce((it: library.Json, part) => it[part], cb);
      assert.equal(typeof found, "function", name);
    }
  }
});

test("every code has a class", () => {
  const [answers = ""] = read(join(ROOT, "docs/reference/errors.md")).split("## Rules");
  const rows = [...answers.matchAll(/^\| \d{3} \| (.*?) \|/gm)];
  const codes = rows.flatMap(([, cell = ""]) => [...cell.matchAll(/`(\w+)`/g)].map((it) => it[1] ?? ""));
  assert.deepEqual(codes.sort(), [...byCode.keys()].sort());
});

test("every error has its name, also in a minified program", () => {
  const classes = Object.entries(library.errors).filter(([, it]) => typeof it === "function");
  assert.deepEqual(
    classes.map(([, it]) => (it as typeof Error).prototype.name),
    classes.map(([name]) => name),
  );
});

test("the client needs nothing of Node.js in a browser", () => {
  const seen = new Set<string>();
  const visit = (name: string) => {
    if (seen.has(name)) return;
    seen.add(name);
    const text = read(join(HERE, "dist", name));
    assert.doesNotMatch(text, /\b(process|Buffer|global|setImmediate)[.(]/, name);
    for (const [, from = ""] of text.matchAll(/^(?:import|export) .*?from "(.*?)";$/gm)) {
      visit(from === "#platform" ? "platform.browser.js" : from.replace("./", ""));
    }
  };
  visit("index.js");
  assert.ok(seen.size > 15 && !seen.has("worker.js"));
});

test("the README has the examples", () => {
  const blocks = [...read(join(HERE, "README.md")).matchAll(/```js\n(.*?)```/gs)].map((it) => it[1]);
  const examples = ["answer", "stream", "worker", "adder", "call"].map((it) => read(join(HERE, `examples/${it}.ts`)));
  assert.deepEqual(blocks, examples);
});

test("the version is that of the package", () => {
  assert.equal(JSON.parse(read(join(HERE, "package.json"))).version, library.VERSION);
});

test("a key is in no text", async () => {
  const apiKey = "svc_admin_hunter2";
  const cb = new library.Callboard({ server: server.url, apiKey });
  const worker = new Worker({ server: server.url, apiKey }).model("*", () => "");
  const refused = await cb.tasks
    .list()
    .total()
    .catch((it) => it);
  assert.ok(refused instanceof library.errors.Unauthorized);
  for (const it of [cb, worker, refused]) {
    assert.ok(!inspect(it, { depth: 9, showHidden: true }).includes("hunter2"), inspect(it, { depth: 9 }));
    assert.ok(!JSON.stringify(it).includes("hunter2"));
  }
});
