// The modules of the first page: what its entries import, before any page is opened.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const ENTRIES = ["src/main.tsx", "src/pages/home/home.tsx", "src/session/sign-in.tsx"];
const IMPORT = /^(?:import|export)\s(?!type\s)(?:[^"';]*?\sfrom\s)?"(\.[^"]+)"/gm;

const fileOf = (path) =>
  [path, `${path}.tsx`, `${path}.ts`].find((file) => /\.tsx?$/.test(file) && existsSync(file));

/** Their paths from the root of the dashboard, as the catalogs name them. */
export function firstModules() {
  const found = new Set();
  const visit = (file) => {
    const name = relative(root, file);
    if (found.has(name)) return;
    found.add(name);
    for (const [, path] of readFileSync(file, "utf8").matchAll(IMPORT)) {
      const next = fileOf(join(dirname(file), path));
      if (next) visit(next);
    }
  };
  for (const entry of ENTRIES) visit(join(root, entry));
  return found;
}
