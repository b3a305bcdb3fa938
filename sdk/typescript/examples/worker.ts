import { Worker } from "@callboard/client/worker";

const worker = new Worker({ queues: ["loud"] });

worker.model("shout", async function* (task) {
  for (const word of task.prompt.split(" ")) yield `${word.toUpperCase()} `;
});

await worker.run();
