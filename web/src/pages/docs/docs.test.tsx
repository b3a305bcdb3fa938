import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { sections } from "./guides";
import { address, Markdown, slug } from "./markdown";
import { bounds, type Document, inner, matching, members, operations, typeText } from "./openapi";

const place = { file: "how-to/review.md", isGuide: (file: string) => file === "reference/tasks.md" };
const html = (text: string) => renderToStaticMarkup(<Markdown text={text} place={place} />);

describe("guides", () => {
  it("show raw HTML as text, and link to no script", () => {
    expect(html("<script>alert(1)</script>")).toContain("&lt;script&gt;");
    expect(html("a <b onclick=x>c</b>")).not.toContain("<b");
    expect(html("[x](javascript:alert(1))")).not.toContain("href");
    expect(html("![x](http://evil/a.png)")).not.toContain("<img");
  });
  it("link to guides, to headings, and out of the page", () => {
    expect(address("../reference/tasks.md#retries", place)).toBe("/docs/reference/tasks#retries");
    expect(address("#steps", place)).toBe("/docs/how-to/review#steps");
    expect(address("../../config/callboard.toml", place)).toBeUndefined();
    expect(html("[web](https://example.com)")).toContain('rel="noreferrer"');
    expect(html("[here](#steps) and [here](review.md#steps)").split('href="#steps"')).toHaveLength(3);
  });
  it("name headings as GitHub does", () => {
    const used = new Map();
    expect(slug("What `a_b` is: a test!", used)).toBe("what-a_b-is-a-test");
    expect(slug("What `a_b` is: a test!", used)).toBe("what-a_b-is-a-test-1");
  });
  it("render tables, lists, code and emphasis", () => {
    const shown = html("| a | b |\n|---|--:|\n| `x` | **1** |\n\n- one\n\n      code <i>\n");
    expect(shown).toContain('<code translate="no">x</code>');
    expect(shown).toContain('<td class="num"><strong>1</strong></td>');
    expect(shown).toContain("code &lt;i&gt;");
  });
  it("are listed as the first page lists them", () => {
    const all = sections();
    expect(all.map(({ title }) => title)).toContain("Get something done");
    expect(all.flatMap(({ guides }) => guides.map((guide) => guide.address))).toContain("reference/tasks");
  });
});

const document: Document = {
  info: { title: "t", version: "1" },
  paths: {
    "/api/things/{id}": {
      post: {
        tags: ["things"],
        summary: "Make a thing.",
        operationId: "things_make",
        security: [{ bearer: [] }],
        "x-callboard-action": "things: make",
        parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
        requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Thing" } } } },
        responses: {
          "400": { $ref: "#/components/responses/Failure" },
          "200": {
            description: "it",
            content: {
              "application/json": {
                schema: {
                  properties: {
                    success: { const: true },
                    data: { type: "array", items: { $ref: "#/components/schemas/Thing" } },
                  },
                },
              },
            },
          },
        },
      },
    },
  },
  components: {
    schemas: {
      Thing: {
        allOf: [
          { properties: { a: { type: ["string", "null"] } } },
          { required: ["b"], properties: { b: { type: "integer" } } },
        ],
      },
    },
    responses: { Failure: { description: "refused" } },
  },
};

describe("operations", () => {
  const [one] = operations(document);
  if (!one) throw new Error("no operation");
  it("have what they take and answer, out of the envelope", () => {
    expect(one).toMatchObject({ method: "POST", tag: "things", action: "things: make", isPublic: false });
    expect(one.answers.map(({ status, description }) => [status, description])).toEqual([
      ["200", "it"],
      ["400", "refused"],
    ]);
    expect(typeText(document, one.answers[0]?.schema ?? {})).toBe("list of Thing");
    const found = members(document, inner(document, one.answers[0]?.schema ?? {}));
    expect(found.map(([name, , required]) => [name, required])).toEqual([
      ["a", false],
      ["b", true],
    ]);
  });
  it("are found by every word", () => {
    expect(matching([one], "make POST")).toHaveLength(1);
    expect(matching([one], "make delete")).toHaveLength(0);
  });
  it("say bounds and types in words", () => {
    expect(bounds({ minimum: 0, maximum: 1 })).toBe("0 to 1");
    expect(bounds({ maxLength: 5, pattern: "^a" })).toBe("at most 5 characters; matches ^a");
    expect(typeText(document, { enum: ["a", null] })).toBe("a");
    expect(typeText(document, { anyOf: [{ $ref: "#/components/schemas/Thing" }, { type: "null" }] })).toBe(
      "Thing",
    );
  });
});
