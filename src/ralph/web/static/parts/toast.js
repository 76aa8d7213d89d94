// Short messages: what was done, with Undo. They are announced (role status) and stay while hovered or focused.
import { html, signal } from "../lib.js";
import { Button } from "./controls.js";
import { Icon } from "./icons.js";

const toasts = signal([]);
let next = 1;

/** Shows a message; `action` is `{label, run}`. Gives back a function that takes it away. */
export function toast(text, { action = null, failed = false, seconds = action ? 12 : 5 } = {}) {
  const one = { key: next++, text, action, failed };
  // A way back is only good for the newest change, so an older one is not offered any more.
  const others = action ? toasts.value.filter((each) => !each.action) : toasts.value;
  toasts.value = [...others.slice(-2), one];
  const away = () => (toasts.value = toasts.value.filter((each) => each.key !== one.key));
  const isActive = () => document.querySelector(".toast:hover, .toast:focus-within");
  const wait = () => setTimeout(() => (isActive() ? wait() : away()), seconds * 1000);
  if (!failed) wait();
  one.away = away;
  return away;
}

/** Where the messages are; once, in the shell. */
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
