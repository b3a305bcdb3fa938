/** As high as its table needs, within bounds; a `Table` fills the height it is given. */
import { t } from "@lingui/core/macro";
import type { ReactNode } from "react";
import "./plain.css";

export function Sized({ rows, children }: { rows: number; children: ReactNode }) {
  return (
    <div className="sized" style={{ "--rows": Math.max(1, rows) } as React.CSSProperties}>
      {children}
    </div>
  );
}

/** What is wider than its place scrolls, by the keyboard too. */
export function Scroll({ children }: { children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
    <div className="sized-scroll" tabIndex={0} role="group" aria-label={t`Table`}>
      {children}
    </div>
  );
}
