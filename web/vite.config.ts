import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { transformAsync } from "@babel/core";
import macro from "@lingui/babel-plugin-lingui-macro";
import { createCompiledCatalog, getCatalogs } from "@lingui/cli/api";
import { getConfig } from "@lingui/conf";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { firstModules } from "./scripts/first.mjs";

const server = process.env.CALLBOARD_SERVER ?? "http://127.0.0.1:8080";

/**
 * Turns the macros of texts (`t`, `Trans`, `plural`, `Plural`) into reads of the catalog of the language, and a
 * catalog into two: `?first` has the texts of the first page, `?rest` the others. A module beyond the first page
 * imports the rest, so that it waits for it.
 */
function texts(): Plugin {
  const first = firstModules();
  return {
    name: "texts",
    enforce: "pre",
    async load(id) {
      const [, locale, part] = /locales\/(\w+)\.po\?(first|rest)$/.exec(id) ?? [];
      if (!locale) return;
      this.addWatchFile(id.replace(/\?.*/, ""));
      const [catalog] = await getCatalogs(getConfig());
      const isFirst = ([file]: [string, ...unknown[]]) => first.has(file);
      const texts: Record<string, string> = {};
      for (const [key, { origin, translation, message }] of Object.entries(
        (await catalog?.read(locale)) ?? {},
      )) {
        if (!translation) throw new Error(`a text is not in ${locale}.po: ${message}`);
        if (origin?.some(isFirst) === (part === "first")) texts[key] = translation;
      }
      const { source, errors } = createCompiledCatalog(locale, texts, { namespace: "es" });
      if (errors[0]) throw errors[0].error;
      return { code: source, map: null, moduleType: "js" };
    },
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
      if (!made?.code) return;
      const isOfRest = made.code.includes('"#texts"') && !first.has(relative(import.meta.dirname, id));
      return { code: isOfRest ? `import "#rest";${made.code}` : made.code, map: made.map };
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
  plugins: [texts(), react(), emptied(), compressed()],
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
