// The light or dark theme, or the system's setting. The choice is stored in the browser, and early.js applies it
// before the first paint.
import { signal } from "../lib.js";

const NAME = "ralph-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** "light", "dark" or "system". */
export const theme = signal(document.documentElement.dataset.theme ?? "system");

/** The current theme, "light" or "dark". Canvases read their colours again when it changes. */
export const shown = signal(current());

function current() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

dark.addEventListener("change", () => (shown.value = current()));

/** Sets the theme and stores the choice. */
export function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, name);
  } catch {
    // The choice lasts until the page is closed.
  }
  theme.value = name;
  shown.value = current();
}

/** Switches between light and dark. If the result is what the system shows, the system's setting is used. */
export function toggleTheme() {
  const next = shown.value === "dark" ? "light" : "dark";
  setTheme(next === (dark.matches ? "dark" : "light") ? "system" : next);
}

/** A colour of the theme in a form that canvases understand: `colour("--accent")` is "rgb(13, 107, 95)". */
export function colour(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
