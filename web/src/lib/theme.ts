/** Light or dark: the system's, unless the user chose. */
import { preference } from "./preferences";

export type Theme = "system" | "light" | "dark";
const dark = () => window.matchMedia("(prefers-color-scheme: dark)");

export function applyTheme(theme: Theme = preference<Theme>("theme", "system")) {
  const shown = theme === "system" ? (dark().matches ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shown;
}

export function installTheme() {
  applyTheme();
  dark().addEventListener("change", () => applyTheme());
  window.addEventListener("storage", () => applyTheme());
}
