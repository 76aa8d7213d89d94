// What is missing before sessions are recorded here. The server decides what it is, with the rules of `ralph doctor`.
import { html } from "../lib.js";
import { useGet } from "./api.js";
import { Command, Empty, Loading, RichText } from "./placeholders.js";
import { Icon } from "./icons.js";

/** The next step as a notice above a page. `here` is true on the page with the connections. */
export function SetupNotice({ step, here = false }) {
  return html`<section class="setup" aria-label="Setup">
    <${Icon} name="connections" />
    <div class="setup-words">
      <p class="setup-title">${step.title}</p>
      <p><${RichText} text=${step.text} /></p>
      ${step.command && html`<p><${Command} command=${step.command} /></p>`}
    </div>
    ${!here && html`<a class="setup-more" href="/connections" data-link>Connections</a>`}
  </section>`;
}

/** An empty list of sessions or memories. If something is missing, it names the next step instead of `text`. */
export function NothingRecorded({ title, text, command }) {
  const setup = useGet("/api/setup", {}, { on: ["sessions"] });
  if (setup.value === undefined && !setup.error) return html`<${Loading} lines=${2} what="the setup" />`;
  const step = setup.value?.next;
  if (!step) return html`<${Empty} title=${title} text=${text} command=${command} />`;
  return html`<${Empty} title=${step.title} text=${html`<${RichText} text=${step.text} />`} command=${step.command}
    action=${html`<a href="/connections" data-link>Show the connections</a>`} />`;
}
