// Two runs side by side, first their totals and then each iteration. The choice is part of the address.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Choice, secondsBetween, State } from "../parts/widgets.js";
import { money } from "../parts/entries.js";
import { route, setQuery } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { number, seconds } from "../parts/format.js";

/** The page at `/compare?a=&b=`. */
export function Page() {
  const { query } = route.value;
  const ids = [query.get("a") ?? "", query.get("b") ?? ""];
  const list = useGet("/api/runs", { limit: 200 }, { on: ["runs"] });
  const path = (id) => (id ? `/api/runs/${encodeURIComponent(id)}` : null);
  const [one, other] = [useGet(path(ids[0]), {}, { on: ["runs"] }), useGet(path(ids[1]), {}, { on: ["runs"] })];
  return html`<${PageHead} title="Compare two runs" back=${["/runs", "Runs"]} />
    <${Loaded} state=${list} lines=${2}>${(data) => html`<div class="toolbar">
      ${["First", "Second"].map((label, at) => html`<${Choice} key=${label} label=${label} name=${"ab"[at]} value=${ids[at]}
        options=${[["", "Choose a run"], ...data.items.map((run) => [run.id, named(run)])]}
        onChange=${(id) => setQuery({ ["ab"[at]]: id })} />`)}</div>`}<//>
    ${ids[0] && ids[1]
      ? html`<${Loaded} state=${one} lines=${6}>${(a) => html`<${Loaded} state=${other} lines=${6}>${(b) =>
          html`<${Both} runs=${[a, b]} />`}<//>`}<//>`
      : html`<${Empty} title="Choose two runs" text="Compare their totals, outcomes, checks and changed files side by side." />`}`;
}

function named(run) {
  const goal = run.goal || run.id;
  return `${goal.length > 60 ? `${goal.slice(0, 59)}…` : goal} (${[(run.started_at ?? "").slice(0, 10), run.status].filter(Boolean).join(", ")})`;
}

const TOTALS = [
  ["Status", ({ run }) => html`<${State} state=${run.alive ? "running" : run.status} />`],
  ["Why it ended", ({ run }) => run.why],
  ["Agent", ({ run }) => [run.agent, run.model].filter(Boolean).join(", ")],
  ["Iterations", ({ iterations }) => number(iterations.length)],
  ["Time", ({ run }) => seconds(secondsBetween(run.started_at, run.ended_at))],
  ["Cost", ({ run }) => money(run.cost_usd)],
  ["Prompt tokens, total", ({ run }) => number(run.tokens)],
  ["Checks passed", ({ iterations }) => passed(iterations.flatMap((each) => each.checks))],
  ["Files changed", ({ iterations }) => number(new Set(iterations.flatMap((each) => each.files)).size)],
];

function passed(checks) {
  return checks.length ? `${checks.filter((check) => check.passed).length} of ${checks.length}` : "";
}

function Both({ runs }) {
  const count = Math.max(...runs.map((each) => each.iterations.length));
  const rows = Array.from({ length: count }, (_, at) =>
    [`Iteration ${at + 1}`, ({ iterations }) => iterations[at] && html`<${One} one=${iterations[at]} />`]);
  return html`<table class="compare">
    <thead><tr><th scope="col"><span class="visually-hidden">What</span></th>${runs.map(({ run }, at) => html`<th key=${at} scope="col">
      <a href=${`/runs/${encodeURIComponent(run.id)}`} data-link>${run.goal || run.id}</a></th>`)}</tr></thead>
    <tbody>${[...TOTALS, ...rows].map(([what, value]) => html`<tr key=${what}><th scope="row">${what}</th>
      ${runs.map((each, at) => html`<td key=${at}>${value(each) || html`<span class="quiet">none</span>`}</td>`)}</tr>`)}</tbody>
  </table>`;
}

function One({ one }) {
  const checks = passed(one.checks);
  return html`<${State} state=${one.outcome} />
    ${one.seconds > 0 && html`<span class="quiet num"> ${seconds(one.seconds)}</span>`}
    ${one.summary && html`<p>${one.summary}</p>`}
    ${checks && html`<p class="quiet">${checks} checks passed</p>`}
    ${one.files.length > 0 && html`<p class="quiet">${one.files.join(", ")}</p>`}`;
}
