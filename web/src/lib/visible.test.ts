import { expect, test } from "vitest";
import { pieces, visible } from "./visible";

test("what steers a terminal or the direction of a text is shown, not obeyed", () => {
  expect(visible("\u001b[31mred\u001b[0m\u0007\r\nok\rover\tt")).toBe("␛[31mred␛[0m␇\nok␍over\tt");
  expect(visible("a\u202egnp.exe")).toBe("a‹U+202E›gnp.exe");
  expect(visible("x\u200by\ufeff\u{e0041}")).toBe("x‹U+200B›y‹U+FEFF›‹U+E0041›");
  expect(visible("👩\u200d👧 שלום")).toBe("👩\u200d👧 שלום");
});

test("pieces are the whole text, cut at lines, and never within a character", () => {
  const text = `${"line of text\n".repeat(3000)}${"😀".repeat(9001)}`;
  const cut = pieces(text);
  expect(cut.join("")).toBe(text);
  expect(cut.length).toBeGreaterThan(4);
  expect(cut.every((piece) => piece.isWellFormed())).toBe(true);
  expect(pieces("")).toEqual([""]);
});
