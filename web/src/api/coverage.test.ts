import { expect, it } from "vitest";
import snapshot from "../../../tests/it/snapshots/it__openapi__document.snap?raw";

/**
 * Each operation of the OpenAPI document is used by the dashboard, or stands here with the reason why it is not. An
 * operation that is used and stands here fails as well, so that the list stays true.
 */
const WITHOUT: Record<string, string[]> = {
  "of programs: they speak to models, workers and streams, not people": [
    "POST /v1/chat/completions",
    "GET /v1/models",
    "GET /v1/models/{id}",
    "POST /v1/batches",
    "GET /v1/batches",
    "GET /v1/batches/{id}",
    "POST /v1/batches/{id}/cancel",
    "POST /v1/files",
    "GET /v1/files",
    "GET /v1/files/{id}",
    "DELETE /v1/files/{id}",
    "GET /v1/files/{id}/content",
    "GET /api/workers/connect",
    "GET /api/events",
    "GET /api/functions",
    "POST /api/tasks/batch",
    "GET /api/tasks/batch/{id}",
    "POST /api/tasks/bulk",
    "GET /api/plans/executions/{id}/stream",
  ],
  "of the command line: signs programs in, or reads a whole store": [
    "POST /api/auth/links",
    "POST /api/auth/refresh",
    "POST /api/backups",
    "POST /api/system/backup",
    "POST /api/system/backup/verification",
  ],
  "of the browser: an address that it goes to, not a call": ["GET /api/auth/oidc/callback"],
  "said otherwise: a batch shows its expected cost, and a new one estimates by a dry run": [
    "POST /api/batches/{id}/estimate",
  ],
  "of programs and the command line: pages show the files of a task": [
    "POST /api/files",
    "GET /api/files",
    "DELETE /api/files/{id}",
  ],
  "once in the life of a server, by who runs it": [
    "POST /api/cells",
    "DELETE /api/cells/{name}",
    "POST /api/auth/signing-key/rotate",
    "POST /api/webhooks/secret/rotate",
    "POST /api/auth/keys/revoke",
  ],
};

type Document = { paths: Record<string, Record<string, unknown>> };
const METHODS = ["get", "post", "put", "patch", "delete"];

function operations(): string[] {
  const { paths } = JSON.parse(snapshot.split("---\n").slice(2).join("---\n")) as Document;
  return Object.entries(paths).flatMap(([path, of]) =>
    METHODS.filter((method) => method in of).map((method) => `${method.toUpperCase()} ${path}`),
  );
}

/** The text of every module but tests. */
function sources(): string {
  const files = import.meta.glob<string>(
    ["../**/*.{ts,tsx}", "!../**/*.test.*", "!./schema.d.ts", "!../live/cache.ts"],
    {
      query: "?raw",
      import: "default",
      eager: true,
    },
  );
  return Object.values(files).join("\n");
}

/** A read names its path; a write names it in its call of `api`, or in a request of its own. */
function isUsed(operation: string, all: string): boolean {
  const [method = "", path = ""] = operation.split(" ");
  const literal = path.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // A part of an address that is written with a template: `/api/tasks/${id}/stream`.
  const written = literal.replace(/\\\{\w+\\\}/g, "(?:\\{\\w+\\}|\\$\\{[^}]*\\})");
  if (method === "GET") return new RegExp(`["\`]${written}["\`?]`).test(all);
  return new RegExp(`\\.${method}\\(\\s*["\`]${written}["\`]|"${method}",\\s*["\`]${written}["\`?]`).test(
    all,
  );
}

it("uses each operation of the document, or says why not", () => {
  const all = sources();
  const without = new Set(Object.values(WITHOUT).flat());
  const known = operations();
  expect(known.length).toBeGreaterThan(100);
  const unused = known.filter((operation) => !isUsed(operation, all));
  expect(unused.filter((operation) => !without.has(operation))).toEqual([]);
  expect([...without].filter((operation) => !unused.includes(operation))).toEqual([]);
});
