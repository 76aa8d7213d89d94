// Compares two runs or two sessions: totals in a table, iterations in pairs. The choice is part of the address.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Choice, Section, State } from "../parts/widgets.js";
import { money } from "../parts/entries.js";
import { route, setQuery } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { useMedia } from "../parts/hooks.js";
import { Time, number, percent, seconds, sentence } from "../parts/format.js";

const FORMATS = { cost: (value) => money(value) || "none", time: seconds, "share used": percent };
const NOUNS = { runs: "run", sessions: "session" };

/** The page at `/compare?a=&b=&kind=`. */
export function Page() {
  const { query } = route.value;
  const kind = query.get("kind") === "sessions" ? "sessions" : "runs";
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const list = useGet(`/api/${kind}`, { limit: 200 }, { on: [kind] });
  const both = useGet(a && b && a !== b ? "/api/compare" : null, { a, b }, { on: [kind] });
  return html`<div class="page">
    <${PageHead} title=${`Compare two ${kind}`} back=${[`/${kind}`, kind === "runs" ? "Runs" : "Sessions"]} />
    <${Loaded} state=${list} lines=${2}>
      ${(data) => html`${(data.items.length > 1 || a || b) && html`<${Choices} kind=${kind} items=${data.items} a=${a} b=${b} />`}
        ${a && b && a !== b
          ? html`<${Loaded} state=${both} lines=${8}>${(value) => html`<${Both} data=${value} kind=${kind} />`}<//>`
          : html`<${Nothing} kind=${kind} items=${data.items} same=${Boolean(a) && a === b} />`}`}
    <//>
  </div>`;
}

function Choices({ kind, items, a, b }) {
  const known = (id) => (id && !items.some((item) => item.id === id) ? [[id, id]] : []);
  const options = (id) => [["", `Choose a ${NOUNS[kind]}`], ...known(id), ...items.map((item) => [item.id, named(item)])];
  return html`<div class="toolbar compare-choices">
    <${Choice} label="Compare" value=${kind} options=${[["runs", "runs of the loop"], ["sessions", "sessions"]]}
      onChange=${(next) => setQuery({ kind: next === "runs" ? null : next, a: null, b: null })} />
    <${Choice} label="First" name="a" value=${a} options=${options(a)} onChange=${(id) => setQuery({ a: id })} />
    <${Choice} label="Second" name="b" value=${b} options=${options(b)} onChange=${(id) => setQuery({ b: id })} />
    <button type="button" class="button" disabled=${!a && !b} onClick=${() => setQuery({ a: b, b: a })}>Swap</button>
  </div>`;
}

function named(item) {
  const title = item.goal || item.title;
  const day = (item.started_at ?? "").slice(0, 10);
  return `${title.length > 60 ? `${title.slice(0, 59)}…` : title} (${[day, item.status].filter(Boolean).join(", ")})`;
}

function Nothing({ kind, items, same }) {
  if (items.length < 2) {
    return kind === "runs"
      ? html`<${Empty} title="There are not two runs yet"
          text="Run the loop twice, with another agent or another prompt, then see what made the difference."
          command='ralph loop start "what should be done"' />`
      : html`<${Empty} title="There are not two sessions yet" text="Sessions are recorded by the hooks of an agent's host."
          command="ralph install claude" />`;
  }
  const title = same ? `Both are the same ${NOUNS[kind]}` : `Choose two ${kind}`;
  return html`<${Empty} title=${title} text="Their totals, outcomes, checks and changed files are then shown side by side." />`;
}

function Both({ data, kind }) {
  const paired = data.iterations ?? [];
  return html`<${Section} title="Totals">
      <div role="region" aria-label="Totals side by side"><${Totals} data=${data} kind=${kind} /></div>
    <//>
    ${paired.length > 0 && html`<${Section} title="Iterations side by side">
      <ol class="pairs">
        ${paired.map(
          ([one, other], at) => html`<li key=${at} class="pair">
            <h3 class="pair-num num"><span class="pair-word">Iteration </span>${at + 1}</h3><${Side} one=${one} name="First" /><${Side} one=${other} name="Second" />
          </li>`,
        )}
      </ol>
    <//>`}`;
}

/** A table of three columns; where there is no room for them, what is compared has a line of its own above the two. */
function Totals({ data, kind }) {
  const narrow = useMedia("(max-width: 640px)");
  const heads = html`<${Head} item=${data.a} kind=${kind} /><${Head} item=${data.b} kind=${kind} />`;
  const cells = (row) => html`<${Cell} what=${row.what} value=${row.a} better=${row.better === "a"} />
    <${Cell} what=${row.what} value=${row.b} better=${row.better === "b"} />`;
  if (narrow) {
    return html`<table class="compare is-stacked">
      <thead><tr>${heads}</tr></thead>
      ${data.rows.map(
        (row) => html`<tbody key=${row.what}>
          <tr><th scope="rowgroup" colspan="2">${sentence(row.what)}</th></tr>
          <tr>${cells(row)}</tr>
        </tbody>`,
      )}
    </table>`;
  }
  return html`<table class="compare">
    <thead><tr><th scope="col"><span class="visually-hidden">What</span></th>${heads}</tr></thead>
    <tbody>${data.rows.map((row) => html`<tr key=${row.what}><th scope="row">${sentence(row.what)}</th>${cells(row)}</tr>`)}</tbody>
  </table>`;
}

function Head({ item, kind }) {
  return html`<th scope="col">
    <a href=${`/${kind}/${encodeURIComponent(item.id)}`} data-link>${item.goal || item.title || item.id}</a>
    <span class="quiet compare-when"><${Time} at=${item.started_at} /></span>
  </th>`;
}

function Cell({ what, value, better }) {
  const words = typeof value === "number" && FORMATS[what] ? FORMATS[what](value) : shown(value);
  return html`<td class=${better ? "is-better" : ""}>${words}${better && html`<span class="badge badge-good">better</span>`}</td>`;
}

function shown(value) {
  if (value === null || value === undefined || value === "") return html`<span class="quiet">none</span>`;
  if (typeof value === "number") {
    return html`<span class="num">${Number.isInteger(value) ? number(value) : Math.round(value * 1000) / 1000}</span>`;
  }
  if (Array.isArray(value)) return value.join(", ");
  return String(value);
}

/** One run's iteration of this number; a gap where the other run went on alone. */
function Side({ one, name }) {
  if (!one) return html`<div class="pair-side is-missing"><span class="quiet">${name}: ended before this one</span></div>`;
  const failed = one.checks.filter((check) => !check.passed);
  return html`<div class="pair-side">
    <p class="iteration-head"><span class="pair-name">${name}</span><${State} state=${one.outcome} />
      <span class="quiet iteration-facts">
        ${one.seconds > 0 && html`<span class="num">${seconds(one.seconds)}</span>`}
        ${one.tokens > 0 && html`<span class="num">${number(one.tokens)} tokens</span>`}
        ${one.cost_usd > 0 && html`<span class="num">${money(one.cost_usd)}</span>`}
      </span></p>
    ${one.summary && html`<p>${one.summary}</p>`}
    ${failed.length > 0 && html`<p class="quiet">Failed: ${failed.map((check) => html`<code key=${check.name}>${check.name}</code> `)}</p>`}
    ${one.files.length > 0 && html`<p class="quiet pair-files">
      ${one.files.slice(0, 6).map((file) => html`<code key=${file}>${file}</code>`)}
      ${one.files.length > 6 && html`<span>and ${one.files.length - 6} more</span>`}
    </p>`}
  </div>`;
}
