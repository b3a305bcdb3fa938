/**
 * Markdown as elements. Raw HTML in it is shown as the text that it is; a link leads into the guides, into the
 * page, or to an address of the web in another tab.
 */
import { lexer, type Token, type Tokens } from "marked";
import { Fragment, type ReactNode } from "react";
import { Link } from "wouter";

/** How the guides' own addresses are found: the file that the text is in, and whether a file is a guide. */
export type Place = { file: string; isGuide: (file: string) => boolean };

export function Markdown({ text, place }: { text: string; place: Place }) {
  const used = new Map<string, number>();
  return (
    <>
      {lexer(text).map((token, index) => (
        <Fragment key={index}>{block(token, place, used)}</Fragment>
      ))}
    </>
  );
}

/** The name of a heading in an address, as GitHub makes it. */
export function slug(text: string, used: Map<string, number> = new Map()): string {
  const name = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
  const times = used.get(name) ?? 0;
  used.set(name, times + 1);
  return times === 0 ? name : `${name}-${times}`;
}

function block(token: Token, place: Place, used: Map<string, number>): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      const { depth, tokens, text } = token as Tokens.Heading;
      const Name = `h${Math.min(depth, 6)}` as "h2";
      return <Name id={slug(plain(tokens) || text, used)}>{inlines(tokens, place)}</Name>;
    }
    case "paragraph":
      return <p>{inlines((token as Tokens.Paragraph).tokens, place)}</p>;
    case "code":
      // It scrolls, so the keyboard must reach it.
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: as above
        <pre translate="no" tabIndex={0}>
          <code translate="no">{(token as Tokens.Code).text}</code>
        </pre>
      );
    case "blockquote":
      return (
        <blockquote>
          {(token as Tokens.Blockquote).tokens.map((each, index) => (
            <Fragment key={index}>{block(each, place, used)}</Fragment>
          ))}
        </blockquote>
      );
    case "hr":
      return <hr />;
    case "list": {
      const { ordered, start, items } = token as Tokens.List;
      const children = items.map((item, index) => (
        <li key={index}>
          {item.tokens.map((each, inner) => (
            <Fragment key={inner}>{block(each, place, used)}</Fragment>
          ))}
        </li>
      ));
      return ordered ? <ol start={Number(start) || 1}>{children}</ol> : <ul>{children}</ul>;
    }
    case "table": {
      const { header, rows, align } = token as Tokens.Table;
      const isNumber = (index: number) => (align[index] === "right" ? "num" : undefined);
      const isEmpty = header.every((cell) => cell.text.trim() === "");
      return (
        <div
          className="docs-table"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
          tabIndex={0}
          role="region"
          aria-label={header.map((cell) => cell.text).join(", ") || "Table"}
        >
          <table className="definition-table">
            {!isEmpty && (
              <thead>
                <tr>
                  {header.map((cell, index) => (
                    <Head key={index} className={isNumber(index)} text={cell.text}>
                      {inlines(cell.tokens, place)}
                    </Head>
                  ))}
                </tr>
              </thead>
            )}
            <tbody>
              {rows.map((row, line) => (
                <tr key={line}>
                  {row.map((cell, index) => (
                    <td key={index} className={isNumber(index)}>
                      {inlines(cell.tokens, place)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inlines(tokens, place) : text;
    }
    default:
      // Raw HTML, and unknown elements.
      return <p>{token.raw}</p>;
  }
}

/** A heading of a column; one without a text is a cell. */
function Head({ className, text, children }: { className?: string; text: string; children: ReactNode }) {
  return text.trim() === "" ? (
    <td />
  ) : (
    <th scope="col" className={className}>
      {children}
    </th>
  );
}

function inlines(tokens: Token[] | undefined, place: Place): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{inline(token, place)}</Fragment>);
}

function inline(token: Token, place: Place): ReactNode {
  switch (token.type) {
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inlines(tokens, place) : text;
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "strong":
      return <strong>{inlines((token as Tokens.Strong).tokens, place)}</strong>;
    case "em":
      return <em>{inlines((token as Tokens.Em).tokens, place)}</em>;
    case "del":
      return <del>{inlines((token as Tokens.Del).tokens, place)}</del>;
    case "codespan":
      return <code translate="no">{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return anchor(href, inlines(tokens, place), place);
    }
    case "image":
      return (token as Tokens.Image).text;
    default:
      return token.raw;
  }
}

function anchor(href: string, text: ReactNode, place: Place): ReactNode {
  if (/^https?:\/\//.test(href)) {
    return (
      <a href={href} target="_blank" rel="noreferrer">
        {text}
      </a>
    );
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) return text;
  const to = address(href, place);
  return to === undefined ? text : <Link href={to}>{text}</Link>;
}

/** The address of a guide that a link in a file leads to; nothing where it leads out of the guides. */
export function address(href: string, { file, isGuide }: Place): string | undefined {
  const url = new URL(href, `http://guides/${file}`);
  const path = decodeURIComponent(url.pathname).slice(1);
  if (path === file || isGuide(path))
    return `/docs/${path.replace(/(^|\/)README\.md$/, "").replace(/\.md$/, "")}${url.hash}`;
  return undefined;
}

function plain(tokens: Token[] | undefined): string {
  return (
    tokens
      ?.map((token) =>
        "tokens" in token && token.tokens ? plain(token.tokens) : ((token as Tokens.Text).text ?? ""),
      )
      .join("") ?? ""
  );
}
