// The real server, on a fresh directory, for the scenarios.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { until } from "./wait.mjs";

export const ADMIN = { email: "ada@example.com", password: "correct horse battery staple" };
const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../target", import.meta.url));
export const program = process.env.CALLBOARD_BIN ?? join(target, "debug", "callboard");

/** Starts `callboard serve` with an admin. Settings are like `{ WORKER__LEASE: "2s" }`; `env` is for the system. */
export async function startServer(settings = {}, { admin = true, command = ["serve"], env = {} } = {}) {
  const directory = await mkdtemp(join(tmpdir(), "callboard-web-"));
  const server = new Server(directory, settings, admin, command, env);
  await server.start();
  return server;
}

class Server {
  #child;
  #port = 0;
  // The server closes what is idle for ten seconds: no request may meet that.
  #agent = new Agent({ keepAlive: true, timeout: 1_000 });
  lines = [];

  constructor(directory, settings, admin, command, env) {
    Object.assign(this, { directory, settings, admin, command, env });
  }

  /** Starts it, or starts it again, on the same port and directory. */
  async start() {
    const env = { PATH: process.env.PATH, HOME: this.directory, CALLBOARD_LOG: "warn", ...this.env };
    env.CALLBOARD_LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE = "1000000";
    if (this.admin) {
      env.CALLBOARD_ADMIN_EMAIL = ADMIN.email;
      env.CALLBOARD_ADMIN_PASSWORD = ADMIN.password;
    }
    for (const [name, value] of Object.entries(this.settings)) env[`CALLBOARD_${name}`] = value;
    const at = ["--listen", `127.0.0.1:${this.#port}`, "--data-dir", join(this.directory, "data")];
    const child = spawn(program, [...this.command, ...at], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.log = "";
    child.stderr.on("data", (text) => {
      this.log += text;
    });
    const lines = createInterface({ input: child.stdout });
    this.lines = [];
    await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`the server ended: ${this.log}`)));
      lines.on("line", (line) => {
        this.lines.push(line);
        const url = /^listening on (http:\S+)/.exec(line)?.[1];
        if (!url) return;
        this.url = url;
        this.#port = Number(new URL(url).port);
        resolve();
      });
    });
  }

  /** Waits for a line of its standard output. */
  line(pattern) {
    const found = () => this.lines.map((line) => pattern.exec(line)).find(Boolean);
    return until(found, () => `a line like ${pattern} in ${this.lines.join("\n")}`);
  }

  /** SIGKILL, and nothing else. */
  async kill() {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    this.#agent.destroy();
    child.kill("SIGKILL");
    await gone;
  }

  async stop() {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** A call of the API as the admin, or with a token; returns `data`, throws on a refusal. */
  async call(method, path, body, token) {
    const answer = await this.answer(method, path, body, token);
    if (!answer.success) throw new Error(`${method} ${path}: ${JSON.stringify(answer.error)}`);
    return answer.data;
  }

  /** The same with the whole envelope, refused or not. `fetch` would take three times the processor. */
  async answer(method, path, body, token) {
    const bearer = token ?? (await this.token());
    const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const call = request(this.url + path, { method, headers, agent: this.#agent });
      call.on("response", (response) => json(response).then(resolve, reject));
      call.on("error", reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async token(user = ADMIN) {
    this.tokens ??= new Map();
    if (!this.tokens.has(user.email)) {
      const response = await fetch(`${this.url}/api/auth/login`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(user),
      });
      const { data } = await response.json();
      this.tokens.set(user.email, data.token);
    }
    return this.tokens.get(user.email);
  }

  /** Makes a user of this role. */
  async user(role, email = `${role}@example.com`) {
    const user = { email, password: "correct horse battery staple" };
    await this.call("POST", "/api/auth/users", { ...user, role, name: role });
    return user;
  }

  /** Waits until a call of the API gives something. */
  until(read, what = "it") {
    return until(() => read(this), what);
  }
}
