/** The guides of docs/, each a chunk of its own, and their list from docs/README.md. */
import { lexer, type Token, type Tokens } from "marked";
import readme from "../../../../docs/README.md?raw";

const files = import.meta.glob<string>("../../../../docs/**/*.md", { query: "?raw", import: "default" });
const ROOT = "../../../../docs/";

export const isGuide = (file: string) => `${ROOT}${file}` in files;

/** The file of an address: `how-to/review`, or nothing for the first page. */
export const fileOf = (address: string) => (address === "" ? "README.md" : `${address}.md`);

export async function readGuide(address: string): Promise<string | undefined> {
  return files[`${ROOT}${fileOf(address)}`]?.();
}

export type Section = { title: string; guides: { address: string; title: string }[] };

/** The sections of the guides, with those that are guides. */
export function sections(text = readme, known = isGuide): Section[] {
  const found: Section[] = [];
  for (const token of lexer(text)) {
    if (token.type === "heading" && (token as Tokens.Heading).depth === 2) {
      found.push({ title: (token as Tokens.Heading).text, guides: [] });
    }
    for (const { href, text: title } of links(token)) {
      if (known(href)) found.at(-1)?.guides.push({ address: href.replace(/\.md$/, ""), title });
    }
  }
  return found.filter(({ guides }) => guides.length > 0);
}

function links(token: Token): Tokens.Link[] {
  if (token.type === "link") return [token as Tokens.Link];
  const table = token as Tokens.Table;
  const cells =
    token.type === "table" ? [...table.header, ...table.rows.flat()].flatMap((cell) => cell.tokens) : [];
  const items = token.type === "list" ? (token as Tokens.List).items : [];
  const inner = "tokens" in token && token.tokens ? token.tokens : [];
  return [...cells, ...items, ...inner].flatMap(links);
}
