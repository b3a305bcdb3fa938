/** Bad news on the page of a sign-in. */
import type { ReactNode } from "react";
import { Icon } from "../ui/icons";

export function Notice({ children }: { children: ReactNode }) {
  return (
    <div className="notice" data-tone="bad" role="alert">
      <span className="status" data-tone="bad">
        <Icon name="warn" />
      </span>
      <div className="grow">{children}</div>
    </div>
  );
}
