// Light, dark, or the setting of the system. The choice is stored in the browser; early.js applies it before the first
// paint.
import { signal } from "../lib.js";

const NAME = "ralph-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** "light", "dark" or "system". */
export const theme = signal(document.documentElement.dataset.theme ?? "system");

/** What is shown now, "light" or "dark"; canvases read their colours again when it changes. */
export const shown = signal(current());

function current() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

dark.addEventListener("change", () => (shown.value = current()));

/** Sets the theme and keeps the choice. */
export function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, name);
  } catch {
    // It holds until the page is closed.
  }
  theme.value = name;
  shown.value = current();
}

/** The other one of light and dark; back to the system's when that is what the system shows. */
export function toggleTheme() {
  const next = shown.value === "dark" ? "light" : "dark";
  setTheme(next === (dark.matches ? "dark" : "light") ? "system" : next);
}

/** A colour of the theme, such as `colour("--accent")`, as canvases understand it: "rgb(13, 107, 95)". */
export function colour(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
