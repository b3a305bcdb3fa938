/** Filters of a list, kept in the address. */
import type { ReactNode } from "react";
import { Button } from "../../ui/basics";
import { lookOf } from "../../ui/status";

export type Change = (changes: Record<string, string | undefined>) => void;

/** Several states may be chosen; none is all. */
export function States({
  states,
  chosen,
  set,
}: {
  states: readonly string[];
  chosen: readonly string[];
  set: Change;
}) {
  return (
    <fieldset className="executions-states">
      <legend className="hide">Status</legend>
      {states.map((state) => {
        const isOn = chosen.includes(state);
        const next = isOn ? chosen.filter((it) => it !== state) : [...chosen, state];
        return (
          <button
            key={state}
            type="button"
            className="executions-state"
            aria-pressed={isOn}
            onClick={() => set({ status: next.join(",") || undefined })}
          >
            {lookOf(state).word}
          </button>
        );
      })}
    </fieldset>
  );
}

const SINCE: Record<string, [word: string, ms: number]> = {
  "1h": ["the last hour", 3_600_000],
  "24h": ["the last 24 hours", 86_400_000],
  "7d": ["the last 7 days", 7 * 86_400_000],
};

/** Since when, to the minute, so that the list of one minute is one list. */
export function sinceOf(value: string | null): string | undefined {
  const span = value ? SINCE[value]?.[1] : undefined;
  if (span !== undefined) return new Date(Math.floor((Date.now() - span) / 60_000) * 60_000).toISOString();
  return value && !Number.isNaN(Date.parse(value)) ? new Date(value).toISOString() : undefined;
}

export function Since({ value, set }: { value: string | null; set: Change }) {
  return (
    <select
      className="select"
      aria-label="Created"
      value={value ?? ""}
      onChange={(event) => set({ since: event.target.value || undefined })}
    >
      <option value="">at any time</option>
      {Object.entries(SINCE).map(([key, [word]]) => (
        <option key={key} value={key}>
          {word}
        </option>
      ))}
      {value && !SINCE[value] && <option value={value}>since {value}</option>}
    </select>
  );
}

/** A text filter that counts on Enter and when it is left. */
export function TextFilter({
  name,
  label,
  params,
  set,
}: {
  name: string;
  label: string;
  params: URLSearchParams;
  set: Change;
}) {
  const value = params.get(name) ?? "";
  const take = (text: string) => {
    if (text.trim() !== value) set({ [name]: text.trim() || undefined });
  };
  return (
    <input
      key={value}
      className="input"
      aria-label={label}
      placeholder={label}
      defaultValue={value}
      spellCheck={false}
      onBlur={(event) => take(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") take(event.currentTarget.value);
      }}
    />
  );
}

export function Filters({
  children,
  isFiltered,
  clear,
}: {
  children: ReactNode;
  isFiltered: boolean;
  clear: () => void;
}) {
  return (
    <div className="filters" role="search" aria-label="Filters">
      {children}
      {isFiltered && (
        <Button kind="quiet" icon="cross" onClick={clear}>
          Clear
        </Button>
      )}
    </div>
  );
}

export const listOf = (value: string | null): string[] => (value ? value.split(",").filter(Boolean) : []);
