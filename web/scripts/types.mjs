// Writes src/api/schema.d.ts from the snapshot of the OpenAPI document that the tests of the server keep.
import { readFile, writeFile } from "node:fs/promises";
import openapi, { astToString } from "openapi-typescript";

const snapshot = new URL("../../tests/it/snapshots/it__openapi__document.snap", import.meta.url);
const target = new URL("../src/api/schema.d.ts", import.meta.url);
const text = await readFile(snapshot, "utf8");
const document = JSON.parse(text.slice(text.indexOf("\n---\n", 4) + 5));
const written =
  "// Written by `npm run types` from the OpenAPI document. Do not edit.\n" +
  astToString(await openapi(document));
if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8")) !== written) {
    console.error("src/api/schema.d.ts is not the document's: run `npm run types`");
    process.exit(1);
  }
} else {
  await writeFile(target, written);
}
