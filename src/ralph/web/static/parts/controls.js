// Buttons and links that many pages share.
import { html } from "../lib.js";
import { Icon } from "./icons.js";

const at = (folder) => (id) => `/${folder}/${encodeURIComponent(id)}`;

/** The addresses of a record, a task and a session. */
export const recordPath = at("memory");
export const taskPath = at("tasks");
export const sessionPath = at("sessions");

/**
 * A button with an icon and a label.
 * @param {{icon?: string, look?: string, opens?: boolean, disabled?: boolean, title?: string, onClick: () => void,
 *   children: any}} props
 *   `look` is "primary", "danger", "plain" or "small"; `opens` marks a button that opens a dialog.
 */
export function Button({ icon, look = "", opens = false, disabled = false, title, onClick, children }) {
  return html`<button type="button" class="button ${look}" disabled=${disabled} title=${title}
    aria-haspopup=${opens ? "dialog" : undefined} onClick=${onClick}>
    ${icon && html`<${Icon} name=${icon} />`}${children}
  </button>`;
}

/** An id as a link to its page. */
export function IdLink({ path, id, small = false }) {
  return html`<a class=${small ? "id small" : "id"} href=${path(id)} data-link>${id}</a>`;
}
