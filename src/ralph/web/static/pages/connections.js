// Which clients are connected, whether their hooks fire, and the settings in effect. Response times are requested last,
// because they take longest.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Command, Loaded, RichText } from "../parts/placeholders.js";
import { SetupNotice } from "../parts/setup.js";
import { Section } from "../parts/widgets.js";
import { PageHead } from "../parts/shell.js";
import { coded, count, moment, number, sentence, Time } from "../parts/format.js";

const SUB = "The coding agents that Ralph records and gives memories to, and the settings in effect.";

/** The page at `/connections`. */
export function Page() {
  const answer = useGet("/api/connections", {}, { on: ["sessions"] });
  const times = useGet(answer.value ? "/api/hooks" : null, {}, { on: ["sessions"] });
  return html`<${PageHead} title="Connections" sub=${SUB} />
    <${Loaded} state=${answer} lines=${6}>${(data) => html`<div class="stack connections">
      ${data.next && html`<${SetupNotice} step=${data.next} here=${true} />`}
      <${Clients} data=${data} />
      <${Failures} data=${data} />
      ${times.value?.events.length > 0 && html`<${Times} events=${times.value.events} />`}
      <${Settings} settings=${data.settings} warnings=${data.warnings} />
    </div>`}<//>`;
}

const STATES = {
  recording: ["✓", "good"],
  silent: ["○", "warn"],
  broken: ["✕", "bad"],
  "search only": ["✓", ""],
  "not connected": ["–", ""],
};

function Clients({ data }) {
  return html`<${Section} title="Clients">
    <ul class="plain clients">${data.clients.map((client) => html`<${Client} key=${client.host} client=${client} />`)}</ul>
    ${data.clients.length === 0 && html`<p class="quiet">None of the supported clients was found on this machine.</p>`}
    ${data.others.length > 0 && html`<p class="quiet small rest">${data.clients.length > 0 ? "Also supported" : "Supported"}: ${data.others.join(", ")}.</p>`}
  <//>`;
}

function Client({ client }) {
  const [icon, look] = STATES[client.state];
  return html`<li class="card client">
    <div class="client-head"><h3>${client.title}</h3>
      <span class="badge ${look}"><span aria-hidden="true">${icon}</span>${client.state}</span></div>
    <p class="client-facts quiet small">
      ${client.last_recorded_at
        ? html`<span>${count(client.sessions, "session")} here, the last <${Time} at=${client.last_recorded_at} /></span>`
        : html`<span>No session recorded here</span>`}
      ${client.files.map((file) => html`<code key=${file}>${file}</code>`)}</p>
    ${client.note && html`<p class="small"><${RichText} text=${`${sentence(client.note)}.`} /></p>`}
    ${client.command && html`<p><${Command} command=${client.command} /></p>`}
  </li>`;
}

function Failures({ data }) {
  if (!data.failures) return null;
  return html`<${Section} title="Failures of hooks">
    <div class="note note-warning"><p>${count(data.failures, "hook")} failed, the last one <${Time} at=${data.last_failure_at} />:
      <code>${data.last_failure}</code></p>
      <p class="note-hint">Fix the cause it names, then reset the count: <${Command} command="ralph doctor --fix" /></p></div>
  <//>`;
}

function Times({ events }) {
  return html`<${Section} title="Response times">
    <p class="quiet section-note">How long agents waited for Ralph in the last 30 days. Prompts and failed commands are timed.</p>
    <div class="scroller" tabindex="0" role="region" aria-label="Table of response times">
      <table class="is-tight"><thead><tr><th scope="col">Event</th><th scope="col" class="num">Responses</th>
          <th scope="col" class="num">Median</th><th scope="col" class="num">95 %</th></tr></thead>
        <tbody>${events.map((each) => html`<tr key=${each.event}><th scope="row">${sentence(moment(each.event))}</th>
          <td class="num">${number(each.count)}</td><td class="num">${number(Math.round(each.p50_ms))} ms</td>
          <td class="num">${number(Math.round(each.p95_ms))} ms</td></tr>`)}</tbody></table>
    </div>
  <//>`;
}

/** The settings. Those that somebody has set come first, and the defaults are shown on request. */
function Settings({ settings, warnings }) {
  const [all, setAll] = useState(false);
  const own = settings.filter((one) => !one.default);
  const shown = all ? settings : own;
  const button = html`<button type="button" class="link-button small" onClick=${() => setAll(!all)}>
    ${all ? "Only what is set" : `All ${number(settings.length)}`}</button>`;
  return html`<${Section} title="Settings" aside=${button}>
    ${warnings.length > 0 && html`<ul class="notes">${warnings.map((words) => html`<li key=${words} class="note note-warning">
      <${RichText} text=${words} /></li>`)}</ul>`}
    ${shown.length === 0 ? html`<p class="quiet">Every setting has its default.</p>`
      : html`<div class="scroller" tabindex="0" role="region" aria-label="Table of settings">
        <table class="settings"><thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
          <tbody>${shown.map((one) => html`<tr key=${one.name}>
            <th scope="row"><code>${one.name}</code><span class="setting-doc">${coded(one.doc)}</span></th>
            <td><code>${valueText(one.value)}</code></td>
            <td class="quiet">${one.default ? "default" : one.from}</td></tr>`)}</tbody></table>
      </div>`}
    <p class="quiet small rest">To change a setting: <${Command} command="ralph config KEY VALUE" /></p>
  <//>`;
}

function valueText(value) {
  if (value === "") return "empty";
  return typeof value === "string" ? value : JSON.stringify(value);
}
