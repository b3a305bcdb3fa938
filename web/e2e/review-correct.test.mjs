// Correcting an output by a form of its schema, and what becomes of a correction that is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessibleInThemes, close, live, open, PHONE, resize } from "./support/browser.mjs";
import { approve, approveEdit, stage, title, undoEnds } from "./support/review.mjs";

const on = stage();

const CLAIM = {
  type: "object",
  properties: {
    claimant: { type: "string", minLength: 1, description: "As on the policy." },
    kind: { type: "string", enum: ["theft", "water", "fire"] },
    amount: { type: "number", minimum: 0 },
    deductible: { anyOf: [{ type: "number" }, { type: "null" }] },
    urgent: { type: "boolean" },
    documents: { type: "array", items: { type: "string" } },
    address: {
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
      required: ["city"],
    },
    letter: { type: "string" },
  },
  required: ["claimant", "kind", "amount"],
};
const ANSWER =
  '{"claimant":"Ann Able","kind":"water","amount":1250.00,"deductible":null,"urgent":false,' +
  '"documents":["photo.jpg","bill.pdf"],"address":{"street":"Long Lane 1","city":"Ulm"},' +
  '"letter":"Dear Ms Able,\\n\\nwe pay.","policy":90071992547409931234}';

const claim = (more) => on.held(ANSWER, { outputSchema: CLAIM, ...more });
const field = (page, name, role = "textbox") =>
  page.getByRole("group", { name: "Edited output" }).getByRole(role, { name });

test("an output is corrected field by field, and only what was changed is different", async () => {
  await on.clear();
  const id = await claim({
    systemPrompt: "You are a claims clerk.",
    messages: [
      { role: "user", content: "My cellar is wet." },
      { role: "assistant", content: "Send us the bill." },
    ],
  });
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Ann Able");
  await page.getByRole("region", { name: "System prompt" }).getByText("You are a claims clerk.").waitFor();
  await page.getByRole("region", { name: "Turn 2, assistant" }).getByText("Send us the bill.").waitFor();
  await page.keyboard.press("e");
  await field(page, "claimant").waitFor();
  assert.equal(await field(page, "letter").inputValue(), "Dear Ms Able,\n\nwe pay.");
  await page.getByText("Without a field, so in the JSON alone: policy").waitFor();
  await field(page, "amount").fill("1125.50");
  await field(page, "city").fill("Neu-Ulm");
  await field(page, "claimant").fill("Anna");
  await page.getByRole("button", { name: "Take back the change of claimant" }).click();
  assert.equal(await page.locator('[data-changed="true"]').count(), 2);
  await page.locator('[data-field="amount"]').getByText("1250.00").waitFor();
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  const json = page.getByRole("textbox", { name: "Edited output" });
  await json.getByText('"amount": 1125.50').waitFor();
  await accessibleInThemes(page, "review-form");
  await resize(page, PHONE);
  await accessibleInThemes(page, "review-form-phone", "the form on a phone");
  await approveEdit(page);
  await page.getByText("Approved with the edit").waitFor();
  await undoEnds(page);
  assert.equal(
    (await on.decided(id)).modifiedOutput,
    ANSWER.replace("1250.00", "1125.50").replace('"Ulm"', '"Neu-Ulm"'),
  );
  await close(page);
});

test("the JSON and the form say the same, and the form waits while the JSON cannot be read", async () => {
  await on.clear();
  const id = await claim();
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Ann Able");
  await page.keyboard.press("e");
  await field(page, "claimant").waitFor();
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  const json = page.getByRole("textbox", { name: "Edited output" });
  await json.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{"claimant": "Bob", "kind": "fire"');
  await page.getByText("The form is back once the JSON can be read.").waitFor();
  assert.equal(await field(page, "claimant").isDisabled(), true);
  await page.getByRole("button", { name: "1 fault to mend" }).waitFor();
  await page.keyboard.insertText(', "amount": 3}');
  await page.getByText("The form is back").waitFor({ state: "detached" });
  assert.equal(await field(page, "claimant").inputValue(), "Bob");
  assert.equal(await field(page, "kind", "combobox").inputValue(), '"fire"');
  await field(page, "amount").fill("4");
  await json.getByText('"amount": 4').waitFor();
  await page.getByRole("button", { name: "Discard the edit" }).click();
  await title(page, "Ann Able");
  assert.equal(await page.getByRole("tab", { name: "Edit (changed)" }).count(), 0);
  await close(page);
});

test("a fault is said at its field as it is typed, and nothing is sent before it is mended", async () => {
  await on.clear();
  const id = await claim();
  const next = await on.held("What comes next.");
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Ann Able");
  await page.keyboard.press("e");
  const amount = page.locator('[data-field="amount"]');
  await field(page, "amount").fill("-5");
  await amount.getByText("-5 is less than 0.").waitFor();
  await field(page, "claimant").fill("");
  await page.getByRole("button", { name: "2 faults to mend" }).waitFor();
  await field(page, "amount").fill("12,5");
  await amount.getByText("This is no number.").waitFor();
  await approveEdit(page);
  await page.keyboard.press("Escape");
  await title(page, "Ann Able");
  await approve(page);
  // It leads to the field, and the item stays open.
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-invalid") === "true");
  assert.match(page.url(), new RegExp(id));
  await undoEnds(page);
  assert.equal(await page.locator(".toast").count(), 0);
  await field(page, "claimant").fill("Ann");
  await field(page, "amount").fill("12.5");
  await page.getByRole("button", { name: /to mend/ }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+Enter");
  await approve(page);
  await page.waitForURL(new RegExp(next));
  await undoEnds(page);
  assert.match((await on.decided(id)).modifiedOutput, /"claimant":"Ann",.*"amount":12\.5,/);
  await close(page);
});

test("a refused correction comes back to its item, which stays marked until it is dealt with", async () => {
  await on.clear();
  const [id, next] = [await claim(), await on.held("What comes next.")];
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "Ann Able");
  await live(page);
  await page.keyboard.press("e");
  await field(page, "amount").fill("7");
  const message = "modifiedOutput must match the outputSchema: output.amount is not the sum of the bills";
  await page.route("**/approve", (route) =>
    route.fulfill({ status: 400, json: { success: false, error: { code: "VALIDATION_ERROR", message } } }),
  );
  await approveEdit(page);
  await page.waitForURL(new RegExp(next));
  await undoEnds(page);
  const row = page.locator(`[data-task="${id}"]`);
  await row.getByText("refused").waitFor();
  await page.unroute("**/approve");
  // The mark and the edit outlive a reload; the next item is not marked.
  await page.reload();
  await row.getByText("refused").waitFor();
  assert.equal(await page.locator(`[data-task="${next}"]`).getByText("refused").count(), 0);
  await row.getByRole("link").click();
  await page.getByText("The approval of the edit was refused").waitFor();
  await page.getByRole("tab", { name: "Edit (changed)" }).click();
  await page.locator('[data-field="amount"]').getByText("The server: is not the sum of the bills.").waitFor();
  await accessibleInThemes(page, "review-refused");
  await field(page, "amount").fill("8");
  await page.getByText("The server:").waitFor({ state: "detached" });
  await approveEdit(page);
  await row.waitFor({ state: "detached" });
  await undoEnds(page);
  assert.match((await on.decided(id)).modifiedOutput, /"amount":8,/);
  await close(page);
});

test("JSON without a schema is edited with line breaks, and stays on one line", async () => {
  await on.clear();
  const id = await on.held('{"a":1,"b":[1,2]}');
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await page.locator('[data-kind="JSON"]').waitFor();
  await page.keyboard.press("e");
  const json = page.getByRole("textbox", { name: "Edited output" });
  await json.getByText('"a": 1').click();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("5");
  await approveEdit(page);
  await page.getByText("It is sent in").waitFor();
  await undoEnds(page);
  assert.equal((await on.decided(id)).modifiedOutput, '{"a":5,"b":[1,2]}');
  await close(page);
});
