/** Text of any length, of anybody: inert, and laid out only where it is looked at. */
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useMemo, useState } from "react";
import { count } from "../lib/format";
import { pieces, visible } from "../lib/visible";
import { Button } from "./basics";
import "./long-text.css";

const SHOWN = 100_000;

/** `end` stands behind the last of it, once all of it is shown. */
export function LongText({ text, label, end }: { text: string; label: string; end?: ReactNode }) {
  const [whole, setWhole] = useState(false);
  const isCut = !whole && text.length > SHOWN;
  const isCode = useMemo(() => /^\s*[[{<]/.test(text) || text.includes("```"), [text]);
  const parts = useMemo(() => pieces(visible(isCut ? text.slice(0, SHOWN) : text)), [text, isCut]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, and the keyboard must reach that
    <div className="long-text" translate="no" role="region" aria-label={label} tabIndex={0}>
      {text === "" ? (
        <p className="faint">
          <Trans>(empty)</Trans>
        </p>
      ) : (
        parts.map((part, index) => (
          <div key={index} className="text long-text-part" data-code={isCode} dir="auto">
            {part}
          </div>
        ))
      )}
      {!isCut && end}
      {isCut && (
        <p className="long-text-more">
          <span className="soft">
            <Trans>
              {count(SHOWN)} of {count(text.length)} characters
            </Trans>
          </span>
          <Button size="small" onClick={() => setWhole(true)}>
            <Trans>Show all</Trans>
          </Button>
        </p>
      )}
    </div>
  );
}
