/** The package as it is installed: each program of the README works in an empty directory. */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { BINARY, directory, environment, HERE } from "./support.js";

const home = directory();
const settings: Record<string, string> = { HOME: home, XDG_CONFIG_HOME: "" };
let dev: ChildProcess;

async function run(command: string, arguments_: string[], cwd = home): Promise<string> {
  const env = environment(command === "npm" ? {} : settings);
  return (await promisify(execFile)(command, arguments_, { cwd, env, timeout: 120_000 })).stdout;
}

/** Starts a program, and waits until it has said something that matches. */
async function start(command: string, arguments_: string[], said: RegExp, more: Record<string, string> = {}) {
  const child = spawn(command, arguments_, { cwd: home, env: environment({ ...settings, ...more }) });
  process.on("exit", () => child.kill("SIGKILL"));
  let text = "";
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`${command} ended: ${text}`)));
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        text += data;
        if (said.test(text)) resolve();
      });
    }
  });
  return child;
}

async function ended(child: ChildProcess): Promise<number | null> {
  const code = new Promise<number | null>((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  return code;
}

before(async () => {
  // The package is built already; the pack has what is in dist.
  const [packed] = JSON.parse(
    await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", home], HERE),
  );
  const zod = readFileSync(join(HERE, "package.json"), "utf8").match(/"zod": "(.*)"/)?.[1];
  writeFileSync(join(home, "package.json"), "{}");
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
  await run("npm", ["install", ...quiet, join(home, packed.filename), `zod@${zod}`]);
  const listen = ["--listen", "127.0.0.1:0", "--data-dir", "data", "--first-prompt", ""];
  dev = await start(BINARY, ["dev", "--simulated", ...listen], /signed in/);
});
after(() => ended(dev));

test("the programs of the README work", async () => {
  const blocks = [...readFileSync(join(HERE, "README.md"), "utf8").matchAll(/```js\n(.*?)```/gs)];
  for (const [index, name] of ["answer", "stream", "worker", "adder", "call"].entries()) {
    writeFileSync(join(home, `${name}.mjs`), blocks[index]?.[1] ?? "");
  }
  const began = performance.now();
  assert.ok((await run("node", ["answer.mjs"])).trim());
  // Nothing keeps the process alive behind its last line.
  assert.ok(performance.now() - began < 10_000);
  assert.ok((await run("node", ["stream.mjs"])).trim());
  writeFileSync(join(home, "tour.mjs"), readFileSync(join(HERE, ".test/examples/tour.js")));
  assert.match(await run("node", ["tour.mjs"]), /a reviewer takes longer/);
  writeFileSync(
    join(home, "worker.key"),
    await run(BINARY, ["keys", "create", "--name", "worker", "--role", "worker"]),
  );
  const { current } = JSON.parse(readFileSync(join(home, ".config/callboard/credentials.json"), "utf8"));
  const key = { CALLBOARD_API_KEY_FILE: "worker.key", CALLBOARD_SERVER: current };
  const worker = await start("node", ["worker.mjs"], /worker wrk_/, key);
  const submit = ["tasks", "submit", "say hello", "--model", "shout", "--queue", "loud", "--wait"];
  assert.match(await run(BINARY, submit), /SAY HELLO/);
  const adder = await start("node", ["adder.mjs"], /worker wrk_/, key);
  assert.equal((await run("node", ["call.mjs"])).trim(), "3");
  await ended(adder);
  const stopped = performance.now();
  assert.equal(await ended(worker), 0);
  assert.ok(performance.now() - stopped < 10_000);
});

test("the package holds the library alone", async () => {
  const [packed] = JSON.parse(await run("npm", ["pack", "--json", "--dry-run", "--ignore-scripts"], HERE));
  const others = packed.files.map((it: { path: string }) => it.path).filter((it: string) => !it.startsWith("dist/"));
  assert.deepEqual(others.sort(), ["README.md", "package.json"]);
});
