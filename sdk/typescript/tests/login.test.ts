/** The login of the command line. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { Callboard, errors, type Fetch } from "@callboard/client";
import { Worker } from "@callboard/client/worker";
import { directory, EMAIL, PASSWORD, Server } from "./support.js";

const server = new Server();
let path = "";
const stored = () => JSON.parse(readFileSync(path, "utf8"));
const change = (members: Record<string, string>) => {
  const logins = stored();
  Object.assign(logins.logins[server.url], members);
  writeFileSync(path, JSON.stringify(logins), { mode: 0o600 });
};

before(async () => {
  await server.start();
  for (const name of Object.keys(process.env).filter((it) => it.startsWith("CALLBOARD_"))) delete process.env[name];
});
after(() => server.end());

beforeEach(async () => {
  process.env.XDG_CONFIG_HOME = directory();
  path = join(process.env.XDG_CONFIG_HOME, "callboard/credentials.json");
  const cb = new Callboard({ server: server.url, apiKey: "none" });
  const { token, refreshToken, expiresAt } = await cb.sessions.logIn(EMAIL, PASSWORD);
  mkdirSync(dirname(path));
  const login = { email: EMAIL, role: "admin", token, refreshToken, expiresAt };
  const logins = { current: server.url, logins: { [server.url]: login, "http://other": {} } };
  writeFileSync(path, JSON.stringify(logins), { mode: 0o600 });
});

const who = async (cb: Callboard) => (await cb.sessions.who()).user.email;

test("the login is used", async () => {
  assert.equal(await who(new Callboard()), EMAIL);
  assert.throws(() => new Worker(), /a worker needs a key/);
});

test("a login is renewed once by many", async () => {
  const earlier = stored().logins[server.url].refreshToken;
  change({ expiresAt: "2026-01-01T00:00:00.000Z" });
  let renewals = 0;
  const counted: Fetch = (input, init) => {
    if (input.endsWith("/api/auth/refresh")) renewals += 1;
    return fetch(input, init);
  };
  const clients = Array.from({ length: 4 }, () => new Callboard({ fetch: counted }));
  const names = await Promise.all([...clients, ...clients].map(who));
  assert.deepEqual(new Set(names), new Set([EMAIL]));
  assert.equal(renewals, 1);
  const { current, logins } = stored();
  assert.notEqual(logins[server.url].refreshToken, earlier);
  assert.deepEqual([logins["http://other"], current], [{}, server.url]);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("a refused token is renewed", async () => {
  const token = `${stored().logins[server.url].token.slice(0, -3)}AAA`;
  change({ token });
  const cb = new Callboard();
  await cb.tasks.list().total();
  assert.notEqual(stored().logins[server.url].token, token);
  change({ token });
  assert.ok(await new Callboard().cursor());
});

test("a login that ended says what to do", async () => {
  change({ expiresAt: "2026-01-01T00:00:00Z", refreshToken: "used" });
  const ended = await new Callboard().tasks
    .list()
    .total()
    .catch((it) => it);
  assert.ok(ended instanceof errors.ConfigurationError && /callboard auth login/.test(ended.message));
});

test("without flock(1), the error says what to do", async () => {
  change({ expiresAt: "2026-01-01T00:00:00Z" });
  const { PATH } = process.env;
  process.env.PATH = directory();
  try {
    await assert.rejects(new Callboard().tasks.list().total(), /flock\(1\) of util-linux cannot be run/);
  } finally {
    process.env.PATH = PATH;
  }
});
