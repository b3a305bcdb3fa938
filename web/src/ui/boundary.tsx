/** A part that cannot be shown leaves the others as they are: its script did not come, or it has an error. */
import { t } from "@lingui/core/macro";
import { Component, type ReactNode } from "react";
import { Failed } from "./basics";

export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    // A script that did not come is not asked for again before the page is.
    return (
      <Failed error={error} what={t`This part cannot be shown`} retry={() => window.location.reload()} />
    );
  }
}
