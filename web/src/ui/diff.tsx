/** The difference of two texts, by CodeMirror; to be imported in a chunk of its own. */
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { t } from "@lingui/core/macro";
import { useEffect, useRef } from "react";
import { useNarrow } from "../lib/narrow";
import { common, shadow } from "./code";

type Props = {
  before: string;
  after: string;
  names: [string, string];
  className: string;
  /** The same object each time. */
  language?: Extension;
};

const SETTINGS = {
  collapseUnchanged: { margin: 3, minSize: 6 },
  // A difference that takes longer is told in larger pieces.
  diffConfig: { scanLimit: 500, timeout: 300 },
};
const READ_ONLY = [EditorState.readOnly.of(true), EditorView.editable.of(false)];

/** Two texts beside each other, or one under the other where there is no room. */
export function Diff({ before, after, names, className, language }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const [left, right] = names;
  const isNarrow = useNarrow();
  useEffect(() => {
    if (!host.current) return;
    const { root, parent } = shadow(host.current);
    const extensionsOf = (label: string) => [common(label), language ?? [], READ_ONLY];
    if (isNarrow) {
      const merged = unifiedMergeView({ original: before, mergeControls: false, ...SETTINGS });
      const extensions = [extensionsOf(t`${left} to ${right}`), merged];
      const view = new EditorView({ doc: after, extensions, root, parent });
      return () => view.destroy();
    }
    const view = new MergeView({
      a: { doc: before, extensions: extensionsOf(left) },
      b: { doc: after, extensions: extensionsOf(right) },
      root,
      parent,
      ...SETTINGS,
    });
    return () => view.destroy();
  }, [before, after, left, right, isNarrow, language]);
  return <div className={className} ref={host} />;
}
