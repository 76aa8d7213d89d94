// Keyboard shortcuts: single keys, and two keys in a row ("g m"). They are disabled while a field has the focus,
// while a dialog is open, and with Ctrl, Alt or Meta. Esc clears a search field, then moves the focus to the list.

const bound = [];
let first = "";
let firstAt = 0;
const TIMEOUT = 1200;

/**
 * Binds keys: `bind({"/": fn, "g m": fn})`. The newest binding of a key wins. If its function returns false, the next
 * older one is tried. Returns a function that removes the bindings.
 */
export function bind(table) {
  bound.unshift(table);
  return () => bound.splice(bound.indexOf(table), 1);
}

/** Whether this element accepts typed text. */
export function isTyping(element) {
  if (!element || !element.tagName) return false;
  if (element.isContentEditable || ["TEXTAREA", "SELECT"].includes(element.tagName)) return true;
  return element.tagName === "INPUT" && !["checkbox", "radio", "button", "range"].includes(element.type);
}

/** Handles Esc in a field with nothing to close. It clears a search, or moves the focus to the list or the page. */
function leave(field) {
  if (field.type === "search" && field.value) {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    return;
  }
  (document.querySelector("main [role=grid]") ?? document.getElementById("main")).focus({ preventScroll: true });
}

function onKeyDown(event) {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key !== "Escape" || event.target.tagName === "SELECT") return;
    event.preventDefault();
    leave(event.target);
    return;
  }
  // Enter and space belong to the focused button or link.
  if (["Enter", " "].includes(event.key) && event.target.closest?.("a, button, summary, input, label")) return;
  const pair = first && event.timeStamp - firstAt < TIMEOUT ? `${first} ${event.key}` : "";
  first = "";
  for (const name of pair ? [pair, event.key] : [event.key]) {
    for (const table of [...bound]) {
      const run = Object.hasOwn(table, name) ? table[name] : null;
      if (run && run(event) !== false) {
        event.preventDefault();
        return;
      }
    }
  }
  if (bound.some((table) => Object.keys(table).some((name) => name.startsWith(`${event.key} `)))) {
    first = event.key;
    firstAt = event.timeStamp;
  }
}

/** Starts listening. app.js calls this once. */
export function startKeys() {
  document.addEventListener("keydown", onKeyDown);
}
