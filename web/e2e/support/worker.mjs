// A worker under the control of a scenario. It answers a task by the JSON of its prompt, if the prompt is JSON:
// {"say": text, "confidence": 0..1, "after": ms, "deltas": [text], "fail": message, "hang": true}; else it
// answers with the prompt. `answer` may give that order for a task instead, so that its prompt is as people write.
import WebSocket from "ws";

export async function startWorker(
  server,
  { concurrency = 50, queues = ["default"], name = "scenario", answer } = {},
) {
  const { key } = await server.call("POST", "/api/auth/keys", { name, role: "worker" });
  const worker = new Worker(server, key, { concurrency, queues, name, answer });
  await worker.connect();
  return worker;
}

class Worker {
  #socket;
  #beat;
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
    for (const text of order.deltas ?? []) {
      this.send({ type: "delta", lease, text });
      await pause(order.every ?? 50);
    }
    if (order.after) await pause(order.after);
    if (order.hang || !this.leases.delete(lease)) return;
    if (order.fail) {
      const error = { code: "PROVIDER_ERROR", message: order.fail };
      return this.send({ type: "fail", lease, error, retryable: false });
    }
    const output = order.say ?? task.prompt;
    const { confidence } = order;
    const source = confidence === undefined ? {} : { confidence, confidenceSource: "reported" };
    this.send({
      type: "complete",
      lease,
      output,
      usage: order.usage ?? { input: 12, output: 34 },
      finishReason: "stop",
      ...source,
    });
  }

  stop() {
    clearInterval(this.#beat);
    this.#socket.terminate();
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
