// Memory health: four counts, each of which opens its list.
import { html, useId, useState } from "../lib.js";
import { Command, Empty, RichText } from "./placeholders.js";
import { count, number, sentence } from "./format.js";

const SHOWN = 20;
const ASPECTS = [
  { key: "stale", label: "stale", about: "They cite something that is missing or changed.",
    none: "All citations are valid.", command: "ralph doctor --citations" },
  { key: "unused", label: "unused", about: "They were injected and never used.",
    none: "Every injected memory was used at least once." },
  { key: "duplicates", label: "duplicates", about: "They repeat another memory.", none: "There are no duplicates." },
  { key: "secrets", label: "secrets", about: "These lines look like a password or a key.",
    none: "No secrets were found.", command: "ralph doctor --secrets" },
];

/** The four counts and the list of the chosen one. */
export function Health({ health }) {
  const [open, setOpen] = useState(null);
  const own = useId();
  const aspect = ASPECTS.find((one) => one.key === open);
  return html`<div class="health">
    <div class="health-tiles">
      ${ASPECTS.map(
        (one) => html`<button key=${one.key} type="button" class="tile ${health.counts[one.key] ? "is-found" : ""}"
          aria-expanded=${open === one.key ? "true" : "false"}
          aria-controls=${own} onClick=${() => setOpen(open === one.key ? null : one.key)}>
          <span class="tile-label">${one.label}</span><span class="tile-count num">${number(health.counts[one.key])}</span>
        </button>`,
      )}
    </div>
    <div id=${own} aria-live="polite">
      ${aspect && html`<${HealthList} key=${aspect.key} aspect=${aspect} items=${health[aspect.key]} total=${health.counts[aspect.key]} />`}</div>
    ${health.note && html`<p class="quiet health-note"><${RichText} text=${sentence(health.note)} /></p>`}
  </div>`;
}

function HealthList({ aspect, items, total }) {
  const [all, setAll] = useState(false);
  if (!total) {
    const what = { secrets: "a secret", duplicates: "a duplicate" }[aspect.key] ?? aspect.label;
    return html`<${Empty} title=${`Nothing is ${what}`} text=${aspect.none} />`;
  }
  const shown = items.slice(0, all ? items.length : SHOWN);
  return html`<p class="quiet">${aspect.about}</p>
    <ul class="found">${shown.map((item, at) => html`<li key=${at}><${Item} aspect=${aspect.key} item=${item} /></li>`)}</ul>
    ${!all && items.length > SHOWN && html`<button type="button" class="link-button small" onClick=${() => setAll(true)}>
      Show ${number(items.length - SHOWN)} more</button>`}
    ${(all || items.length <= SHOWN) && total > items.length && html`<p class="quiet">${number(total - items.length)} more${aspect.command
      ? html`, all of them with <${Command} command=${aspect.command} />` : ", listed when these are resolved"}</p>`}`;
}

function Item({ aspect, item }) {
  if (aspect === "secrets") return html`<code>${item.file}:${item.line}</code> <span class="quiet">${item.rule}</span>`;
  const first = item.id ?? item.ids?.[0];
  const rest = aspect === "stale" ? item.what : aspect === "unused"
    ? `injected ${count(item.injected, "time")}` : `${number(item.ids.length)} alike`;
  return html`<a href=${`/memory/${encodeURIComponent(first)}`} data-link>${item.title || first}</a>
    <span class="quiet found-rest">${rest}</span>
    ${aspect === "duplicates" && item.ids.slice(1).map((id) =>
      html`<a key=${id} class="found-twin" href=${`/memory/${encodeURIComponent(id)}`} data-link><code>${id}</code></a>`)}`;
}
