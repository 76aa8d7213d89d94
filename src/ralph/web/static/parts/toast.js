// Short messages about changes, with Undo. They are announced (role status) and stay while hovered or focused.
import { html, signal } from "../lib.js";
import { Button } from "./controls.js";
import { Icon } from "./icons.js";

const toasts = signal([]);
let next = 1;

/** Shows a message. `action` is `{label, run}`. Returns a function that removes the message. */
export function toast(text, { action = null, failed = false, seconds = action ? 12 : 5 } = {}) {
  const one = { key: next++, text, action, failed };
  // Only the newest change can be undone reliably, so Undo is removed from older messages.
  const others = action ? toasts.value.filter((each) => !each.action) : toasts.value;
  toasts.value = [...others.slice(-2), one];
  const away = () => (toasts.value = toasts.value.filter((each) => each.key !== one.key));
  const isActive = () => document.querySelector(".toast:hover, .toast:focus-within");
  const wait = () => setTimeout(() => (isActive() ? wait() : away()), seconds * 1000);
  if (!failed) wait();
  one.away = away;
  return away;
}

/** The container of the messages, rendered once in the shell. */
export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (one) => html`<div class="toast ${one.failed ? "toast-failed" : ""}" key=${one.key}>
        <p>${one.text}</p>
        ${one.action &&
        html`<${Button} look="small" onClick=${() => (one.away(), one.action.run())}>${one.action.label}<//>`}
        <button type="button" class="icon-button" aria-label="Close this message" onClick=${() => one.away()}>
          <${Icon} name="close" />
        </button>
      </div>`,
    )}
  </div>`;
}
