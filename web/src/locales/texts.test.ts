// @vitest-environment node
/** Every text is in every language, and no text stands in the code without one. */
import { getCatalogs } from "@lingui/cli/api";
import { getConfig } from "@lingui/conf";
import ts from "typescript";
import { expect, test } from "vitest";

const [catalog] = await getCatalogs(getConfig());
const used = Object.keys((await catalog?.collect()) ?? {}).sort();
const read = async (locale: string) => (await catalog?.read(locale)) ?? {};

test.each(["en", "de"])("%s has the texts of the pages and no others: npm run texts", async (locale) => {
  const texts = await read(locale);
  expect(used.length).toBeGreaterThan(1000);
  expect(Object.keys(texts).sort()).toEqual(used);
  const missing = Object.values(texts).filter(({ translation }) => !translation);
  expect(missing.map(({ message }) => message)).toEqual([]);
});

/** What a text takes in: its values, its elements, and the forms of its plurals. */
function holes(text: string): string[] {
  const values = [...text.matchAll(/\{(\w+)(?=[,}])/g)].map(([, name]) => `{${name}}`);
  const elements = [...text.matchAll(/<\/?\d+\/?>/g)].map(([tag]) => tag);
  const forms = [...text.matchAll(/\b(one|other) \{/g)].map(([, form]) => form ?? "");
  return [...values, ...elements, ...forms].sort();
}

test("a text takes in the same in every language", async () => {
  const different = Object.values(await read("de")).filter(
    ({ message = "", translation = "" }) => String(holes(message)) !== String(holes(translation)),
  );
  expect(different.map(({ message }) => message)).toEqual([]);
});

/** Names that are the same in every language. */
const SAME = /^(UTC|CSV|JSON|YAML|Markdown|Callboard|A|B|p\d\d|Enter|Escape|Tab|Esc|Ctrl)$/;
/** Elements whose text is code, or is in the catalogs already. */
const OUTSIDE = new Set(["Trans", "Plural", "code", "Command", "kbd"]);
const ATTRIBUTES =
  /^(label|title|hint|what|placeholder|verb|word|under|empty|header|text|tip|data-tip|aria-label|alt)$/;
/** Attributes of these names that take names of the API. */
const CODE = [/latency\.tsx:.*(model|queue)$/];

/** `name` is a text where it begins as one, as of a fact or a tab. */
const isNamed = ({ name, initializer }: ts.JsxAttribute) =>
  name.getText() === "name" && /^"[A-Z]/.test(initializer?.getText() ?? "");

/** The values that an expression may have: of a condition, both. */
function branches(node: ts.Node | undefined): ts.Node[] {
  if (!node) return [];
  if (ts.isJsxExpression(node) || ts.isParenthesizedExpression(node)) return branches(node.expression);
  if (ts.isConditionalExpression(node)) return [...branches(node.whenTrue), ...branches(node.whenFalse)];
  return ts.isBinaryExpression(node) ? branches(node.right) : [node];
}

const isText = (text: string) => /[a-z]{2}/i.test(text) && !SAME.test(text.trim());

function literals(file: string, code: string): string[] {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const say = (node: ts.Node, text: string) => {
    const { line } = source.getLineAndCharacterOfPosition(node.getStart());
    found.push(`${file}:${line + 1}: ${text.trim().replace(/\s+/g, " ")}`);
  };
  const plain = (node: ts.Node | undefined) =>
    node && (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) && isText(node.text)
      ? say(node, node.text)
      : undefined;
  const visit = (node: ts.Node): void => {
    if (ts.isJsxElement(node) && OUTSIDE.has(node.openingElement.tagName.getText())) return;
    if (ts.isJsxSelfClosingElement(node) && OUTSIDE.has(node.tagName.getText())) return;
    if (ts.isJsxText(node) && isText(node.text)) say(node, node.text);
    if (ts.isJsxExpression(node) && !ts.isJsxAttribute(node.parent))
      for (const each of branches(node)) plain(each);
    if (ts.isJsxAttribute(node) && (ATTRIBUTES.test(node.name.getText()) || isNamed(node)))
      for (const each of branches(node.initializer)) plain(each);
    if (ts.isPropertyAssignment(node) && /^(label|title|header|hint|word)$/.test(node.name.getText()))
      plain(node.initializer);
    if (ts.isCallExpression(node) && /^toast(Error)?$/.test(node.expression.getText()))
      for (const argument of node.arguments) plain(argument);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found.filter((each) => !CODE.some((pattern) => pattern.test(each)));
}

test("no text stands in the pages without a macro", () => {
  const files = import.meta.glob<string>("../**/*.{ts,tsx}", {
    query: "?raw",
    import: "default",
    eager: true,
  });
  const found = Object.entries(files).map(([name, code]) =>
    /\.test\.tsx?$|\.d\.ts$/.test(name) ? [] : literals(name, code),
  );
  expect(found.flat()).toEqual([]);
});

test("the search for such texts finds them", () => {
  const code = "const a = <p>Hello <b title=\"World\">{toast('You')}</b><Trans>No</Trans> UTC</p>;";
  expect(literals("a.tsx", code).map((each) => each.slice("a.tsx:1: ".length))).toEqual([
    "Hello",
    "World",
    "You",
  ]);
});
