import { createRoot } from "react-dom/client";
import { App } from "./app";
import { installKeys } from "./lib/keys";
import { installTheme } from "./lib/theme";
import { installTips } from "./ui/tip";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";

installTheme();
installKeys();
installTips();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
