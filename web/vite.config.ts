import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { transformAsync } from "@babel/core";
import macro from "@lingui/babel-plugin-lingui-macro";
import { lingui } from "@lingui/vite-plugin";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const server = process.env.CALLBOARD_SERVER ?? "http://127.0.0.1:8080";

/** Turns the macros of texts (`t`, `Trans`, `plural`, `Plural`) into reads of the catalog of the language. */
function texts(): Plugin {
  return {
    name: "texts",
    enforce: "pre",
    async transform(code, id) {
      if (!/\.tsx?$/.test(id) || !code.includes("@lingui/")) return;
      const syntax = id.endsWith("x") ? (["typescript", "jsx"] as const) : (["typescript"] as const);
      const made = await transformAsync(code, {
        filename: id,
        babelrc: false,
        configFile: false,
        sourceMaps: true,
        parserOpts: { plugins: [...syntax] },
        plugins: [macro],
      });
      return made?.code ? { code: made.code, map: made.map } : undefined;
    },
  };
}

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
  plugins: [
    texts(),
    lingui({ failOnMissing: true, failOnCompileError: true }),
    react(),
    emptied(),
    compressed(),
  ],
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
