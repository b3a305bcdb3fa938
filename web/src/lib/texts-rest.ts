/** The texts beyond the first page: the build makes every module that has some import this one, and so wait for it. */
import { i18n, language } from "./texts";

const catalogs = { en: () => import("../locales/en.po?rest"), de: () => import("../locales/de.po?rest") };
const { messages } = await catalogs[language]();
i18n.load(language, messages);
