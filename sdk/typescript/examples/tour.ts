/** The library in one program: types, plans, approvals, events, errors. */
import { Callboard, errors, Plan } from "@callboard/client";
import { z } from "zod";

const Colour = z.object({ name: z.string(), warm: z.boolean() });
const cb = new Callboard();

async function typed(): Promise<string> {
  const answer = await cb.tasks.run("Name a colour.", { schema: Colour });
  return answer.warm ? answer.name : "";
}

async function review(): Promise<void> {
  const plan = new Plan("Contract");
  const extract = plan.step("extract", "List the parties of {{input.text}}", { maxTokens: 200 });
  const prompt = `Is anything unusual here? ${extract.output}`;
  plan.step("judge", prompt, { dependsOn: [extract], requiresApproval: true });
  const since = await cb.cursor();
  const run = await cb.plans.execute((await cb.plans.create(plan)).id, { text: "…" });
  for await (const event of cb.events(["hitl.pending", "execution.completed"], { executionId: run.id, since })) {
    if (event.event === "execution.completed") break;
    for await (const item of cb.hitl.pending()) await item.approve({ comment: "fine" });
  }
  await run.wait({ waitMs: 60_000 });
  console.log(run.steps.extract?.output, run.usage?.totalCost);
}

async function safe(): Promise<void> {
  const options = { idempotencyKey: "hello-1", priority: 7, hitl: { required: true } };
  try {
    await (await cb.tasks.submit("Say hello.", options)).wait({ waitMs: 1_000 });
  } catch (error) {
    if (error instanceof errors.WaitTimeout) console.log("a reviewer takes longer");
    else if (error instanceof errors.TaskFailed) console.log(error.code);
    else throw error;
  }
  for await (const task of cb.tasks.list({ status: ["failed", "rejected"] })) await task.submitAgain();
}

console.log(await typed());
await review();
await safe();
