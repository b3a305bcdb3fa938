/**
 * Text of a model or a caller, made visible as it is: what would steer a terminal or turn the direction of the
 * text is shown as a sign, so that nothing is hidden from a reviewer. React makes text nodes of it.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000d\u000e-\u001f\u007f\u0080-\u009f]/g;
/** Direction marks, embeddings, overrides and isolates; zero-width characters; tags. */
const INVISIBLE = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

export function visible(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(CONTROL, (found) => {
      const code = found.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      return code === 0x7f ? "␡" : `‹${code.toString(16).toUpperCase()}›`;
    })
    .replace(INVISIBLE, (found) => {
      // A joiner between two emoji, or in scripts that need it, is part of the letter.
      if (found === "\u200d" || found === "\u200c") return found;
      return `‹U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;
    });
}

/** Pieces of a long text, cut at lines where there are any, so that what is out of view need not be laid out. */
export function pieces(text: string, size = 8_000): string[] {
  const found: string[] = [];
  for (let from = 0; from < text.length; ) {
    let to = Math.min(text.length, from + size);
    if (to < text.length) {
      const line = text.lastIndexOf("\n", to - 1);
      if (line > from) to = line + 1;
      else if (/[\udc00-\udfff]/.test(text.charAt(to))) to -= 1;
    }
    found.push(text.slice(from, to));
    from = to;
  }
  return found.length > 0 ? found : [""];
}
