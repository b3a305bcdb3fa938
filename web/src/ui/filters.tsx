/** Filters of a list, kept in the address. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { DATE, spanOf } from "../lib/span";
import { Button } from "./basics";
import { lookOf } from "./status";
import "./filters.css";

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
    <fieldset className="filter-states">
      <legend className="hide">
        <Trans>Status</Trans>
      </legend>
      {states.map((state) => {
        const isOn = chosen.includes(state);
        const next = isOn ? chosen.filter((it) => it !== state) : [...chosen, state];
        return (
          <button
            key={state}
            type="button"
            className="filter-state"
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

const SINCE: Record<string, string> = {
  "1h": t`in the last hour`,
  "24h": t`in the last 24 hours`,
  "7d": t`in the last 7 days`,
};

/** A time in the address, in words. */
export function spanWord(value: string): string {
  return SINCE[value] ?? (DATE.test(value) ? t`on ${value}` : t`since ${value}`);
}

/** A time in the address: since when, or one day. "created" and "ended" are separate filters. */
export function Since({
  name,
  word,
  value,
  set,
}: {
  name: string;
  word: string;
  value: string | null;
  set: Change;
}) {
  return (
    <select
      className="select"
      aria-label={word}
      value={value ?? ""}
      onChange={(event) => set({ [name]: event.target.value || undefined })}
    >
      <option value="">{t`${word} at any time`}</option>
      {Object.entries(SINCE).map(([key, since]) => (
        <option key={key} value={key}>
          {word} {since}
        </option>
      ))}
      {value && !SINCE[value] && (
        <option value={value}>
          {word} {spanWord(value)}
        </option>
      )}
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
  /** True shows the button that clears them here; the list of a page has it in its line of chips. */
  isFiltered?: boolean;
  clear?: () => void;
}) {
  return (
    <div className="filters" role="search" aria-label={t`Filters`}>
      {children}
      {isFiltered && (
        <Button kind="quiet" icon="cross" onClick={clear}>
          <Trans>Clear</Trans>
        </Button>
      )}
    </div>
  );
}

/** The parameters of the API for a time in the address. */
export function createdIn(value: string | null) {
  const { after, before } = spanOf(value);
  return { ...(after && { createdAfter: after }), ...(before && { createdBefore: before }) };
}

export function endedIn(value: string | null) {
  const { after, before } = spanOf(value);
  return { ...(after && { endedAfter: after }), ...(before && { endedBefore: before }) };
}

export const listOf = (value: string | null): string[] => (value ? value.split(",").filter(Boolean) : []);
