// Writes the generated parts of the library, or with --check compares them with a fresh generation.
//
// Usage: node generate.mjs [--check] OPENAPI: a file with the document of a server. tests/generated.test.ts does it
// with the document of the server that it starts; CALLBOARD_WRITE_GOLDEN=1 makes it write.
//
//     src/schema.ts       the types of requests and answers, by openapi-typescript
//     src/requests.ts     the schemas of requests, which check.ts checks before a request is sent
//     table of libraries  the column of TypeScript in docs/reference/libraries.md, from the calls in the sources
import { readdir, readFile, writeFile } from "node:fs/promises";
import openapi, { astToString } from "openapi-typescript";
import ts from "typescript";

const SOURCES = new URL("src/", import.meta.url);
const TABLE = new URL("../../docs/reference/libraries.md", import.meta.url);
const MARK = "Written by sdk/typescript/generate.mjs from the OpenAPI document. Do not edit.";
const REFERENCE = "#/components/schemas/";
const METHODS = ["get", "post", "put", "patch", "delete"];

// Routes that the transport calls with paths of its own.
const STREAMS = {
  "GET /api/events": ["cb.events", "cb.cursor"],
  "GET /api/tasks/{id}/stream": ["cb.tasks.text", "cb.tasks.stream", "cb.tasks.run"],
  "GET /api/plans/executions/{id}/stream": ["cb.executions.follow"],
  "GET /api/workers/connect": ["Worker"],
};

/** The schemas that the parts of the document refer to, directly and through others. */
function reachable(document, parts) {
  const seen = new Set();
  const visit = (node) => {
    if (node === null || typeof node !== "object") return;
    const name = typeof node.$ref === "string" && node.$ref.replace(REFERENCE, "");
    if (name && !seen.has(name)) {
      seen.add(name);
      visit(document.components.schemas[name]);
    }
    Object.values(node).forEach(visit);
  };
  parts.forEach(visit);
  return seen;
}

function operations(document) {
  return Object.entries(document.paths).flatMap(([path, it]) =>
    Object.keys(it)
      .filter((method) => METHODS.includes(method))
      .map((method) => ({ path, method, operation: it[method] })),
  );
}

/** The types. Refusals are left out: they are exceptions. So is OpenAI's interface: its own library is for it. */
async function types(document) {
  const slim = structuredClone(document);
  for (const { path, method, operation } of operations(slim)) {
    if (!path.startsWith("/api/")) delete slim.paths[path];
    else {
      for (const status of Object.keys(operation.responses)) if (status >= "400") delete operation.responses[status];
      for (const it of Object.values(operation.responses)) delete it.headers;
      slim.paths[path][method].parameters = operation.parameters?.filter((it) => it.in !== "header");
    }
  }
  const kept = operations(slim).map((it) => it.operation);
  const requests = reachable(
    slim,
    kept.map((it) => it.requestBody ?? {}),
  );
  const answers = reachable(
    slim,
    kept.map((it) => it.responses),
  );
  for (const name of Object.keys(slim.components.schemas)) {
    if (!requests.has(name) && !answers.has(name)) delete slim.components.schemas[name];
    else if (!answers.has(name)) instants(slim.components.schemas[name]);
  }
  for (const it of kept) instants(it.parameters);
  delete slim.components.responses;
  const instant = ts.factory.createUnionTypeNode([
    ts.factory.createTypeReferenceNode("Date"),
    ts.factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword),
  ]);
  const ast = await openapi(slim, {
    emptyObjectsUnknown: true,
    rootTypes: true,
    rootTypesNoSchemaPrefix: true,
    transform: (it) =>
      it["x-instant"] &&
      (it.type.includes("null")
        ? ts.factory.createUnionTypeNode([instant, ts.factory.createLiteralTypeNode(ts.factory.createNull())])
        : instant),
  });
  return `// ${MARK}\n${astToString(ast)}`;
}

/** Marks the times of requests, which may be a `Date` or a text. */
function instants(node) {
  if (node === null || typeof node !== "object") return;
  if (node.format === "date-time") node["x-instant"] = true;
  Object.values(node).forEach(instants);
}

/** The schemas of requests without the texts, and without the numbers that JavaScript cannot hold. */
function requests(document) {
  const bodies = operations(document)
    .filter((it) => it.path.startsWith("/api/"))
    .map((it) => it.operation.requestBody ?? {});
  const slim = (node) => {
    if (Array.isArray(node)) return node.map(slim);
    if (node === null || typeof node !== "object") return node;
    return Object.fromEntries(
      Object.entries(node)
        .filter(([name, it]) => typeof it !== "string" || ["type", "pattern", "$ref"].includes(name))
        .filter(([, it]) => typeof it !== "number" || Number.isSafeInteger(it) || !Number.isInteger(it))
        .map(([name, it]) => {
          if (name === "$ref") return [name, it.replace(REFERENCE, "")];
          if (name !== "properties") return [name, slim(it)];
          return [name, Object.fromEntries(Object.entries(it).map(([member, schema]) => [member, slim(schema)]))];
        }),
    );
  };
  const rows = [...reachable(document, bodies)]
    .sort()
    .map((it) => `  ${it}: ${JSON.stringify(slim(document.components.schemas[it]))},\n`);
  return `// ${MARK}\nimport type { Schema } from "./check.js";\n\nexport const requests: Record<string, Schema> = {\n${rows.join("")}};\n`;
}

/** Each route with the methods that call it, such as `cb.tasks.get`. */
async function calls() {
  const found = structuredClone(STREAMS);
  const add = (route, call) => {
    found[route] = [...(found[route] ?? []), call];
  };
  const client = await source("client.ts");
  const attributes = {};
  const walk = (node, visit) =>
    ts.forEachChild(node, (it) => {
      visit(it);
      walk(it, visit);
    });
  walk(client, (it) => {
    if (ts.isBinaryExpression(it) && ts.isNewExpression(it.right) && ts.isPropertyAccessExpression(it.left))
      attributes[it.right.expression.getText(client)] = `cb.${it.left.name.text}`;
  });
  for (const file of (await readdir(SOURCES)).filter((it) => it.endsWith(".ts")).sort()) {
    const tree = await source(file);
    for (const cls of tree.statements.filter(ts.isClassDeclaration)) {
      const attribute = attributes[cls.name.text];
      for (const method of attribute ? cls.members.filter(ts.isMethodDeclaration) : [])
        walk(method, (it) => {
          if (!ts.isCallExpression(it)) return;
          const [verb, path] = it.arguments;
          if (verb && path && ts.isStringLiteral(verb) && ts.isStringLiteral(path) && path.text.startsWith("/"))
            add(`${verb.text} ${path.text}`, `${attribute}.${method.name.getText(tree)}`);
        });
    }
  }
  return found;
}

async function source(name) {
  return ts.createSourceFile(name, await readFile(new URL(name, SOURCES), "utf8"), ts.ScriptTarget.Latest, true);
}

/** The page with this library's column written anew; the other columns stay. */
async function table(document) {
  const page = await readFile(TABLE, "utf8");
  const at = page.indexOf("\n| route |") + 1;
  const [head, line, ...rows] = page.slice(at).trimEnd().split("\n");
  const cells = (row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((it) => it.trim());
  const column = cells(head).indexOf("TypeScript");
  const before = new Map(rows.map((it) => [cells(it)[0], cells(it)]));
  const known = await calls();
  const written = operations(document).map(({ path, method }) => {
    const route = `\`${method.toUpperCase()} ${path}\``;
    const row = before.get(route) ?? [
      route,
      ...cells(head)
        .slice(1)
        .map(() => "MISSING"),
    ];
    const names = [...new Set(known[route.slice(1, -1)])].map((it) => `\`${it}\``);
    // A cell without a method is written by hand, and says what else the route is for.
    if (names.length > 0) row[column] = names.join(", ");
    else if (/^(`cb\.[\w.]+`(, )?)+$/.test(row[column])) row[column] = "MISSING";
    return `| ${row.join(" | ")} |`;
  });
  return `${page.slice(0, at)}${[head, line, ...written].join("\n")}\n`;
}

const [file] = process.argv.slice(2).filter((it) => it !== "--check");
const document = JSON.parse(await readFile(file, "utf8"));
const outputs = new Map([
  [new URL("schema.ts", SOURCES), await types(document)],
  [new URL("requests.ts", SOURCES), requests(document)],
  [TABLE, await table(document)],
]);
const stale = [];
for (const [path, text] of outputs) {
  if ((await readFile(path, "utf8").catch(() => "")) === text) continue;
  stale.push(path.pathname.split("/").pop());
  if (!process.argv.includes("--check")) await writeFile(path, text);
}
if (process.argv.includes("--check") && stale.length > 0) {
  console.error(`not as generated: ${stale.join(", ")}; CALLBOARD_WRITE_GOLDEN=1 sdk/typescript/test writes them`);
  process.exit(1);
}
