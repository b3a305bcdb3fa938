/** Decisions that the server refused: each comes back to its item, and marks it until it is dealt with. */
import type { ApiError } from "../../api/client";
import { preference, usePreference, write } from "../../lib/preferences";
import { own } from "../../session/session";
import type { Choice } from "./decisions";

export type Refusal = { at: number; kind: Choice["kind"]; isEdit: boolean; message: string };
type Refusals = Record<string, Refusal>;

const MOST = 50;
const NONE: Refusals = {};
const name = () => own("refused");

export function refuse(taskId: string, choice: Choice, error: ApiError) {
  const isEdit = choice.kind === "approve" && choice.modifiedOutput !== undefined;
  const refusal = { at: Date.now(), kind: choice.kind, isEdit, message: error.message };
  const others = Object.entries(preference(name(), NONE)).filter(([id]) => id !== taskId);
  write(name(), Object.fromEntries([...others.slice(-MOST + 1), [taskId, refusal]]));
}

/** The item was dealt with. */
export function forgetRefusal(taskId: string) {
  const { [taskId]: known, ...others } = preference(name(), NONE);
  if (known) write(name(), Object.keys(others).length > 0 ? others : undefined);
}

export const useRefusals = (): Refusals => usePreference(name(), NONE)[0];
