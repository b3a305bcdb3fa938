/**
 * Markdown as elements. Raw HTML in it is the text that it is, and nothing is loaded. Headings, links, images and
 * definitions of links are shown as `ways` says: guides and texts of a model differ in them.
 */
import { t } from "@lingui/core/macro";
import { lexer, type Token, type Tokens } from "marked";
import { Fragment, type ReactNode } from "react";
import "./markdown.css";

export type Ways = {
  heading: (depth: number, text: string, children: ReactNode) => ReactNode;
  link: (link: Tokens.Link, children: ReactNode) => ReactNode;
  image: (image: Tokens.Image) => ReactNode;
  /** A definition of a link, which Markdown shows nowhere. */
  definition: (raw: string) => ReactNode;
};

/** The elements of a text, or of the tokens of one. */
export const elements = (text: string | Token[], ways: Ways): ReactNode[] =>
  (typeof text === "string" ? lexer(text) : text).map((token, index) => (
    <Fragment key={index}>{block(token, ways)}</Fragment>
  ));

function block(token: Token, ways: Ways): ReactNode {
  switch (token.type) {
    case "space":
      return null;
    case "checkbox":
      return token.raw;
    case "def":
      return ways.definition(token.raw);
    case "heading": {
      const { depth, tokens, text } = token as Tokens.Heading;
      return ways.heading(depth, plain(tokens) || text, inlines(tokens, ways));
    }
    case "paragraph":
      return <p>{inlines((token as Tokens.Paragraph).tokens, ways)}</p>;
    case "code":
      // It scrolls, so the keyboard must reach it.
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: as above
        <pre translate="no" tabIndex={0} data-lang={(token as Tokens.Code).lang || undefined}>
          <code translate="no">{(token as Tokens.Code).text}</code>
        </pre>
      );
    case "blockquote":
      return (
        <blockquote>
          {(token as Tokens.Blockquote).tokens.map((each, index) => (
            <Fragment key={index}>{block(each, ways)}</Fragment>
          ))}
        </blockquote>
      );
    case "hr":
      return <hr />;
    case "list": {
      const { ordered, items } = token as Tokens.List;
      const children = items.map((item, index) => (
        // The number that is written, whichever it is.
        <li key={index} value={ordered ? Number.parseInt(item.raw, 10) : undefined}>
          {item.tokens.map((each, inner) => (
            <Fragment key={inner}>{block(each, ways)}</Fragment>
          ))}
        </li>
      ));
      return ordered ? <ol>{children}</ol> : <ul>{children}</ul>;
    }
    case "table": {
      const { header, rows, align } = token as Tokens.Table;
      const isNumber = (index: number) => (align[index] === "right" ? "num" : undefined);
      const isEmpty = header.every((cell) => cell.text.trim() === "");
      return (
        <div
          className="markdown-table"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
          tabIndex={0}
          role="region"
          aria-label={header.map((cell) => cell.text).join(", ") || t`Table`}
        >
          <table>
            {!isEmpty && (
              <thead>
                <tr>
                  {header.map((cell, index) => (
                    <Head key={index} className={isNumber(index)} text={cell.text}>
                      {inlines(cell.tokens, ways)}
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
                      {inlines(cell.tokens, ways)}
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
      return tokens ? inlines(tokens, ways) : text;
    }
    default:
      // Raw HTML, and unknown elements.
      return <p className="markdown-raw">{token.raw}</p>;
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

function inlines(tokens: Token[] | undefined, ways: Ways): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{inline(token, ways)}</Fragment>);
}

function inline(token: Token, ways: Ways): ReactNode {
  switch (token.type) {
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inlines(tokens, ways) : text;
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "strong":
      return <strong>{inlines((token as Tokens.Strong).tokens, ways)}</strong>;
    case "em":
      return <em>{inlines((token as Tokens.Em).tokens, ways)}</em>;
    case "del":
      return <del>{inlines((token as Tokens.Del).tokens, ways)}</del>;
    case "codespan":
      return <code translate="no">{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link": {
      const link = token as Tokens.Link;
      return ways.link(link, inlines(link.tokens, ways));
    }
    case "image":
      return ways.image(token as Tokens.Image);
    default:
      return token.raw;
  }
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
