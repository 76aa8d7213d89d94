// One run of the loop: iterations with outcome, checks, journal and prompt. Live runs are updated by events.
import { html, useEffect, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Diff } from "../parts/diff.js";
import { Empty, Loaded, RichText } from "../parts/placeholders.js";
import { onEvent } from "../parts/events.js";
import { Html } from "../parts/markdown.js";
import { Code, secondsBetween, Facts, Section, State, Tabs } from "../parts/widgets.js";
import { money } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { number, seconds, sentence, Time } from "../parts/format.js";

/** The page at `/runs/ID`. */
export function Page({ params }) {
  const answer = useGet(`/api/runs/${encodeURIComponent(params.id)}`, {}, { on: ["runs"] });
  useEffect(() => onEvent("run", (run) => run.id === params.id && answer.reload()), [params.id]);
  return html`${answer.value === undefined && html`<${PageHead} title="Run" back=${["/runs", "Runs"]} />`}
    <${Loaded} state=${answer}>${(data) => html`<${Run} data=${data} />`}<//>`;
}

/** Whether the reason why a run ended only repeats its state and its task, which are shown next to it. */
const repeatsStatus = (run) => run.why === `${run.status}: ${run.task}` || run.why === `done: ${run.task}`;

function Run({ data }) {
  const { run, iterations } = data;
  return html`<${PageHead} title=${run.goal || run.id} back=${["/runs", "Runs"]}
      actions=${html`<a class="button" href=${`/compare?a=${encodeURIComponent(run.id)}`} data-link>Compare</a>`}
      sub=${html`<span class="head-states"><${State} state=${run.alive ? "running" : run.status} /><code>${run.id}</code></span>`} />
    ${run.why && !repeatsStatus(run) && html`<p class="ended" role="status"><${RichText} text=${sentence(run.why)} /></p>`}
    <${Facts} of=${facts(run)} />
    <${Section} title="Iterations" aside=${html`<span class="quiet num">${number(iterations.length)}</span>`}>
      ${iterations.length > 1 && html`<${Strip} iterations=${iterations} />`}
      ${iterations.length
        ? html`<ol class="iterations">
            ${[...iterations].reverse().map((one, at) =>
              html`<li key=${one.number}><${Iteration} one=${one} run=${run} first=${at === 0} /></li>`)}</ol>`
        : html`<${Empty} title="No iteration has finished"
            text=${run.alive ? "The first iteration is running. It appears here once it has finished."
              : "The run ended before its first iteration finished. See its log for the reason."} command=${`ralph loop show --log ${run.id}`} />`}
    <//>`;
}

function facts(run) {
  return [
    ["Task", run.task && html`<a href=${`/tasks/${encodeURIComponent(run.task)}`} data-link><code>${run.task}</code></a>`],
    ["Agent", run.agent],
    ["Started", run.started_at && html`<${Time} at=${run.started_at} />`],
    ["Duration", seconds(secondsBetween(run.started_at, run.ended_at))],
    ["Tokens", run.tokens ? number(run.tokens) : null],
    ["Cost", money(run.cost_usd)],
  ];
}

/** All outcomes in one line, oldest first. Each links to its iteration. */
function Strip({ iterations }) {
  return html`<nav class="strip" aria-label="Iterations by outcome">
    ${iterations.map((one) => html`<a key=${one.number} class="strip-step state-${one.outcome}"
      href=${`#iteration-${one.number}`} title=${`Iteration ${one.number}: ${one.outcome}`}>
      <span class="num">${one.number}</span><${State} state=${one.outcome} /></a>`)}
  </nav>`;
}

function Iteration({ one, run, first }) {
  const passed = one.checks.filter((check) => check.passed).length;
  return html`<article class="card iteration" id=${`iteration-${one.number}`} data-outcome=${one.outcome}>
    <header class="iteration-head">
      <h3><span class="num">Iteration ${one.number}</span></h3>
      <${State} state=${one.outcome} />
      <span class="quiet iteration-facts">
        ${one.at && html`<${Time} at=${one.at} />`}${one.seconds > 0 && html`<span class="num">${seconds(one.seconds)}</span>`}
        ${one.tokens > 0 && html`<span class="num">${number(one.tokens)} tokens</span>`}
        ${one.checks.length > 0 && html`<span class="num">${passed} of ${one.checks.length} checks passed</span>`}
      </span>
    </header>
    ${one.summary && html`<p class="iteration-summary">${one.summary}</p>`}
    ${one.checks.length > 0 && html`<${Checks} checks=${one.checks} />`}
    ${one.files.length > 0 && html`<${Files} files=${one.files} />`}
    ${one.journal_html && html`<details class="more-of" open=${(first && !repeats(one)) || undefined}><summary>Journal</summary>
      <${Html} html=${one.journal_html} /></details>`}
    ${one.has_prompt && html`<${Prompt} run=${run.id} nth=${one.number} />`}
  </article>`;
}

/** Whether the journal only repeats the summary above it. */
function repeats({ journal_html: journal, summary }) {
  return journal.replace(/<[^>]*>/g, "").trim() === (summary ?? "").trim();
}

/** The checks of an iteration. The output of a failed check is expanded. */
export function Checks({ checks }) {
  return html`<ul class="checks" aria-label="Checks">
    ${checks.map(
      (check, at) => html`<li key=${at}>
        ${check.output
          ? html`<details open=${check.passed ? undefined : true}>
              <summary><${State} state=${check.passed ? "passed" : "failed"} /><code>${check.name}</code></summary>
              <${Code} text=${check.output} label=${`Output of ${check.name}`} /></details>`
          : html`<p class="check-line"><${State} state=${check.passed ? "passed" : "failed"} /><code>${check.name}</code></p>`}
      </li>`,
    )}
  </ul>`;
}

function Files({ files }) {
  return html`<details class="more-of"><summary>${number(files.length)} ${files.length === 1 ? "file" : "files"} changed</summary>
    <ul class="files">${files.map((file) => html`<li key=${file}><code>${file}</code></li>`)}</ul>
  </details>`;
}

/** The iteration's prompt, complete or as a diff from the previous one. */
function Prompt({ run, nth }) {
  const [open, setOpen] = useState(false);
  return html`<details class="more-of" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Prompt snapshot</summary>
    ${open && html`<${Snapshot} run=${run} nth=${nth} />`}
  </details>`;
}

function Snapshot({ run, nth }) {
  const answer = useGet(`/api/runs/${encodeURIComponent(run)}/prompts/${nth}`);
  const [view, setView] = useState(null);
  return html`<${Loaded} state=${answer} lines=${3}>
    ${(data) => {
      const tabs = [
        data.diff && { key: "diff", label: "Changes" },
        { key: "whole", label: "Full prompt" },
      ].filter(Boolean);
      const chosen = view ?? tabs[0].key;
      return html`<p class="quiet num">
          ${number(data.tokens)} tokens${data.previous && !data.diff ? `, the same as in iteration ${data.previous}` : ""}</p>
        ${data.note && html`<p class="quiet">${data.note}</p>`}
        <${Tabs} label=${`Prompt of iteration ${nth}`} tabs=${tabs} chosen=${chosen} onChoose=${setView}>
          ${chosen === "diff" ? html`<${Diff} text=${data.diff} />` : html`<${Code} text=${data.text} label=${`Prompt of iteration ${nth}`} look="prompt" />`}
        <//>`;
    }}
  <//>`;
}
