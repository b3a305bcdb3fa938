/** The editor of definitions, and the difference of two texts, by CodeMirror; a chunk of its own. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  EditorView,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { t } from "@lingui/core/macro";
import { useEffect, useRef } from "react";
import { useNarrow } from "../../lib/narrow";
import type { Placed } from "./faults";

/** Scripts may style what is in a shadow root; the policy refuses a style element in the page. */
function shadow(host: HTMLElement): { root: ShadowRoot; parent: HTMLElement } {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  parent.style.cssText = "height:100%";
  root.replaceChildren(parent);
  return { root, parent };
}

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "12.5px", color: "var(--text)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-line": { padding: "0 12px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "0" },
  "&.cm-focused .cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, ::selection": { backgroundColor: "var(--accent-soft)" },
  ".definition-fault-line": {
    backgroundColor: "var(--bad-soft)",
    boxShadow: "inset 3px 0 0 var(--bad)",
  },
  ".cm-changedLine, &.cm-merge-b .cm-changedLine": { backgroundColor: "var(--good-soft)" },
  ".cm-deletedChunk": { paddingLeft: "12px" },
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
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
  ".cm-collapsedLines": { background: "var(--sunken)", color: "var(--text-2)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.comment, tags.meta], color: "var(--text-3)" },
]);

const YAML: Extension = [yaml(), syntaxHighlighting(colours)];

function common(label: string, language: Extension): Extension[] {
  return [
    look,
    language,
    lineNumbers(),
    highlightSpecialChars(),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", translate: "no" }),
  ];
}

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
        common(label, YAML),
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

/** A difference that takes longer is told in larger pieces. */
const PRECISE = { scanLimit: 500, timeout: 300 };

/** Two texts: beside each other, or one under the other where there is no room. */
export function TextDiff({
  before,
  after,
  names,
  isYaml = false,
}: {
  before: string;
  after: string;
  names: [string, string];
  isYaml?: boolean;
}) {
  const host = useRef<HTMLDivElement>(null);
  const [left, right] = names;
  const isNarrow = useNarrow();
  useEffect(() => {
    if (!host.current) return;
    const { root, parent } = shadow(host.current);
    const fixed = [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.contentAttributes.of({ tabindex: "0", translate: "no" }),
    ];
    const language = isYaml ? YAML : [];
    const folded = { margin: 3, minSize: 6 };
    if (isNarrow) {
      const view = new EditorView({
        doc: after,
        extensions: [
          common(t`${left} to ${right}`, language),
          fixed,
          unifiedMergeView({
            original: before,
            mergeControls: false,
            collapseUnchanged: folded,
            diffConfig: PRECISE,
          }),
        ],
        root,
        parent,
      });
      return () => view.destroy();
    }
    const view = new MergeView({
      a: { doc: before, extensions: [common(left, language), fixed] },
      b: { doc: after, extensions: [common(right, language), fixed] },
      root,
      parent,
      collapseUnchanged: folded,
      diffConfig: PRECISE,
    });
    return () => view.destroy();
  }, [before, after, left, right, isNarrow, isYaml]);
  return <div className="definition-code" ref={host} />;
}
