import { Callboard } from "@callboard/client";

const cb = new Callboard();
console.log(await cb.tasks.runFunction("add", { a: 2 }));
