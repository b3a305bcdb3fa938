// A clerk's morning: 120 outputs, 60 of them decided by mouse and touch, 60 by key, while the network and the session
// go away, a colleague is faster, and one click is wrong. The server then has each decision that the clerk meant.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, live, open, stopClock } from "./support/browser.mjs";
import { armed, stage, undoEnds } from "./support/review.mjs";

const on = stage();
const LAPTOP = { width: 1366, height: 768 };

/** Outputs that the clerk skips when they are first shown. */
const LATER = new Set([8, 20, 33, 47, 58, 77, 96, 113]);
/** The clerk means to reject it, and clicks on Approve. The other output of its execution is left for later. */
const SLIP = 7;
/** A colleague decides them before the clerk's edits are sent. */
const CONTESTED = new Set([16, 81]);

const KINDS = {
  letter: (number) => ({
    say: `Letter No. ${number}: your parcel left our house on Monday.`,
    edit: `Letter No. ${number}: your parcel will leave our house on Tuesday.`,
  }),
  note: (number) => ({
    say: `# Note No. ${number}\n\n- asks for **the bill**\n- waits for an answer`,
    edit: `# Note No. ${number}\n\n- has paid **the bill**`,
  }),
  claim: (number) => {
    const amount = `${900 + number}.50`;
    const say = (amount) =>
      `{"claim":"No. ${number}","claimant":"Ann Able","amount":${amount},"kind":"water","urgent":false}`;
    return { say: say(`${1000 + number}.00`), amount, edit: say(amount) };
  },
};
const VERDICTS = ["approve", "edit", "reject", "approve", "edit"];

/** What the clerk means, for each output by its number. */
const MEANT = Array.from({ length: 120 }, (_, index) => {
  const number = index + 1;
  const kind = Object.keys(KINDS)[index % 3];
  const verdict = VERDICTS[number % 5];
  return { number, kind, verdict, reason: `No. ${number} names the wrong day.`, ...KINDS[kind](number) };
});
const FASTER = "Bob was faster.";

const CLAIM = {
  type: "object",
  properties: {
    claim: { type: "string" },
    claimant: { type: "string", minLength: 1 },
    amount: { type: "number", minimum: 0 },
    kind: { type: "string", enum: ["theft", "water", "fire"] },
    urgent: { type: "boolean" },
  },
  required: ["claim", "claimant", "amount"],
};

/** Makes a template whose steps answer with the members of the input that have their names, and are held. */
function template(name, steps) {
  const ids = steps.map(({ id }) => id);
  const properties = Object.fromEntries(ids.map((id) => [id, { type: "string" }]));
  return on.server.call("POST", "/api/templates", {
    name,
    version: "1.0.0",
    industry: "custom",
    visibility: "organization",
    inputSchema: { type: "object", properties, required: ids },
    steps: steps.map((step) => ({ ...step, prompt: `{{input.${step.id}}}` })),
    hitl: { requiredFor: ids },
  });
}

/** Has all outputs wait; gives each in `MEANT` the id of its task. */
async function holdAll() {
  const letters = await template("Letters", [{ id: "letter" }, { id: "note" }]);
  const claims = await template("Claims", [{ id: "claim", outputSchema: CLAIM }]);
  const deploy = ({ id }, input) => on.server.call("POST", `/api/templates/${id}/deploy`, { input });
  for (let index = 0; index < MEANT.length; index += 3) {
    const [letter, note, claim] = MEANT.slice(index, index + 3).map(({ say }) => say);
    await deploy(letters, { letter, note });
    await deploy(claims, { claim });
  }
  const all = async () => (await list("/pending?limit=1")).pagination.total === MEANT.length;
  await on.server.until(all, "all outputs wait");
  const rows = await every("/pending?");
  for (const item of MEANT) item.taskId = rows.find(({ output }) => output === item.say).taskId;
}

const list = (query) => on.server.answer("GET", `/api/hitl${query}`);
const every = async (query) =>
  (await Promise.all([0, 100].map((offset) => list(`${query}&limit=100&offset=${offset}`)))).flatMap(
    ({ data }) => data,
  );

/** Waits until the server has so many decisions. */
const recorded = (many) =>
  on.server.until(
    async () => (await list("?status=approved,rejected&limit=1")).pagination.total === many,
    `${many} decisions`,
  );

/** By mouse (`click`) or by touch (`tap`). */
function pointer(act) {
  const press = (within, name, role = "button") => within.getByRole(role, { name })[act]();
  return {
    skip: (page) => press(page, /^Skip/),
    approve: (page) => press(page, /^Approve/),
    async edit(page, item, isContested) {
      await press(page, /^Edit/, "tab");
      if (item.amount) {
        const amount = page.locator('[data-field="amount"] input');
        await amount[act]();
        await amount.fill(item.amount);
      } else await rewrite(page, item.edit);
      if (isContested) await stopClock(page);
      await press(page, /^Approve the edit/);
    },
    async reject(page, { reason }) {
      await press(page, /^Reject…/);
      const panel = page.getByRole("dialog");
      await panel.getByRole("textbox", { name: "Reason" }).fill(reason);
      await press(panel, /^Reject/);
    },
    seeOwn: (page) => press(page, /^See yours/),
    goOn: (page) => press(page.locator("[data-decided]"), "Next"),
  };
}

const keys = {
  skip: (page) => page.keyboard.press("s"),
  approve: (page) => page.keyboard.press("a"),
  async edit(page, item, isContested) {
    await page.keyboard.press("e");
    if (item.amount) {
      await page.locator('[data-field="claim"] :focus').waitFor();
      for (const field of ["claimant", "amount"]) {
        await page.keyboard.press("Tab");
        await page.locator(`[data-field="${field}"] :focus`).waitFor();
      }
      await page.keyboard.insertText(item.amount);
    } else await rewrite(page, item.edit);
    if (isContested) await stopClock(page);
    await page.keyboard.press("Control+Enter");
    await page.keyboard.press("a");
  },
  async reject(page, { reason }) {
    await page.keyboard.press("r");
    await page.keyboard.insertText(reason);
    await page.keyboard.press("Control+Enter");
  },
  seeOwn: (page) => page.getByRole("button", { name: "See yours" }).press("Enter"),
  goOn: (page) => page.keyboard.press("j"),
};

/** Writes another text into the editor, which takes the focus as it opens. */
async function rewrite(page, text) {
  const editor = page.getByRole("textbox", { name: "Edited output" });
  await editor.waitFor().catch(async ({ message }) => {
    assert.fail(`${message}\nThe page says: ${await page.locator("main").innerText()}`);
  });
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** The clerk at one page, who reads what is open and decides that. */
class Clerk {
  static skipped = new Set();

  constructor(page, hand, bob) {
    Object.assign(this, { page, hand, bob });
  }

  /** The next output, once it has been shown long enough to be decided. */
  async read() {
    const shown = await this.page.waitForFunction((before) => {
      const shown = document.querySelector(".review-panel")?.textContent;
      const number = Number(/No\. (\d+)/.exec(shown)?.[1]);
      return number > 0 && number !== before && number;
    }, this.number);
    this.number = await shown.jsonValue();
    await this.page.clock.fastForward(300);
    await armed(this.page);
    return MEANT[this.number - 1];
  }

  /** Decides so many outputs. */
  async decide(many) {
    for (let left = many; left > 0; ) left -= await this.next();
  }

  /** Decides the open output, or leaves it for later; returns how many decisions that is. */
  async next() {
    const item = await this.read();
    if (LATER.has(item.number) && !Clerk.skipped.has(item.number)) {
      Clerk.skipped.add(item.number);
      await this.hand.skip(this.page);
      return 0;
    }
    const isContested = CONTESTED.has(item.number);
    // The clock stands from the edit on, so that the decision is not sent before the colleague's. Before it, the page would
    // wait for ever for an editor that is still loading.
    await this.hand[item.number === SLIP ? "approve" : item.verdict](this.page, item, isContested);
    if (isContested) await this.comeSecond(item);
    return 1;
  }

  /** The decision was not the first, and what the clerk has written is still there. */
  async comeSecond(item) {
    const { page, hand, bob } = this;
    await on.server.call("POST", `/api/hitl/${item.taskId}/approve`, { comment: FASTER }, bob.token);
    await undoEnds(page);
    await page.clock.resume();
    await page.getByText(`was decided already, by ${bob.name}`).waitFor();
    await hand.seeOwn(page);
    await page.locator("[data-unused]").getByText("Your edit was not used").waitFor();
    assert.equal(await page.locator("[data-unused] code").textContent(), item.edit);
    await hand.goOn(page);
  }
}

/** Somebody with the role of a reviewer. */
async function reviewer(email) {
  const user = await on.server.user("reviewer", email);
  const token = await on.server.token(user);
  const session = await on.server.call("GET", "/api/auth/session", undefined, token);
  return { user, token, id: session.user.id, name: session.user.name };
}

/** By mouse on a laptop: a colleague is faster once, and a wrong click is found and put right. */
async function atTheLaptop(clerk, bob) {
  const page = await open(on.browser, on.server, "/review", {
    user: clerk.user,
    clock: true,
    viewport: LAPTOP,
  });
  const hand = pointer("click");
  const mouse = new Clerk(page, hand, bob);
  await mouse.decide(30);
  await undoEnds(page);
  await page.getByRole("link", { name: "Decided" }).click();
  await page.getByLabel("By me").check();
  await page.getByLabel("Search").fill(`No. ${SLIP}:`);
  await page.getByRole("link", { name: `No. ${SLIP}:` }).click();
  await page.getByRole("button", { name: /^Reopen…/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reopen" }).click();
  await page.getByText("It waits for you again.").waitFor();
  const item = await mouse.read();
  assert.equal(item.number, SLIP);
  await hand[item.verdict](page, item);
  // What waits to be sent is sent as the page is left.
  await close(page);
}

/** By touch on a phone: the session ends while decisions wait to be sent. */
async function onThePhone(clerk, bob) {
  const page = await open(on.browser, on.server, "/review", { user: clerk.user, clock: true, phone: true });
  const touch = new Clerk(page, pointer("tap"), bob);
  await page.locator(".review-item a").first().tap();
  await touch.decide(12);
  const sessions = await on.server.call("GET", `/api/auth/sessions?userId=${clerk.id}`);
  for (const { id } of sessions) await on.server.call("DELETE", `/api/auth/sessions/${id}`);
  on.server.tokens.delete(clerk.user.email);
  await page.getByLabel("E-mail").fill(clerk.user.email);
  await page.getByLabel("Password").fill(clerk.user.password);
  await page.getByRole("button", { name: "Sign in" }).tap();
  await touch.decide(18);
  await close(page);
}

/** By key alone: the network is away for four outputs, which the clerk has looked at before. */
async function byKey(clerk, bob) {
  const page = await open(on.browser, on.server, "/review", {
    user: clerk.user,
    clock: true,
    viewport: LAPTOP,
  });
  const typist = new Clerk(page, keys, bob);
  await typist.decide(10);
  for (const key of ["j", "j", "j", "k", "k", "k"]) {
    await typist.read();
    await page.keyboard.press(key);
  }
  await live(page);
  await undoEnds(page);
  await recorded(70);
  await page.context().setOffline(true);
  await page.locator('[data-live="live"]').waitFor({ state: "detached" });
  let made = 0;
  for (let looked = 0; looked < 4; looked++) made += await typist.next();
  await undoEnds(page);
  await page.locator(`[data-outbox="${made}"]`).waitFor();
  await page.context().setOffline(false);
  await page.locator("[data-outbox]").waitFor({ state: "detached" });
  await recorded(70 + made);
  await typist.decide(50 - made);
  await page.getByText(/^All done/).waitFor();
  await close(page);
}

test("of 120 outputs in a morning each has the decision that the clerk meant, and none is lost", async () => {
  await holdAll();
  const [clerk, bob] = [await reviewer("clerk@example.com"), await reviewer("bob@example.com")];
  await atTheLaptop(clerk, bob);
  await recorded(30);
  await onThePhone(clerk, bob);
  await recorded(60);
  await byKey(clerk, bob);
  await recorded(120);
  assert.deepEqual(Clerk.skipped, LATER);

  for (const verdict of ["approved", "rejected"]) {
    const listed = (await every(`?status=${verdict}`)).map(({ taskId }) => taskId).sort();
    const meant = MEANT.filter((item) => expected(item, clerk, bob).status === verdict);
    assert.deepEqual(listed, meant.map(({ taskId }) => taskId).sort(), verdict);
  }
  for (const item of MEANT) {
    const { status, by, comment, wasModified, modifiedOutput } = (await on.item(item.taskId)).decision;
    const history = await on.server.call("GET", `/api/hitl/${item.taskId}/history`);
    const made = history.map(({ action }) => action).filter((it) => /approved|rejected|reopened/.test(it));
    const found = { status, made, by, comment, wasModified, modifiedOutput };
    assert.deepEqual(found, expected(item, clerk, bob), item.say);
  }
});

/** The decision on an output that the server should have. */
function expected({ number, verdict, edit, reason }, clerk, bob) {
  const isOwn = !CONTESTED.has(number);
  const isEdit = isOwn && verdict === "edit";
  const status = verdict === "reject" ? "rejected" : "approved";
  return {
    status,
    made: number === SLIP ? ["approved", "reopened", status] : [status],
    by: isOwn ? clerk.id : bob.id,
    comment: !isOwn ? FASTER : verdict === "reject" ? reason : undefined,
    wasModified: isEdit,
    modifiedOutput: isEdit ? edit : undefined,
  };
}
