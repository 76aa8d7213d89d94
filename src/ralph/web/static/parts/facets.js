// Facets with their values and counts. The choice is part of the address.
import { html, useId, useState } from "../lib.js";
import { Icon } from "./icons.js";
import { setQuery } from "./router.js";
import { hueOf, number, readable } from "./format.js";

/** The facets in display order. A `single` facet has one value, and `rare` facets are hidden under "More". */
export const FACETS = [
  { name: "type", title: "Type", hues: true },
  { name: "tag", title: "Tag", search: true },
  { name: "age", title: "Age", single: true },
  { name: "status", title: "Status", rare: true },
];
const AGES = { "1d": "last day", "7d": "last 7 days", "30d": "last 30 days", "90d": "last 90 days" };
const SHORT = 7;

/** A value in words. */
export function valueLabel(facet, value) {
  if (facet === "age") return AGES[value] ?? value;
  return facet === "tag" || facet === "task" ? value : readable(value);
}

/** The chosen values in a query as `[[facet, value], ...]`, in display order. */
export function chosenFilters(query) {
  const all = [...FACETS, { name: "family", title: "Only" }, { name: "task", title: "Task" }];
  return all.flatMap(({ name, title }) => query.getAll(name).map((value) => ({ name, title, value })));
}

/** Toggles a value. */
export function toggle(query, { name, single = false }, value) {
  const now = query.getAll(name);
  const without = now.filter((each) => each !== value);
  setQuery({ [name]: without.length < now.length ? without : single ? [value] : [...now, value] });
}

/** The chosen values as chips, which remove them when clicked. */
export function ChosenFilters({ query }) {
  const all = chosenFilters(query);
  if (!all.length) return null;
  const none = Object.fromEntries(all.map(({ name }) => [name, null]));
  return html`<ul class="chips plain chosen" aria-label="Filters">
    ${all.map(
      ({ name, title, value }) => html`<li key=${`${name} ${value}`}>
        <button type="button" class="chip on" onClick=${() => toggle(query, { name }, value)}
          aria-label="Remove the filter ${title}: ${valueLabel(name, value)}">
          <span class="chip-words">${valueLabel(name, value)}</span><${Icon} name="close" />
        </button>
      </li>`,
    )}
    ${all.length > 1 &&
    html`<li><button type="button" class="link-button small" onClick=${() => setQuery(none)}>Clear all</button></li>`}
  </ul>`;
}

const valueClass = (facet, value) => (facet.hues ? `kind hue-${hueOf(value)}` : "");

function Facet({ facet, values, query, hasCounts }) {
  const [all, setAll] = useState(false);
  const [words, setWords] = useState("");
  const id = useId();
  const chosen = query.getAll(facet.name);
  const known = new Set(values.map(([value]) => value));
  const rows = [...chosen.filter((value) => !known.has(value)).map((value) => [value, 0]), ...values];
  if (!chosen.length && rows.every(([, n]) => n === 0)) return null;
  if (!rows.length || (rows.length === 1 && !chosen.length && facet.name !== "tag")) return null;
  const fits = rows.filter(([value]) => valueLabel(facet.name, value).toLowerCase().includes(words.toLowerCase()));
  const shown = all ? fits : fits.filter(([value], at) => at < SHORT || chosen.includes(value));
  const type = facet.single ? "radio" : "checkbox";
  return html`<fieldset class="facet">
    <legend>${facet.title}</legend>
    ${all && facet.search && rows.length > 12 &&
    html`<input class="facet-search" type="search" placeholder="Filter" value=${words}
      aria-label="Filter ${facet.title.toLowerCase()} values" onInput=${(event) => setWords(event.target.value)} />`}
    <ul class="plain ${all ? "facet-all" : ""}">
      ${shown.map(
        ([value, n]) => html`<li key=${value}>
          <label class="facet-value">
            <input type=${type} name=${id} checked=${chosen.includes(value)} onClick=${() => toggle(query, facet, value)} />
            <span class="facet-words ${valueClass(facet, value)}" title=${value}>
              <bdi>${valueLabel(facet.name, value) || "none"}</bdi>
            </span>
            ${hasCounts && html`<span class="facet-count num">${number(n)}</span>`}
          </label>
        </li>`,
      )}
    </ul>
    ${rows.length > SHORT &&
    html`<button type="button" class="link-button small" aria-expanded=${all ? "true" : "false"}
      onClick=${() => setAll(!all)}>${all ? "Fewer" : `All ${rows.length}`}</button>`}
  </fieldset>`;
}

/** The usual facets, and the others under "More". `counts` is `facets` from the API. */
export function Facets({ counts, query }) {
  const draw = (facet) => html`<${Facet} key=${facet.name} facet=${facet} values=${counts?.[facet.name] ?? []} query=${query}
    hasCounts=${Boolean(counts)} />`;
  const rare = FACETS.filter((facet) => facet.rare);
  const chosen = rare.some((facet) => query.has(facet.name));
  return html`<div class="facets">
    ${FACETS.filter((facet) => !facet.rare).map(draw)}
    <details class="facets-more" open=${chosen || undefined}><summary>More</summary>${rare.map(draw)}</details>
  </div>`;
}
