/**
 * Markdown of a model: links show their address, images are their words and address, and nothing that is written is
 * left out. A text of which Markdown would hide a part has no elements.
 */
import { lexer, type Token, type Tokens } from "marked";
import { isValidElement, type ReactNode } from "react";
import { visible } from "../../lib/visible";
import { elements, type Ways } from "./markdown";

/** What a letter or a list of figures would not have by chance. */
const SIGNS = new Set([
  "heading",
  "table",
  "list",
  "code",
  "blockquote",
  "strong",
  "em",
  "codespan",
  "link",
  "image",
]);

/** The elements of a text, `"text"` if it has no Markdown, `"partly"` if Markdown would hide a part of it. */
export function markdownOf(text: string): ReactNode[] | "text" | "partly" {
  const shown = visible(text);
  const tokens = lexer(shown);
  if (!hasSigns(tokens)) return "text";
  const nodes = elements(tokens, WAYS);
  return letters(wordsOf(nodes)) === letters(shown) ? nodes : "partly";
}

function hasSigns(tokens: Token[]): boolean {
  return tokens.some((token) => {
    // Indented lines are no code, and an address by itself is no link, unless they are written as such.
    const isPlain =
      (token.type === "code" && (token as Tokens.Code).codeBlockStyle === "indented") ||
      (token.type === "link" && token.raw === (token as Tokens.Link).text);
    if (SIGNS.has(token.type) && !isPlain) return true;
    return "tokens" in token && token.tokens !== undefined && hasSigns(token.tokens);
  });
}

const letters = (text: string) => text.replace(/[^\p{L}\p{N}]/gu, "");

/** All that is shown of elements. */
function wordsOf(node: ReactNode): string {
  if (Array.isArray(node)) return node.map(wordsOf).join("");
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (!isValidElement<Record<string, ReactNode>>(node)) return "";
  const { children, value, "data-lang": lang } = node.props;
  return `${value ?? ""}${lang ?? ""}${wordsOf(children)}`;
}

const WAYS: Ways = {
  heading: (depth, _, children) => (
    <p className="markdown-heading" data-depth={depth}>
      {children}
    </p>
  ),
  link: ({ href, text, title }, children) => {
    if (href === text || href === `http://${text}` || href === `mailto:${text}`) return address(href, text);
    return (
      <>
        {children} ({address(href, href)}
        {title && ` “${title}”`})
      </>
    );
  },
  image: ({ href, text, title }) => (
    <span className="markdown-image">
      {text} ({href}
      {title && ` “${title}”`})
    </span>
  ),
  definition: (raw) => <p className="markdown-raw">{raw}</p>,
};

/** An address that says where it leads; one that would lead elsewhere than it says is a text. */
function address(href: string, shown: string): ReactNode {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  const isPlain = url && [href, `${href}/`].includes(url.href);
  if (!url || !isPlain || !["http:", "https:", "mailto:"].includes(url.protocol)) return shown;
  return (
    <a href={url.href} target="_blank" rel="noreferrer noopener nofollow">
      {shown}
    </a>
  );
}
