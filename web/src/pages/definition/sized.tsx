/** As high as its table needs, within bounds; a `Table` fills the height it is given. */
import type { ReactNode } from "react";
import "./definition.css";

export function Sized({ rows, children }: { rows: number; children: ReactNode }) {
  return (
    <div className="definition-sized" style={{ "--rows": Math.max(1, rows) } as React.CSSProperties}>
      {children}
    </div>
  );
}
