/** When a version of a template was published; those of the program itself are as old as the program. */
import { Ago } from "./time";

export function Published({ of }: { of: { author: string; createdAt: string } }) {
  if (of.author !== "system") return <Ago at={of.createdAt} />;
  return <span data-tip="It came with the program">with the program</span>;
}
