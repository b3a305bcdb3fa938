import { I18nProvider } from "@lingui/react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { installKeys } from "./lib/keys";
import { i18n } from "./lib/texts";
import { installTheme } from "./lib/theme";
import { installTips } from "./ui/tip";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";

installTheme();
installKeys();
installTips();
const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <I18nProvider i18n={i18n}>
      <App />
    </I18nProvider>,
  );
