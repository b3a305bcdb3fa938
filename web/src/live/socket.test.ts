import { beforeEach, expect, test } from "vitest";
import { LiveSocket } from "./socket";

/** A clock that the test moves. */
class Clock {
  now = 0;
  private waiting = new Map<number, { at: number; run: () => void }>();
  private last = 0;
  set = (run: () => void, ms: number) => {
    this.waiting.set(++this.last, { at: this.now + ms, run });
    return this.last;
  };
  clear = (id: number) => void this.waiting.delete(id);
  pass(ms: number) {
    const end = this.now + ms;
    for (;;) {
      const due = [...this.waiting].filter(([, it]) => it.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.waiting.delete(due[0]);
      this.now = due[1].at;
      due[1].run();
    }
    this.now = end;
  }
}

class FakeSocket {
  sent: Record<string, unknown>[] = [];
  onmessage?: (message: { data: string }) => void;
  onclose?: () => void;
  onerror?: () => void;
  isClosed = false;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.isClosed = true;
  }
  says(frame: object) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
}

let clock: Clock;
let sockets: FakeSocket[];
let live: LiveSocket;
const latest = () => sockets.at(-1) as FakeSocket;
const ready = () => latest().says({ type: "ready", heartbeatMs: 30_000 });
const event = (cursor: string, prev: string | null) => ({
  type: "event",
  sub: "s1",
  cursor,
  prev,
  event: "hitl.pending",
  at: "",
  resource: { kind: "hitl", id: "x" },
  data: {},
});

beforeEach(() => {
  clock = new Clock();
  sockets = [];
  const open = () => {
    const socket = new FakeSocket();
    sockets.push(socket);
    return socket as unknown as WebSocket;
  };
  live = new LiveSocket("ws://x/ws", open, clock, () => 0.5);
});

test("a subscription is asked for once the server is ready, and once for all who want the same", () => {
  live.start();
  const heard: string[] = [];
  live.subscribe(["hitl.*"], undefined, () => heard.push("a"));
  live.subscribe(["hitl.*"], undefined, () => heard.push("b"));
  expect(latest().sent).toEqual([]);
  ready();
  expect(latest().sent).toEqual([{ type: "subscribe", sub: "s1", events: ["hitl.*"] }]);
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: false });
  latest().says(event("e2", "e1"));
  expect(heard).toEqual(["a", "b"]);
  expect(live.connection()).toBe("live");
});

test("a lost connection is made again and resumes after the last event", () => {
  live.start();
  let losses = 0;
  live.onLoss(() => losses++);
  live.subscribe(["hitl.*"], undefined, () => {});
  ready();
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: false });
  latest().says(event("e2", "e1"));
  latest().onclose?.();
  expect(live.connection()).toBe("reconnecting");
  clock.pass(1_000);
  expect(sockets.length).toBe(2);
  ready();
  expect(latest().sent).toEqual([{ type: "subscribe", sub: "s1", events: ["hitl.*"], resume: "e2" }]);
  latest().says({ type: "subscribed", sub: "s1", cursor: "e2", resumed: true });
  expect(losses).toBe(0);
  expect(live.connection()).toBe("live");
});

test("the first subscribed says that a topic has begun, later ones and later listeners do not", () => {
  live.start();
  const begun: string[] = [];
  const listen = (name: string) =>
    live.subscribe(
      ["hitl.*"],
      undefined,
      () => {},
      () => begun.push(name),
    );
  listen("a");
  listen("b");
  ready();
  expect(begun).toEqual([]);
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: false });
  expect(begun).toEqual(["a", "b"]);
  listen("c");
  latest().onclose?.();
  clock.pass(1_000);
  ready();
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: true });
  expect(begun).toEqual(["a", "b"]);
});

test("what cannot be resumed, a gap and a hole are losses", () => {
  live.start();
  let losses = 0;
  live.onLoss(() => losses++);
  live.subscribe(["hitl.*"], undefined, () => {});
  ready();
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: false });
  expect(losses).toBe(0);
  latest().says(event("e5", "e4"));
  expect(losses).toBe(1);
  latest().says({ type: "gap", sub: "s1", from: "e5", to: "e9", reason: "slow" });
  expect(losses).toBe(2);
  latest().onclose?.();
  clock.pass(1_000);
  ready();
  expect(latest().sent[0]).toMatchObject({ resume: "e9" });
  latest().says({ type: "subscribed", sub: "s1", cursor: "e20", resumed: false });
  expect(losses).toBe(3);
});

test("a socket that dies in silence is noticed", () => {
  live.start();
  ready();
  clock.pass(15_000);
  expect(latest().sent).toEqual([{ type: "ping" }]);
  latest().says({ type: "pong" });
  clock.pass(15_000);
  clock.pass(5_000);
  expect(live.connection()).toBe("reconnecting");
  expect(sockets[0]?.isClosed).toBe(true);
  clock.pass(1_000);
  expect(sockets.length).toBe(2);
});

test("after twenty seconds without a connection what is shown is stale, and it is tried on", () => {
  live.start();
  ready();
  for (let second = 0; second < 25; second++) {
    if (!latest().isClosed) latest().onclose?.();
    clock.pass(1_000);
  }
  expect(live.connection()).toBe("stale");
  clock.pass(15_000);
  ready();
  expect(live.connection()).toBe("live");
});

test("a topic that nobody uses is given up after a while, not between two pages", () => {
  live.start();
  const stop = live.subscribe(["hitl.*"], undefined, () => {});
  ready();
  stop();
  clock.pass(1_000);
  const again = live.subscribe(["hitl.*"], undefined, () => {});
  clock.pass(5_000);
  expect(latest().sent.length).toBe(1);
  again();
  clock.pass(3_000);
  expect(latest().sent.at(-1)).toEqual({ type: "unsubscribe", sub: "s1" });
});

test("who listens again to a kept topic reads again what came meanwhile", () => {
  live.start();
  const stop = live.subscribe(["hitl.*"], undefined, () => undefined);
  ready();
  latest().says({ type: "subscribed", sub: "s1", cursor: "e1", resumed: false });
  stop();
  clock.pass(500);
  let read = 0;
  live.subscribe(
    ["hitl.*"],
    undefined,
    () => undefined,
    () => read++,
  )();
  expect(read).toBe(0);
  latest().says(event("e2", "e1"));
  live.subscribe(
    ["hitl.*"],
    undefined,
    () => undefined,
    () => read++,
  );
  expect(read).toBe(1);
  live.subscribe(
    ["hitl.*"],
    undefined,
    () => undefined,
    () => read++,
  );
  expect(read).toBe(1);
});
