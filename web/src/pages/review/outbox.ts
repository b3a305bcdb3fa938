/**
 * Decisions on their way, which the browser keeps until the server has answered: apart for each user, through a
 * lost network, an ended session and a closed page. The server refuses a second decision, so each may be sent again.
 */
import { type DBSchema, openDB } from "idb";
import type { Approval } from "../../api/client";
import { freshKey } from "../../lib/fresh-key";
import { write } from "../../lib/preferences";
import type { Choice } from "./decisions";

export type Kept = {
  key: string;
  userId: string;
  /** The project of its items; none is `default`. */
  project?: string;
  /** The tab that sends it, while it is open. */
  tab: string;
  items: Approval[];
  choice: Choice;
  /** In milliseconds since 1970. */
  sendsAt: number;
};

interface Schema extends DBSchema {
  decisions: { key: string; value: Kept; indexes: { userId: string } };
}

const open = () =>
  openDB<Schema>("callboard", 1, {
    upgrade: (db) =>
      void db.createObjectStore("decisions", { keyPath: "key" }).createIndex("userId", "userId"),
  });
let opened: ReturnType<typeof open> | undefined;
const db = () => {
  opened ??= open();
  return opened;
};

/** Tells the layout, which reads no database, that something waits. */
const flag = (userId: string) => `${userId}.outbox`;

/** Where the browser keeps nothing, a decision lasts as long as the page. */
export async function keep(kept: Kept) {
  write(flag(kept.userId), true);
  const items = kept.items.map((item) => ({ ...item, output: undefined, prompt: undefined }));
  await db()
    .then((it) => it.put("decisions", { ...kept, items }))
    .catch(() => {});
}

export async function drop({ key, userId }: Kept) {
  let left = 0;
  try {
    const it = await db();
    await it.delete("decisions", key);
    left = await it.countFromIndex("decisions", "userId", userId);
  } catch {
    // As above.
  }
  if (left === 0) write(flag(userId), undefined);
}

const TAB = "callboard.tab";
let named: string | undefined;

/** The name of this tab, also after a reload. Its lock tells other tabs that it is open. */
export function tab(): string {
  if (named) return named;
  named = freshKey();
  try {
    named = sessionStorage.getItem(TAB) ?? named;
    sessionStorage.setItem(TAB, named);
  } catch {
    // As above.
  }
  void navigator.locks?.request(`callboard.${named}`, () => new Promise(() => {}));
  return named;
}

/** Without locks (over plain HTTP), a decision of another tab is taken for left behind after that time. */
const LEFT_MS = 60_000;

/** The user's decisions that this tab may send: its own, and those of tabs that are closed. */
export async function left(userId: string): Promise<Kept[]> {
  const all = await db()
    .then((it) => it.getAllFromIndex("decisions", "userId", userId))
    .catch(() => []);
  const held = (await navigator.locks?.query())?.held?.map(({ name }) => name);
  const isOpen = (kept: Kept) =>
    held ? held.includes(`callboard.${kept.tab}`) : Date.now() < kept.sendsAt + LEFT_MS;
  return all.filter((kept) => kept.tab === tab() || !isOpen(kept));
}
