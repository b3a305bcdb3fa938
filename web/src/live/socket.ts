/**
 * The connection to /ws: one socket for the whole page, a subscription for each topic that is in use.
 *
 *     live ──(closed, or silent)──▶ reconnecting ──(for 20 s)──▶ stale
 *       ▲                                │ resumes each topic after its last cursor
 *       └────────────────────────────────┘ what cannot be resumed is read again over HTTP
 *
 * No DOM and no React; the clock and the socket are arguments, for the tests.
 */

export type Connection = "live" | "reconnecting" | "stale";

export type LiveEvent = {
  event: string;
  at: string;
  cursor?: string;
  prev?: string | null;
  resource: { kind: string; id: string; version?: number };
  data: Record<string, unknown>;
};

export type Filter = { taskId?: string; executionId?: string; queue?: string; tags?: string[] };

type Listener = (event: LiveEvent) => void;
type Begun = () => void;
type Topic = {
  sub: string;
  events: string[];
  filter?: Filter;
  cursor?: string;
  listeners: Map<Listener, Begun | undefined>;
  /** Events came while nobody listened. */
  missed?: boolean;
};
type Frame = Partial<LiveEvent> & {
  type: string;
  sub?: string;
  resumed?: boolean;
  reason?: string;
  heartbeatMs?: number;
};

export type Timers = { set: (run: () => void, ms: number) => number; clear: (id: number) => void };
const TIMERS: Timers = {
  set: (run, ms) => globalThis.setTimeout(run, ms) as unknown as number,
  clear: (id) => globalThis.clearTimeout(id),
};

/** A socket that says nothing, not even that it is closed, is noticed after these two. */
const PING_AFTER = 15_000;
const PONG_WITHIN = 5_000;
const STALE_AFTER = 20_000;
const MAX_WAIT = 10_000;
/** A topic that nobody uses is kept that long, for the next page may use it. */
const LINGER = 2_000;

export class LiveSocket {
  private socket?: WebSocket;
  private topics = new Map<string, Topic>();
  private watchers = new Set<(state: Connection) => void>();
  private losses = new Set<() => void>();
  private state: Connection = "reconnecting";
  private tries = 0;
  private names = 0;
  private isReady = false;
  private isWanted = false;
  private timers: { ping?: number; pong?: number; stale?: number; again?: number } = {};

  constructor(
    private readonly url: string,
    private readonly open: (url: string) => WebSocket = (url) => new WebSocket(url),
    private readonly clock: Timers = TIMERS,
    private readonly random: () => number = Math.random,
  ) {}

  start() {
    if (this.isWanted) return;
    this.isWanted = true;
    this.lost();
    this.connect();
  }

  stop() {
    this.isWanted = false;
    for (const timer of Object.values(this.timers)) if (timer !== undefined) this.clock.clear(timer);
    this.timers = {};
    this.socket?.close();
    this.socket = undefined;
    this.isReady = false;
  }

  /** Tries at once: the network is back, or the page is looked at again. */
  hurry() {
    if (!this.isWanted) return;
    if (this.isReady) return this.ping();
    this.tries = 0;
    this.connect();
  }

  /** The browser has no network. */
  offline() {
    if (this.isWanted && this.isReady) this.leave();
  }

  connection(): Connection {
    return this.state;
  }

  onConnection(watcher: (state: Connection) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Called when events were lost: what is shown must be read again. */
  onLoss(listener: () => void): () => void {
    this.losses.add(listener);
    return () => this.losses.delete(listener);
  }

  /**
   * Events from the server's first `subscribed` on, which calls `begun`, until the returned function is called.
   * Earlier events are not sent, so `begun` reads again what was read before.
   */
  subscribe(events: string[], filter: Filter | undefined, listener: Listener, begun?: Begun): () => void {
    const key = JSON.stringify([events, filter ?? null]);
    let topic = this.topics.get(key);
    if (!topic) {
      topic = { sub: `s${++this.names}`, events, filter, listeners: new Map() };
      this.topics.set(key, topic);
      this.ask(topic);
    }
    const mine = topic;
    mine.listeners.set(listener, begun);
    if (mine.missed) {
      mine.missed = false;
      begun?.();
    }
    return () => {
      mine.listeners.delete(listener);
      if (mine.listeners.size > 0) return;
      this.clock.set(() => {
        if (mine.listeners.size > 0 || this.topics.get(key) !== mine) return;
        this.topics.delete(key);
        this.send({ type: "unsubscribe", sub: mine.sub });
      }, LINGER);
    };
  }

  private connect() {
    this.clear("again");
    this.socket?.close();
    this.isReady = false;
    const socket = this.open(this.url);
    this.socket = socket;
    socket.onmessage = (message) => {
      if (socket === this.socket) this.heard(JSON.parse(String(message.data)));
    };
    socket.onclose = () => {
      if (socket !== this.socket || !this.isWanted) return;
      this.isReady = false;
      this.clear("ping");
      this.clear("pong");
      this.lost();
      this.again();
    };
    socket.onerror = () => socket.close();
  }

  private again() {
    const wait = Math.min(MAX_WAIT, 250 * 2 ** this.tries) * (0.75 + this.random() / 2);
    this.tries += 1;
    this.clear("again");
    this.timers.again = this.clock.set(() => this.connect(), wait);
  }

  private lost() {
    if (this.state === "stale") return;
    this.become("reconnecting");
    if (this.timers.stale === undefined) {
      this.timers.stale = this.clock.set(() => this.become("stale"), STALE_AFTER);
    }
  }

  private become(state: Connection) {
    if (state === this.state) return;
    this.state = state;
    for (const watcher of this.watchers) watcher(state);
  }

  private heard(frame: Frame) {
    this.clear("pong");
    this.clear("ping");
    this.timers.ping = this.clock.set(() => this.ping(), PING_AFTER);
    switch (frame.type) {
      case "ready":
        this.isReady = true;
        this.tries = 0;
        this.clear("stale");
        for (const topic of this.topics.values()) this.ask(topic);
        this.become("live");
        break;
      case "subscribed": {
        const topic = this.named(frame.sub);
        if (!topic) break;
        const isFirst = topic.cursor === undefined;
        topic.cursor = frame.cursor ?? topic.cursor;
        if (isFirst) for (const begun of topic.listeners.values()) begun?.();
        else if (frame.resumed === false) this.miss();
        break;
      }
      case "event": {
        const topic = this.named(frame.sub);
        if (!topic) break;
        if (frame.cursor) {
          if (frame.prev && topic.cursor && frame.prev !== topic.cursor) this.miss();
          topic.cursor = frame.cursor;
        }
        topic.missed = topic.missed || topic.listeners.size === 0;
        for (const listener of topic.listeners.keys()) listener(frame as LiveEvent);
        break;
      }
      case "gap": {
        const topic = this.named(frame.sub);
        const to = (frame as { to?: string }).to;
        if (topic && to) topic.cursor = to;
        this.miss();
        break;
      }
      default:
        break;
    }
  }

  private named(sub: string | undefined): Topic | undefined {
    for (const topic of this.topics.values()) if (topic.sub === sub) return topic;
    return undefined;
  }

  private ask({ sub, events, filter, cursor }: Topic) {
    this.send({ type: "subscribe", sub, events, filter, resume: cursor });
  }

  private ping() {
    this.send({ type: "ping" });
    this.clear("pong");
    this.timers.pong = this.clock.set(() => this.leave(), PONG_WITHIN);
  }

  /** A socket that is dead may take minutes to say so: it is left behind. */
  private leave() {
    const dead = this.socket;
    this.socket = undefined;
    dead?.close();
    this.isReady = false;
    this.clear("ping");
    this.clear("pong");
    this.lost();
    this.again();
  }

  private miss() {
    for (const listener of this.losses) listener();
  }

  private send(frame: object) {
    if (this.isReady) this.socket?.send(JSON.stringify(frame));
  }

  private clear(name: keyof LiveSocket["timers"]) {
    const timer = this.timers[name];
    if (timer !== undefined) this.clock.clear(timer);
    this.timers[name] = undefined;
  }
}
