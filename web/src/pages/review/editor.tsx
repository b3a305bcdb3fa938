/** The editor of an output, by CodeMirror; a chunk of its own. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState, Transaction } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { t } from "@lingui/core/macro";
import { useEffect, useRef } from "react";
import { common, shadow } from "../../ui/code";

type EditProps = {
  text: string;
  original: string;
  /** Takes the focus once it is there. */
  focus: boolean;
  onChange: (text: string) => void;
  onDone: () => void;
};

/** Edits a text; what differs from the original is marked. Ctrl+Enter is done. Another `text` takes its place. */
export function Edit({ text, original, focus, onChange, onDone }: EditProps) {
  const host = useRef<HTMLDivElement>(null);
  const calls = useRef({ onChange, onDone });
  calls.current = { onChange, onDone };
  const start = useRef({ text, focus });
  const editor = useRef<EditorView>(undefined);
  useEffect(() => {
    if (!host.current) return;
    const { root, parent } = shadow(host.current);
    const done = () => {
      calls.current.onDone();
      return true;
    };
    const state = EditorState.create({
      doc: start.current.text,
      extensions: [
        common(t`Edited output`, true),
        history(),
        keymap.of([
          // Before the keys of the editor, whose Ctrl+Enter adds a line.
          ...["Mod-Enter", "Escape"].map((key) => ({ key, run: done })),
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        unifiedMergeView({ original, mergeControls: false, gutter: true }),
        EditorView.updateListener.of((update) => {
          const isGiven = update.transactions.some((each) => each.annotation(Transaction.remote));
          if (update.docChanged && !isGiven) calls.current.onChange(update.state.doc.toString());
        }),
      ],
    });
    const view = new EditorView({ state, root, parent });
    editor.current = view;
    if (start.current.focus) view.focus();
    return () => view.destroy();
  }, [original]);
  useEffect(() => {
    start.current.text = text;
    const view = editor.current;
    if (!view || view.state.doc.toString() === text) return;
    const changes = { from: 0, to: view.state.doc.length, insert: text };
    view.dispatch({ changes, annotations: Transaction.remote.of(true) });
  }, [text]);
  return <div className="review-editor" ref={host} />;
}
