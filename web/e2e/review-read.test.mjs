// Reading an output: Markdown and JSON as people read them, beside what they were made from, to their end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, accessibleInThemes, close, loaded, open, PHONE, resize } from "./support/browser.mjs";
import { armed, stage, title } from "./support/review.mjs";

const on = stage();

const LETTER = `# Offer for Ms Able

Dear Ms Able,
thank you for **your claim**. We pay:

| item | EUR |
|---|--:|
| cellar | 1200.00 |
| pump | 50.00 |

1. Send the [form](https://forms.example/claim).
2. Wait.

![logo](http://127.0.0.1:1/logo.png) <script>window.hacked = 1</script>`;

test("Markdown is read as a letter, loads nothing, and shows where its links lead", async () => {
  await on.clear();
  const id = await on.held(LETTER, { systemPrompt: "Write offers." });
  const page = await open(on.browser, on.server, `/review/${id}`);
  const output = page.getByRole("region", { name: "Output", exact: true });
  await output.getByRole("row", { name: "pump 50.00" }).waitFor();
  await output.getByText("<script>window.hacked = 1</script>").waitFor();
  assert.equal(
    await output.getByRole("link", { name: "https://forms.example/claim" }).getAttribute("href"),
    "https://forms.example/claim",
  );
  assert.equal(await output.locator("img, script").count(), 0);
  await loaded(page);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  // The source stands beside it, not below.
  const [left, right] = await Promise.all([
    output.boundingBox(),
    page.getByRole("region", { name: "System prompt" }).boundingBox(),
  ]);
  assert.ok(right.x > left.x + left.width - 1 && right.y < left.y + 100, JSON.stringify({ left, right }));
  await accessibleInThemes(page, "review-markdown");
  await page.getByRole("button", { name: "As it is" }).first().click();
  await output.getByText("| pump | 50.00 |").waitFor();
  await close(page);
});

test("what a step shows its reviewer stands beside the output, before its prompt", async () => {
  await on.clear();
  const steps = [
    {
      id: "reply",
      prompt: '{"say": "Dear Ms Able, we pay.", "confidence": 0.4}',
      requiresApproval: true,
      review: { show: ["{{input.letter}}", "Claim {{input.claim}}"] },
    },
  ];
  const plan = await on.server.call("POST", "/api/plans", { name: "replies", steps });
  const input = { letter: "# My claim\n\nThe **cellar** is wet.", claim: "K-1" };
  const { id } = await on.server.call("POST", `/api/plans/${plan.id}/execute`, { input });
  const { taskId } = await on.server.until(async () => {
    const step = (await on.server.call("GET", `/api/plans/executions/${id}`)).steps.reply;
    return step?.awaitingApproval && step;
  }, "it is held");
  const page = await open(on.browser, on.server, `/review/${taskId}`);
  const output = page.getByRole("region", { name: "Output", exact: true });
  await output.waitFor();
  const letter = page.getByRole("region", { name: "Source 1" });
  await letter.getByText("My claim").waitFor();
  await page.getByRole("region", { name: "Source 2" }).getByText("Claim K-1").waitFor();
  const [left, right] = await Promise.all([output.boundingBox(), letter.boundingBox()]);
  assert.ok(right.x > left.x + left.width - 1 && right.y < left.y + 100, JSON.stringify({ left, right }));
  assert.equal(await page.getByRole("region", { name: "Prompt" }).isVisible(), false);
  await accessibleInThemes(page, "review-source");
  await close(page);
});

test("a table that would hide a part of what is written is shown as it is", async () => {
  await on.clear();
  const id = await on.held("| a |\n|---|\n| 1 | pay 9,000 EUR to Mallory |");
  const page = await open(on.browser, on.server, `/review/${id}`);
  await title(page, "| 1 | pay 9,000 EUR to Mallory |");
  await page.getByText("as Markdown, a part of it would be hidden").waitFor();
  await close(page);
});

test("JSON is read member by member, its texts with their line breaks", async () => {
  await on.clear();
  const value = {
    subject: "Your claim",
    letter: "Dear Ms Able,\n\nwe pay.\n\nYours\nInsurance",
    rows: [
      { item: "cellar", amount: 1200.5 },
      { item: "pump", amount: 50 },
    ],
  };
  const id = await on.held(JSON.stringify(value));
  const page = await open(on.browser, on.server, `/review/${id}`);
  const output = page.getByRole("region", { name: "Output", exact: true });
  await output.getByRole("row", { name: "cellar 1200.5" }).waitFor();
  assert.equal(await output.getByText("Dear Ms Able,").innerText(), value.letter);
  await accessibleInThemes(page, "review-json");
  await close(page);
});

test("a long output has one scroll, and the end that was not seen is said beside the button", async () => {
  await on.clear();
  const id = await on.held(`${"A long letter about a wet cellar. ".repeat(400)}\n\nThe end.`);
  const page = await open(on.browser, on.server, `/review/${id}`, { clock: true });
  await title(page, "The end.");
  const unseen = page.getByRole("button", { name: "Not seen to the end" });
  await unseen.waitFor();
  await accessible(page, "not seen to the end");
  const scrollers = () =>
    page
      .locator(".review-detail, .review-detail *")
      .evaluateAll((all) =>
        all
          .filter(
            (it) =>
              it.scrollHeight > it.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(it).overflowY),
          )
          .map((it) => it.className),
      );
  assert.deepEqual(await scrollers(), ["review-scroller"]);
  await unseen.click();
  await unseen.waitFor({ state: "detached" });
  // It bars nothing, and is not asked again.
  await page.getByRole("button", { name: /^Approve/ }).isEnabled();
  await resize(page, PHONE);
  assert.equal(await unseen.count(), 0);
  const other = await on.held(`${"Another long letter. ".repeat(900)}`);
  await page.goto(`/review/${other}`);
  await unseen.waitFor();
  await accessibleInThemes(page, "review-unseen-phone");
  await armed(page);
  await page.getByRole("button", { name: /^Approve/ }).click();
  await page.getByText("It is sent in").waitFor();
  await close(page);
});
