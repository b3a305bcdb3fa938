import { Callboard } from "@callboard/client";

const cb = new Callboard();
for await (const piece of cb.tasks.stream("Tell me what a lease is.", { maxTokens: 80 })) {
  process.stdout.write(piece);
}
console.log();
