/** The editor of definitions, and the difference of two texts, by CodeMirror; a chunk of its own. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { common, shadow } from "../../ui/code";
import { Diff } from "../../ui/diff";
import type { Placed } from "./faults";

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.comment, tags.meta], color: "var(--text-3)" },
]);

const YAML: Extension = [yaml(), syntaxHighlighting(colours)];

const FAULTS = EditorView.theme({
  ".definition-fault-line": {
    backgroundColor: "var(--bad-soft)",
    boxShadow: "inset 3px 0 0 var(--bad)",
  },
});

const setFaults = StateEffect.define<number[]>();
const faultLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(known, change) {
    let marks = known.map(change.changes);
    for (const effect of change.effects) {
      if (!effect.is(setFaults)) continue;
      const builder = new RangeSetBuilder<Decoration>();
      const lines = [...new Set(effect.value)].filter((line) => line <= change.state.doc.lines);
      for (const line of lines.sort((a, b) => a - b)) {
        const { from } = change.state.doc.line(line);
        builder.add(from, from, Decoration.line({ class: "definition-fault-line" }));
      }
      marks = builder.finish();
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

type EditProps = {
  label: string;
  text: string;
  faults: Placed[];
  onChange: (text: string) => void;
  /** A line to go to; a new object goes there again. */
  goTo?: { line: number };
};

/** Edits a text in YAML. Tab leaves it, as everywhere on the page. */
export function YamlEditor({ label, text, faults, onChange, goTo }: EditProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const start = useRef(text);
  useEffect(() => {
    if (!host.current) return;
    const { root, parent } = shadow(host.current);
    const state = EditorState.create({
      doc: start.current,
      extensions: [
        common(label),
        YAML,
        FAULTS,
        faultLines,
        history(),
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed.current(update.state.doc.toString());
        }),
      ],
    });
    const editor = new EditorView({ state, root, parent });
    view.current = editor;
    return () => editor.destroy();
  }, [label]);
  useEffect(() => {
    const lines = faults.flatMap(({ line }) => (line === undefined ? [] : [line]));
    view.current?.dispatch({ effects: setFaults.of(lines) });
  }, [faults]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || !goTo || goTo.line > editor.state.doc.lines) return;
    const { from } = editor.state.doc.line(goTo.line);
    editor.dispatch({
      selection: { anchor: from },
      effects: EditorView.scrollIntoView(from, { y: "center" }),
    });
    editor.focus();
  }, [goTo]);
  return <div className="definition-code" ref={host} />;
}

/** Two definitions in YAML. */
export function YamlDiff(props: { before: string; after: string; names: [string, string] }) {
  return <Diff {...props} className="definition-code" language={YAML} />;
}
