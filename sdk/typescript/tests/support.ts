/** A real server, a worker, and a proxy that cuts connections. */
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server as Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Callboard, type ClientOptions } from "@callboard/client";
import { Failure, type Result, type Task, Worker, type WorkerOptions } from "@callboard/client/worker";

export const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
export const HERE = fileURLToPath(new URL("../../", import.meta.url));
export const BINARY = process.env.CALLBOARD_BIN ?? join(ROOT, "target/debug/callboard");
export const EMAIL = "admin@example.com";
export const PASSWORD = "correct horse battery staple 9";
const PATIENCE_MS = 30_000;

export type Role = "admin" | "operator" | "viewer" | "worker";

/** The environment without the settings of the person who runs the tests. */
export function environment(more: Record<string, string>): Record<string, string | undefined> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("CALLBOARD_"));
  return { ...Object.fromEntries(own), ...more };
}

/** A directory that is removed at the end of the process. */
export function directory(): string {
  const path = mkdtempSync(join(tmpdir(), "callboard-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** `callboard serve` with a data directory of its own. */
export class Server {
  readonly directory = directory();
  url = "";
  #listen = "127.0.0.1:0";
  #process: ChildProcess | undefined;
  readonly #keys = new Map<string, Promise<string>>();

  constructor(private readonly settings: Record<string, string> = {}) {
    // The end of the tests, however they end, is that of the server.
    process.on("exit", () => this.#process?.kill("SIGKILL"));
  }

  async start(): Promise<this> {
    const { directory: home } = this;
    const admin = { CALLBOARD_ADMIN_EMAIL: EMAIL, CALLBOARD_ADMIN_PASSWORD: PASSWORD, HOME: home };
    const child = spawn(BINARY, ["serve", "--listen", this.#listen, "--data-dir", join(home, "data")], {
      cwd: home,
      env: environment({ ...admin, ...this.settings }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let log = "";
    child.stderr.on("data", (data) => {
      log += data;
      appendFileSync(join(home, "log"), data);
    });
    for await (const line of createInterface(child.stdout)) {
      this.url = /http:\/\/\S+/.exec(line)?.[0] ?? "";
      break;
    }
    child.stdout.resume();
    if (this.url === "") throw new Error(`the server did not start: ${log.slice(-2000)}`);
    this.#listen = this.url.replace("http://", "");
    return this;
  }

  get address(): { host: string; port: number } {
    const [host = "", port] = this.#listen.split(":");
    return { host, port: Number(port) };
  }

  async end(signal: "SIGKILL" | "SIGTERM" = "SIGTERM"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  /** A key of this role: the same one each time, because a sign-in is slow on purpose. */
  key(role: Role): Promise<string> {
    let key = this.#keys.get(role);
    if (!key) {
      key = this.#made(role);
      this.#keys.set(role, key);
    }
    return key;
  }

  async #made(role: Role): Promise<string> {
    if (role !== "admin") return (await (await this.client()).keys.create({ name: role, role })).key;
    const { token } = await new Callboard({ server: this.url, apiKey: "none" }).sessions.logIn(EMAIL, PASSWORD);
    return (await new Callboard({ server: this.url, apiKey: token }).keys.create({ name: role, role })).key;
  }

  async client(options: ClientOptions & { role?: Role } = {}): Promise<Callboard> {
    const { role = "admin", ...rest } = options;
    return new Callboard({ server: this.url, apiKey: await this.key(role), ...rest });
  }
}

/** A worker that runs beside the test. It keeps the prompts that it ran. */
export class RunningWorker {
  readonly ran: string[] = [];
  /** The number of those that ended. */
  finished = 0;
  /** Lets tasks end whose prompt begins with `hold`. */
  go = false;
  readonly ended: Promise<void>;

  private constructor(readonly worker: Worker) {
    worker.model("*", (task) => this.#answer(task));
    this.ended = worker.serve();
    // The test reads it at its end.
    this.ended.catch(() => {});
  }

  static async start(server: Server, options: WorkerOptions = {}): Promise<RunningWorker> {
    const apiKey = await server.key("worker");
    const quiet = { name: "test", graceMs: 5_000, concurrency: 8, log: () => {} };
    return new RunningWorker(new Worker({ server: server.url, apiKey, ...quiet, ...options }));
  }

  /** `say X` answers X; `stream X` word by word; `hold X` after `go`; `fail` fails. */
  async *#answer(task: Task): AsyncGenerator<string, Result> {
    this.ran.push(task.prompt);
    const [, kind, text = ""] = /^(\S+) ?(.*)$/s.exec(task.prompt) ?? [];
    if (kind === "fail") throw new Failure("as asked", { retryable: false });
    if (kind === "hold" || kind === "stream") {
      for (const word of text.match(/\S+\s*/g) ?? []) {
        yield word;
        while (kind === "hold" && !this.go && !task.signal.aborted) await sleep(10);
      }
    } else yield text;
    this.finished += 1;
    return { usage: { input: 3, output: 4 }, confidence: 0.5, finishReason: "stop" };
  }

  async stop(): Promise<void> {
    this.go = true;
    this.worker.stop();
    await this.ended;
  }
}

/** Waits for a state, and returns it. */
export async function until<T>(reached: () => T | Promise<T>, patienceMs = PATIENCE_MS): Promise<NonNullable<T>> {
  const end = performance.now() + patienceMs;
  for (;;) {
    const found = await reached();
    if (found) return found as NonNullable<T>;
    if (performance.now() > end) throw new Error(`it did not come in time: ${reached}`);
    await sleep(20);
  }
}

/** Passes connections on to a server: slowly, cut after some bytes of the answers, or not at all. */
export class CutProxy {
  /** The bytes of the answer after which the next connection is cut, once. */
  cutAfter: number | undefined;
  /** The time before each piece of an answer. */
  pauseMs = 0;
  refuse = false;
  cuts = 0;
  url = "";
  readonly #live = new Set<Socket>();
  readonly #listener: Listener;

  constructor(private readonly server: Server) {
    this.#listener = createServer((client) => this.#pass(client));
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#listener.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
    return this;
  }

  #pass(client: Socket): void {
    if (this.refuse) return void client.destroy();
    const there = connect(this.server.address);
    let passed = 0;
    const end = () => {
      client.destroy();
      there.destroy();
    };
    for (const it of [client, there]) {
      this.#live.add(it);
      it.on("error", () => {});
      it.on("close", () => {
        this.#live.delete(it);
        end();
      });
    }
    client.on("data", (piece) => there.write(piece));
    there.on("data", async (piece: Buffer) => {
      if (this.pauseMs > 0) {
        there.pause();
        await sleep(this.pauseMs);
        there.resume();
      }
      if (this.cutAfter !== undefined && passed + piece.length > this.cutAfter) {
        client.write(piece.subarray(0, this.cutAfter - passed), end);
        this.cutAfter = undefined;
        this.cuts += 1;
      } else client.write(piece);
      passed += piece.length;
    });
  }

  /** Cuts every connection. */
  cut(): void {
    for (const it of this.#live) it.destroy();
  }

  close(): void {
    this.#listener.close();
    this.cut();
  }
}

/** All that an iterable gives. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const it of items) found.push(it);
  return found;
}

/** The first that an iterable gives. */
export async function first<T>(items: AsyncIterable<T>): Promise<T> {
  for await (const it of items) return it;
  throw new Error("there is none");
}
