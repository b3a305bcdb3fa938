/** A guide: links lead to guides, into the page, or to an address of the web in another tab. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { elements, type Ways } from "../../ui/read/markdown";

/** How the guides' own addresses are found: the file that the text is in, and whether a file is a guide. */
export type Place = { file: string; isGuide: (file: string) => boolean };

export function Markdown({ text, place }: { text: string; place: Place }) {
  return <>{elements(text, waysOf(place))}</>;
}

function waysOf(place: Place): Ways {
  const used = new Map<string, number>();
  return {
    heading: (depth, text, children) => {
      const Name = `h${Math.min(depth, 6)}` as "h2";
      return <Name id={slug(text, used)}>{children}</Name>;
    },
    link: ({ href }, children) => anchor(href, children, place),
    image: ({ text }) => text,
    definition: () => null,
  };
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

function anchor(href: string, text: ReactNode, place: Place): ReactNode {
  if (/^https?:\/\//.test(href)) {
    return (
      <a href={href} target="_blank" rel="noreferrer">
        {text}
      </a>
    );
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) return text;
  const { pathname, hash } = new URL(href, `http://guides/${place.file}`);
  // The browser itself goes to a place of the page; the router would only change the address.
  if (hash && decodeURI(pathname.slice(1)) === place.file) return <a href={hash}>{text}</a>;
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
