import { Callboard } from "@callboard/client";

const cb = new Callboard();
console.log(await cb.tasks.run("Name three uses of a message queue.", { maxTokens: 80 }));
