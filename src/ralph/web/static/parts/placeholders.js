// Placeholders for empty lists, loading data and errors. Each is a sentence with advice on what to do.
import { html, useState } from "../lib.js";
import { Icon } from "./icons.js";
import { sentence } from "./format.js";

/** A command to run, with a button that copies it. */
export function Command({ command }) {
  const [status, setStatus] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      setStatus("Copied");
    } catch {
      setStatus("Copying failed; select the command and copy it yourself");
    }
    setTimeout(() => setStatus(""), 2000);
  };
  return html`<span class="command"><code>${unbroken(command)}</code
    ><button type="button" class="icon-button" onClick=${copy} aria-label="Copy the command: ${command}">
      <${Icon} name=${status === "Copied" ? "check" : "copy"} /></button
    ><span class="visually-hidden" role="status">${status}</span></span>`;
}

/** A sentence from the server. A command in backticks gets a copy button, and other names are shown as code. */
export function RichText({ text }) {
  return String(text ?? "").split("`").map((part, at) => {
    if (at % 2 === 0) return part;
    return part.startsWith("ralph ") ? html`<${Command} key=${at} command=${part} />` : html`<code key=${at}>${part}</code>`;
  });
}

/** Words that are never broken, because "--task" must not be split after its first dash. */
function unbroken(command) {
  return command.split(" ").map((word, at) => html`${at > 0 && " "}<span key=${at} class="nowrap">${word}</span>`);
}

/** An empty state: what is missing, why, and what to do. `command` gets a copy button, and `action` is any element. */
export function Empty({ title, text, command, action }) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${text && html`<p>${text}</p>`}
    ${command && html`<p><${Command} command=${command} /></p>`}
    ${action && html`<p>${action}</p>`}
  </div>`;
}

/** An error with its hint. The button calls `retry`. */
export function Failure({ error, retry }) {
  if (!error) return null;
  return html`<div class="failure" role="alert">
    <${Icon} name="alert" />
    <div>
      <p class="failure-title"><${RichText} text=${sentence(error.message)} /></p>
      ${error.hint && html`<p><${RichText} text=${sentence(error.hint)} /></p>`}
      ${retry && html`<p><button type="button" class="button small" onClick=${retry}>Try again</button></p>`}
    </div>
  </div>`;
}

/** Grey bars while something is loading, announced once to screen readers. */
export function Loading({ lines = 4, what = "" }) {
  return html`<div class="loading" role="status">
    <span class="visually-hidden">Loading${what && ` ${what}`}…</span>
    ${Array.from({ length: lines }, (_, at) => html`<div class="skeleton" key=${at} data-width=${(at * 37) % 4}></div>`)}
  </div>`;
}

/**
 * Shows the state of `useGet`: the error, a loading indicator or the content.
 * @param {{state: {value: any, error: any, reload: () => void}, children: (value) => any}} props
 */
export function Loaded({ state, lines, what, children }) {
  if (state.error && state.value === undefined) return html`<${Failure} error=${state.error} retry=${state.reload} />`;
  if (state.value === undefined) return html`<${Loading} lines=${lines} what=${what} />`;
  return html`${state.error && html`<${Failure} error=${state.error} retry=${state.reload} />`}${children(state.value)}`;
}
