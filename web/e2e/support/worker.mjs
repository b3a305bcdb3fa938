// A worker under the control of a scenario. It answers a task by the JSON of its prompt, if the prompt is JSON:
// {"say": text, "confidence": 0..1, "fail": message, "hold": true, "hang": true}, a failure with "code", "retryable"
// and "retryAfterMs" if it is to have them; else it answers with the prompt.
// `answer` may give that order for a task instead, so that its prompt is as people write. A task that is held is
// answered once the scenario releases its step; one that hangs is answered only by `complete`.
import WebSocket from "ws";
import { until } from "./wait.mjs";

export async function startWorker(
  server,
  { concurrency = 50, queues = ["default"], name = "scenario", answer, project } = {},
) {
  const of = project ? `?project=${project}` : "";
  const { key } = await server.call("POST", `/api/auth/keys${of}`, { name, role: "worker" });
  const worker = new Worker(server, key, { concurrency, queues, name, answer });
  await worker.connect();
  return worker;
}

class Worker {
  #socket;
  #beat;
  #gates = new Map();
  leases = new Map();
  asked = [];

  constructor(server, key, options) {
    Object.assign(this, { server, key, options });
  }

  connect() {
    const url = `${this.server.url.replace("http", "ws")}/api/workers/connect`;
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${this.key}` } });
    this.#socket = socket;
    const { concurrency, queues, name } = this.options;
    return new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("open", () =>
        this.send({ type: "register", name, version: "0", queues, models: ["*"], concurrency }),
      );
      socket.on("message", (text) => {
        const frame = JSON.parse(text);
        if (frame.type === "registered") {
          this.id = frame.workerId;
          this.#beat = setInterval(
            () => this.send({ type: "heartbeat", leases: [...this.leases.keys()] }),
            2000,
          );
          resolve();
        }
        if (frame.type === "assign") void this.work(frame);
        if (frame.type === "cancel") this.leases.delete(frame.lease);
      });
      socket.on("close", () => clearInterval(this.#beat));
    });
  }

  send(frame) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  async work({ lease, task }) {
    this.leases.set(lease, task);
    this.asked.push(task);
    let order = this.options.answer?.(task) ?? {};
    try {
      order = JSON.parse(task.prompt.split("\n\nFeedback:")[0]);
    } catch {
      // The prompt itself is the answer.
    }
    if (typeof order !== "object" || order === null) order = {};
    if (order.hold) await this.#gate(task.stepId).opened;
    if (order.hang || !this.leases.has(lease)) return;
    if (order.fail) {
      this.leases.delete(lease);
      const { code = "PROVIDER_ERROR", retryable = false, retryAfterMs } = order;
      const error = { code, message: order.fail };
      return this.send({ type: "fail", lease, error, retryable, retryAfterMs });
    }
    this.complete(lease, { ...order, say: order.say ?? task.prompt });
  }

  complete(lease, { say, confidence, usage = { input: 12, output: 34 } }) {
    this.leases.delete(lease);
    const source = confidence === undefined ? {} : { confidence, confidenceSource: "reported" };
    this.send({ type: "complete", lease, output: say, usage, finishReason: "stop", ...source });
  }

  /** Answers the task of a step that is held, now or once it comes. */
  release(step) {
    this.#gate(step).open();
  }

  #gate(step) {
    if (!this.#gates.has(step)) {
      const gate = {};
      gate.opened = new Promise((open) => {
        gate.open = open;
      });
      this.#gates.set(step, gate);
    }
    return this.#gates.get(step);
  }

  /** The lease of its only task, once it has one. */
  lease() {
    return until(() => [...this.leases.keys()][0], "a lease");
  }

  stop() {
    clearInterval(this.#beat);
    this.#socket.terminate();
  }
}
