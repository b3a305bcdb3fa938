import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const server = process.env.CALLBOARD_SERVER ?? "http://127.0.0.1:8080";

/** Empties dist, except for the file that keeps the directory in git. */
function emptied(): Plugin {
  return {
    name: "emptied",
    apply: "build",
    async buildStart() {
      for (const name of await readdir("dist").catch(() => [])) {
        if (name !== ".gitignore") await rm(join("dist", name), { recursive: true });
      }
    },
  };
}

/** Compresses each file into a .gz in its place; the server sends it as it is. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    async closeBundle() {
      const entries = await readdir("dist", { recursive: true, withFileTypes: true });
      const files = entries.filter((it) => it.isFile() && it.name !== ".gitignore");
      await Promise.all(
        files.map(async (file) => {
          const path = join(file.parentPath, file.name);
          await writeFile(`${path}.gz`, await promisify(gzip)(await readFile(path), { level: 9 }));
          await rm(path);
        }),
      );
    },
  };
}

export default defineConfig({
  plugins: [react(), emptied(), compressed()],
  build: { target: "es2022", emptyOutDir: false, assetsInlineLimit: 0, reportCompressedSize: false },
  server: {
    // The guides of docs/ are part of the pages.
    fs: { allow: [".."] },
    proxy: Object.fromEntries(
      ["/api", "/ws", "/v1", "/health"].map((path) => [
        path,
        { target: server, ws: true, headers: { origin: server } },
      ]),
    ),
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
