// Hook latency, for diagnosis: how often each hook ran in the last days, and how long it took to answer.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded, RichText } from "../parts/placeholders.js";
import { Plot } from "../parts/plot.js";
import { PageHead } from "../parts/shell.js";
import { number, sentence } from "../parts/format.js";

const milliseconds = (value) =>
  (value === null || value === undefined ? "–" : `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ms`);

/** The page at `/hooks`. */
export function Page() {
  const hooks = useGet("/api/hooks", {}, { on: ["sessions"] });
  return html`<div class="page-narrow">
    <${PageHead} title="Hooks" back=${["/", "Dashboard"]}
      sub="How often the hosts of your agents called Ralph in the last 30 days, and how long it took to answer." />
    <${Loaded} state=${hooks} lines=${6}>${(data) => html`<${Latency} hooks=${data} />`}<//>
  </div>`;
}

function Latency({ hooks }) {
  if (!hooks.events.length) {
    return html`<${Empty} title="No hook has run" text="Through hooks an agent's host reports what happens to Ralph, and gets memories."
      command="ralph install claude" />`;
  }
  return html`${hooks.note && html`<p class="quiet remark"><${RichText} text=${sentence(hooks.note)} /></p>`}
    ${hooks.days?.length > 0 && html`<h2 class="plot-title">Median latency a day</h2>
      <${Plot} title="Median hook latency" days=${hooks.days} say=${milliseconds} height=${168}
        series=${[{ label: "median", values: hooks.p50, colour: "--plot-2" }]} />`}
    <div class="scroller" tabindex="0" role="region" aria-label="Hook latency by event">
      <table>
        <thead><tr><th scope="col">Event</th><th scope="col" class="num">Calls</th><th scope="col" class="num">Median</th>
            <th scope="col" class="num">p95</th></tr></thead>
        <tbody>
          ${hooks.events.map(
            (event) => html`<tr key=${event.event}>
              <th scope="row">${event.event}</th><td class="num">${number(event.count)}</td>
              <td class="num">${milliseconds(event.p50_ms)}</td><td class="num">${milliseconds(event.p95_ms)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}
