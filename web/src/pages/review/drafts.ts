/** What a reviewer has begun to write about an item. It outlives a reload, and ends with the decision. */
import { preference, usePreference, write } from "../../lib/preferences";
import { own } from "../../session/session";

export type Draft = { edit?: string; comment?: string; reason?: string; at: number };

const MOST = 50;
const index = () => own("drafts");
const name = (taskId: string) => own(`draft.${taskId}`);

export function useDraft(taskId: string): [Partial<Draft>, (change: Partial<Draft>) => void] {
  const [draft] = usePreference<Partial<Draft>>(name(taskId), EMPTY);
  const change = (next: Partial<Draft>) => {
    const now = { ...preference<Partial<Draft>>(name(taskId), EMPTY), ...next };
    const isEmpty = now.edit === undefined && !now.comment && !now.reason;
    if (isEmpty) return forgetDraft(taskId);
    const others = preference<string[]>(index(), []).filter((id) => id !== taskId);
    for (const old of others.slice(0, Math.max(0, others.length - MOST + 1))) write(name(old), undefined);
    write(index(), [...others.slice(-MOST + 1), taskId]);
    write(name(taskId), { ...now, at: Date.now() });
  };
  return [draft, change];
}

const EMPTY: Partial<Draft> = {};

export const hasEdit = (taskId: string) => preference<Partial<Draft>>(name(taskId), EMPTY).edit !== undefined;

export function forgetDraft(taskId: string) {
  if (preference<unknown>(name(taskId), undefined) === undefined) return;
  write(name(taskId), undefined);
  write(
    index(),
    preference<string[]>(index(), []).filter((id) => id !== taskId),
  );
}
