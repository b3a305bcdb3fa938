import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { Members } from "./json";
import { markdownOf } from "./untrusted";

const html = (text: string) => {
  const found = markdownOf(text);
  return typeof found === "string" ? found : renderToStaticMarkup(found);
};

describe("Markdown of a model", () => {
  it("is read as elements: headings, tables, lists with the numbers that are written, tasks", () => {
    expect(html("# Offer\n\n| a | b |\n|---|--:|\n| x | 1 |")).toContain('<td class="num">1</td>');
    expect(html("3. three\n4. four")).toContain('<li value="3">three</li>');
    expect(html("- [x] done\n- [ ] open")).toMatch(/\[x\] ?done/);
    expect(html("a *word*\nof two lines")).toContain("<em>word</em>\nof two lines");
  });

  it("is text where nobody wrote Markdown", () => {
    expect(html("Dear Ms Able,\n\nwe pay 3 * 4 EUR.\nhttps://example.com/a\n\nYours")).toBe("text");
  });

  it("shows where a link leads, and links only where it says", () => {
    expect(html("[bank](https://evil.example/x)")).toContain(">https://evil.example/x</a>");
    expect(html("[bank](https://evil.example/x)")).toMatch(/^<p>bank \(<a/);
    expect(html("[a](javascript:alert(1))")).not.toContain("<a");
    expect(html("[a](https://bänk.example)")).not.toContain("<a");
    expect(html("**b** https://example.com/a")).toContain('href="https://example.com/a"');
  });

  it("loads and runs nothing", () => {
    const shown = html('**b** <img src=x onerror=a()> <script>a()</script> ![pic](http://evil/a.png "t")');
    expect(shown).not.toMatch(/<img|<script/);
    expect(shown).toContain("pic (http://evil/a.png “t”)");
    expect(shown).toContain("&lt;script&gt;");
  });

  it("hides nothing: neither comments, titles, definitions nor the name of a language", () => {
    expect(html("**b** <!-- secret -->")).toContain("&lt;!-- secret --&gt;");
    expect(html('[a](https://e.example "secret")')).toContain("“secret”");
    expect(html("```secret\nx\n```")).toContain('data-lang="secret"');
    expect(html("**b**\n\n[x]: https://e.example/secret")).toContain("secret");
    expect(html("| a |\n|---|\n| 1 | secret |")).toBe("partly");
    expect(html("**b** \u202ereversed")).toContain("‹U+202E›");
  });
});

it("JSON shows texts with their line breaks, like objects as a table, and what could be mistaken in quotes", () => {
  const shown = renderToStaticMarkup(
    <Members
      value={{ letter: "a\nb", number: 12, text: "12", none: null, rows: [{ n: 1 }, { n: 2 }], empty: [] }}
    />,
  );
  expect(shown).toContain(">a\nb</span>");
  expect(shown).toContain(">12</span>");
  expect(shown).toContain(">&quot;12&quot;</span>");
  expect(shown.match(/<tr>/g)).toHaveLength(3);
});
