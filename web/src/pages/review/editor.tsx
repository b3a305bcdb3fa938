/** The editor and the difference, by CodeMirror; a chunk of its own. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension, Transaction } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { t } from "@lingui/core/macro";
import { useEffect, useRef } from "react";
import { useNarrow } from "../../lib/narrow";

/** Styles in a shadow root are made by scripts, which the policy allows; a style element it does not. */
function shadow(host: HTMLElement): { root: ShadowRoot; parent: HTMLElement } {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  root.replaceChildren(parent);
  return { root, parent };
}

const look = EditorView.theme({
  "&": { fontSize: "12.5px", color: "var(--text)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-line": { padding: "0 14px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "0" },
  "&.cm-focused .cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, ::selection": { backgroundColor: "var(--accent-soft)" },
  ".cm-changedLine, &.cm-merge-b .cm-changedLine": { backgroundColor: "var(--good-soft)" },
  ".cm-deletedChunk": { paddingLeft: "14px" },
  ".cm-deletedChunk, &.cm-merge-a .cm-changedLine": { backgroundColor: "var(--bad-soft)" },
  ".cm-changedText, &.cm-merge-b .cm-changedText": {
    background: "none",
    textDecoration: "underline 2px var(--good)",
  },
  ".cm-deletedText, &.cm-merge-a .cm-changedText": {
    background: "none",
    textDecoration: "underline 2px var(--bad)",
  },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-collapsedLines": { background: "var(--sunken)", color: "var(--text-2)" },
});

function common(label: string): Extension[] {
  return [
    look,
    lineNumbers(),
    highlightSpecialChars(),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "true", translate: "no" }),
  ];
}

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
    const state = EditorState.create({
      doc: start.current.text,
      extensions: [
        common(t`Edited output`),
        history(),
        keymap.of([...defaultKeymap, ...historyKeymap]),
        unifiedMergeView({ original, mergeControls: false, gutter: true }),
        EditorView.updateListener.of((update) => {
          const isGiven = update.transactions.some((each) => each.annotation(Transaction.remote));
          if (update.docChanged && !isGiven) calls.current.onChange(update.state.doc.toString());
        }),
        EditorView.domEventHandlers({
          keydown: (event) => {
            if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) {
              event.preventDefault();
              calls.current.onDone();
              return true;
            }
            return false;
          },
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

/** Two texts: beside each other, or one under the other where there is no room. */
export function Diff({ before, after, names }: { before: string; after: string; names: [string, string] }) {
  const host = useRef<HTMLDivElement>(null);
  const [left, right] = names;
  const isNarrow = useNarrow();
  useEffect(() => {
    if (!host.current) return;
    const { root, parent } = shadow(host.current);
    const only = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
    const focusable = EditorView.contentAttributes.of({ tabindex: "0", translate: "no" });
    const collapseUnchanged = { margin: 3, minSize: 6 };
    if (isNarrow) {
      const merged = unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged });
      const extensions = [common(t`${left} to ${right}`), only, focusable, merged];
      const view = new EditorView({ doc: after, extensions, root, parent });
      return () => view.destroy();
    }
    const view = new MergeView({
      a: { doc: before, extensions: [common(left), only, focusable] },
      b: { doc: after, extensions: [common(right), only, focusable] },
      root,
      parent,
      collapseUnchanged,
    });
    return () => view.destroy();
  }, [before, after, left, right, isNarrow]);
  return <div className="review-editor" ref={host} />;
}
