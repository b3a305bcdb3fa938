/**
 * The language of the texts, and the locale of figures and dates: read once, before any module makes a text.
 *
 * Every module with a text imports this one (the macros of Lingui name it `#texts`), so its `await` comes first.
 * A change of the language loads the page again. These are the texts of the first page; `texts-rest.ts` has the others.
 */
import { i18n } from "@lingui/core";
import { preference, write } from "./preferences";

export const LANGUAGES = { en: "English", de: "Deutsch" };
export type Language = keyof typeof LANGUAGES;

const primary = (tag: string) => tag.split("-")[0] ?? "";
const isKnown = (tag: string): tag is Language => Object.hasOwn(LANGUAGES, tag);

/** The user's choice, else the first of the browser's languages that there are texts for. */
export const language: Language =
  [preference("language", ""), ...navigator.languages.map(primary)].find(isKnown) ?? "en";

/** The language with the region of the browser, where it names one: `en-GB`, `de-AT`. */
export const locale = navigator.languages.find((tag) => primary(tag) === language) ?? language;

const catalogs = { en: () => import("../locales/en.po?first"), de: () => import("../locales/de.po?first") };
const { messages } = await catalogs[language]();
i18n.loadAndActivate({ locale: language, locales: [locale, language], messages });
document.documentElement.lang = language;

/** Another language, from now on in this browser. */
export function speak(tag: Language) {
  write("language", tag);
  window.location.reload();
}

export { i18n };
