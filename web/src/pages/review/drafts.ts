/** What a reviewer has begun to write about an item. It outlives a reload, and ends with the decision. */
import { preference, usePreference, write } from "../../lib/preferences";

export type Draft = { edit?: string; comment?: string; reason?: string; at: number };

const INDEX = "drafts";
const MOST = 50;
const name = (taskId: string) => `draft.${taskId}`;

export function useDraft(taskId: string): [Partial<Draft>, (change: Partial<Draft>) => void] {
  const [draft] = usePreference<Partial<Draft>>(name(taskId), EMPTY);
  const change = (next: Partial<Draft>) => {
    const now = { ...preference<Partial<Draft>>(name(taskId), EMPTY), ...next };
    const isEmpty = now.edit === undefined && !now.comment && !now.reason;
    if (isEmpty) return forgetDraft(taskId);
    const others = preference<string[]>(INDEX, []).filter((id) => id !== taskId);
    for (const old of others.slice(0, Math.max(0, others.length - MOST + 1))) write(name(old), undefined);
    write(INDEX, [...others.slice(-MOST + 1), taskId]);
    write(name(taskId), { ...now, at: Date.now() });
  };
  return [draft, change];
}

const EMPTY: Partial<Draft> = {};

export function forgetDraft(taskId: string) {
  if (preference<unknown>(name(taskId), undefined) === undefined) return;
  write(name(taskId), undefined);
  write(
    INDEX,
    preference<string[]>(INDEX, []).filter((id) => id !== taskId),
  );
}
