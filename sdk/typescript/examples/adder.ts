import { Worker } from "@callboard/client/worker";
import { z } from "zod";

const worker = new Worker();
const args = z.object({ a: z.number(), b: z.number().default(1) });

worker.function("add", { args }, ({ a, b }) => a + b);

await worker.run();
