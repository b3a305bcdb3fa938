// Waiting for a state, and for how long.
import { AssertionError } from "node:assert";
import { readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

/** Limits of time hold for a machine that does nothing else; on a busy one they grow with its load. */
export const allowed = (ms) => ms * Math.max(1, load() / cpus().length);

/** The load of the last minute, or the processes that run at this moment if they are more. */
function load() {
  let running = 0;
  try {
    running = Number(/ (\d+)\//.exec(readFileSync("/proc/loadavg", "utf8"))[1]);
  } catch {
    // Only Linux has it.
  }
  return Math.max(loadavg()[0], running);
}

/** Reads again until there is something; `what` names it, or is called for its name, if it does not come. */
export async function until(read, what, ms = 20_000) {
  const began = Date.now();
  for (;;) {
    const found = await read();
    if (found) return found;
    if (Date.now() - began > allowed(ms))
      throw new Error(`${typeof what === "function" ? what() : what} did not come`);
    await breath();
  }
}

/** Runs an assertion again until it holds. */
export async function eventually(check, ms = 20_000) {
  const began = Date.now();
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof AssertionError) || Date.now() - began > allowed(ms)) throw error;
    }
    await breath();
  }
}

/** Between two readings, so that they leave the processor to what is read. */
const breath = () => new Promise((resolve) => setTimeout(resolve, 40));
