/** How texts in CodeMirror look, in an editor and in a difference. */
import type { Extension } from "@codemirror/state";
import { EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";

/** Scripts may style what is in a shadow root; the policy refuses a style element in the page. */
export function shadow(host: HTMLElement): { root: ShadowRoot; parent: HTMLElement } {
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

/** What every such text has; `label` is its name. */
export function common(label: string, spellcheck = false): Extension[] {
  return [
    look,
    lineNumbers(),
    highlightSpecialChars(),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    // It takes the focus without being edited too, so that the keyboard can scroll it.
    EditorView.contentAttributes.of({
      "aria-label": label,
      spellcheck: String(spellcheck),
      tabindex: "0",
      translate: "no",
    }),
  ];
}
