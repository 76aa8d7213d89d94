// Diagnostics for the hooks: their response times in the last days, failures, and problems with their setup.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded, RichText } from "../parts/placeholders.js";
import { PageHead } from "../parts/shell.js";
import { number, sentence } from "../parts/format.js";

/** The page at `/hooks`. */
export function Page() {
  const hooks = useGet("/api/hooks", {}, { on: ["sessions"] });
  return html`<${PageHead} title="Hooks" back=${["/", "Dashboard"]}
      sub="How long Ralph took to respond to your agents in the last 30 days. Only prompts and failed commands are timed." />
    <${Loaded} state=${hooks} lines=${4}>${(data) => html`
      ${data.note && html`<p class="note note-warning"><${RichText} text=${sentence(data.note)} /></p>`}
      ${data.events.length ? html`<${Times} events=${data.events} />` : html`<${Empty} title="No hook has responded yet"
        text="Your agents use hooks to report what happens and to receive memories." command="ralph install claude" />`}`}<//>`;
}

function Times({ events }) {
  return html`<table><thead><tr><th scope="col">Event</th><th scope="col" class="num">Responses</th>
      <th scope="col" class="num">Median</th><th scope="col" class="num">p95</th></tr></thead>
    <tbody>${events.map((each) => html`<tr key=${each.event}><th scope="row">${each.event}</th>
      <td class="num">${number(each.count)}</td><td class="num">${number(Math.round(each.p50_ms))} ms</td>
      <td class="num">${number(Math.round(each.p95_ms))} ms</td></tr>`)}</tbody></table>`;
}
