// The dashboard: this week's usage, recent sessions, what was learned and what needs review, then tasks, cost and health.
// Features that are not in use have no card.
// Review and secrets read every memory, so they are separate requests. Live runs are updated by events.
import { html, useEffect, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Command, Empty, Failure, Loaded, RichText } from "../parts/placeholders.js";
import { SetupNotice } from "../parts/setup.js";
import { labelOf, titleOf } from "../parts/record_row.js";
import { recordPath } from "../parts/controls.js";
import { onEvent } from "../parts/events.js";
import { secondsBetween, Choice, Section, stateLabel, Switches, toggled } from "../parts/widgets.js";
import { Plot } from "../parts/plot.js";
import { RunEntry, SessionEntry, TaskEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { coded, count, Kind, number, ReviewKind, seconds, sentence } from "../parts/format.js";

const STATES = ["in_progress", "pending", "blocked", "failed", "done"];
const SHOWN = 8;

/** The page at `/`. */
export function Page() {
  const board = useGet("/api/dashboard", {}, { on: ["tasks", "runs", "sessions", "records"] });
  const shown = board.value !== undefined || board.error !== null;
  const waiting = useGet(shown ? "/api/review" : null, { limit: WAITING }, { on: ["insights", "records"] });
  const secrets = useGet(waiting.value ? "/api/secrets" : null);
  return html`<div class="board">
    <${PageHead} title="Dashboard" />
    <${Loaded} state=${board} lines=${8}>
      ${(data) => html`${data.setup && html`<${SetupNotice} step=${data.setup} />`}
        <${Week} data=${data} />
        <${Running} runs=${data.runs} />
        <div class="board-grid">
          <${Sessions} sessions=${data.sessions} />
          <div class="board-side">
            <${Learned} learned=${data.learned} kept=${data.learning.kept} setup=${data.setup} />
            <${Waiting} state=${waiting} />
          </div>
        </div>
        <${Tasks} tasks=${data.tasks} />
        <${Tokens} tokens=${data.tokens} />
        <div class="board-row">
          <${Health} counts=${waiting.value && { ...waiting.value.counts, ...secrets.value }} total=${data.learned.total} />
          <${Ended} runs=${data.runs} loop=${data.loop} />
          <${Doctor} notes=${data.doctor} />
        </div>`}
    <//>
  </div>`;
}

const HEALTH = [["citation", "stale"], ["unused", "unused"], ["duplicate", "duplicates"], ["secrets", "secrets"]];

/** Memory health: four numbers, each with a link to the page where it can be improved. */
function Health({ counts, total }) {
  if (total === 0 && !counts?.secrets) return null;
  const shown = (key) => (counts?.[key] === undefined && (key === "secrets" || !counts) ? "…" : number(counts?.[key] ?? 0));
  return html`<${Section} title="Memory health">
    <dl class="health">${HEALTH.map(([key, label]) => html`<div key=${key} class=${counts?.[key] ? "is-found" : ""}><dt>${label}</dt>
      <dd class="num">${key !== "secrets" && counts?.[key] ? html`<a href="/review" data-link>${shown(key)}</a>` : shown(key)}</dd></div>`)}</dl>
    ${counts?.secrets > 0 && html`<${Command} command="ralph doctor --secrets" />`}
  <//>`;
}

const WAITING = 3;

/** What Ralph gave to agents in the last seven days, what they used of it, and what to do next. */
function Week({ data }) {
  const { week } = data;
  if (!week.given) return null;
  const others = week.given - week.memories_given;
  const times = (n) => html`<b class="num">${count(n, "time")}</b>`;
  const given = [
    week.memories_given > 0 && html`a memory ${times(week.memories_given)}`,
    others > 0 && html`an excerpt of an earlier session ${times(others)}`,
  ].filter(Boolean);
  return html`<${Section} title="This week" class="week">
    <div class="week-body">
      <div>
        <p class="week-words">In ${count(week.sessions, "session")}, Ralph gave your agents ${given[0]}${given[1] && html` and ${given[1]}`}.
          ${week.referenced > 0 && html`${" "}They used it <b class="num">${count(week.referenced, "time")}</b>.`}</p>
        <p class="quiet small num">${count(week.tokens, "token")}${week.skill_tokens > 0
          && `, ${number(week.skill_tokens)} of them instructions for using Ralph`}</p>
      </div>
      <${NextStep} data=${data} />
    </div>
  <//>`;
}

function NextStep({ data: { week, learning } }) {
  if (learning.waiting > 0) {
    return html`<p class="next-step"><a class="button primary" href="/review" data-link>Review ${count(learning.waiting, "proposal")}</a></p>`;
  }
  if (learning.kept === 0) {
    return html`<p class="next-step"><span class="quiet small">Nothing was learned this week. Let your agent distil the sessions:</span>
      <${Command} command="ralph learn" /></p>`;
  }
  return html`<p class="next-step">${week.referenced === 0 && html`<span class="quiet small">Nothing of it was seen in an answer yet.</span>`}
    <a class="button" href="/context" data-link>See what a prompt is given</a></p>`;
}

/** The newest memories. */
function Learned({ learned, kept, setup }) {
  const aside = learned.total > 0 && html`<a href="/memory" data-link>All ${number(learned.total)}</a>`;
  return html`<${Section} title="Learned" aside=${aside}>
    ${learned.total === 0
      ? html`<${Empty} title="No memories yet" text="Add what agents should know, or let your agent distil recorded sessions."
          command=${setup ? "" : 'ralph memory add "what agents should know"'} />`
      : html`<p class="quiet small num learned-note">${kept > 0
            ? `${count(kept, "memory", "memories")} added this week` : "Nothing was added this week"}</p>
        <ul class="waiting-list">${learned.items.map((row) => html`<li key=${row.id}><${Kind} kind=${row.type || row.family} label=${labelOf(row)} />
          <a href=${recordPath(row.id)} data-link>${coded(titleOf(row))}</a></li>`)}</ul>`}
  <//>`;
}

/** The first few items of the review inbox, and their total. */
function Waiting({ state }) {
  const total = state.value?.total;
  return html`<${Section} title="Needs your review" class="waiting"
      aside=${total > 0 && html`<a href="/review" data-link>Review all ${number(total)}</a>`}>
    ${state.error && state.value === undefined && html`<${Failure} error=${state.error} retry=${state.reload} />`}
    ${total === undefined && !state.error && html`<p class="quiet" role="status">Checking…</p>`}
    ${total === 0 && html`<p class="quiet">Nothing to review.</p>`}
    ${total > 0 && html`<ul class="waiting-list">
      ${state.value.items.map((item) => html`<li key=${item.kind + item.id}><${ReviewKind} kind=${item.kind} />
        <a href=${["held", "proposal"].includes(item.kind) ? "/review" : recordPath(item.id)} data-link>${coded(item.text)}</a></li>`)}</ul>`}
  <//>`;
}

/** Running loops. The seconds are counted here, and everything else comes from the server. */
function Running({ runs }) {
  const [updates, setUpdates] = useState({});
  useEffect(() => onEvent("run", (run) => setUpdates((old) => ({ ...old, [run.id]: { ...run, received: performance.now() } }))), []);
  useEffect(() => setUpdates(recent), [runs]);
  const known = new Map(runs.map((run) => [run.id, run]));
  for (const run of Object.values(updates)) known.set(run.id, { ...known.get(run.id), ...run });
  const live = [...known.values()].filter((run) => run.alive);
  const ended = known.size > 0 ? "No run is active." : "";
  const spoken = live.map((run) => `${run.goal || run.id}: iteration ${current(run)}`).join(". ") || ended;
  return html`<div aria-live="polite" class="visually-hidden running-spoken">${spoken}</div>
    ${live.length > 0 && html`<${Section} title="Running now" class="running" aside=${html`<span class="quiet num">${number(live.length)}</span>`}>
      <ul class="cards">${live.map((run) => html`<li key=${run.id}><${LiveRun} run=${run} /></li>`)}</ul>
    <//>`}`;
}

/** Recent events, because a response that was requested before an event may be older than the event. */
function recent(updates) {
  const since = performance.now() - 1500;
  return Object.fromEntries(Object.entries(updates).filter(([, run]) => run.received > since));
}

/** The number of the current iteration. `iterations` counts those that have ended, and `step` is empty between two. */
function current(run) {
  return Math.max(1, run.iterations + (run.step ? 1 : 0));
}

function LiveRun({ run }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((old) => old + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<article class="card live" data-run=${run.id} data-iteration=${current(run)}>
    <p class="live-top"><span class="pulse" aria-hidden="true"></span>iteration <b class="num">${current(run)}</b>
      <span class="num quiet">${seconds(Math.round(secondsBetween(run.started_at)))}</span></p>
    <h3><a href=${`/runs/${encodeURIComponent(run.id)}`} data-link>${run.goal || run.id}</a></h3>
    <p class="live-line"><${RichText} text=${run.why || run.step || "The agent is working."} /></p>
    <p class="quiet live-foot"><code>${run.id}</code>
      ${run.agent && html`<span>${run.agent}</span>`}
      ${run.tokens > 0 && html`<span class="num">${number(run.tokens)} tokens</span>`}
      ${run.task && html`<a href=${`/tasks/${encodeURIComponent(run.task)}`} data-link>task ${run.task}</a>`}</p>
  </article>`;
}

const ORDERS = {
  priority: (a, b) => (a.priority || 99) - (b.priority || 99) || newest(a, b),
  newest: (a, b) => newest(a, b),
  title: (a, b) => a.title.localeCompare(b.title),
  state: (a, b) => STATES.indexOf(a.status) - STATES.indexOf(b.status) || newest(a, b),
};

function newest(a, b) {
  return (b.updated_at || b.created_at || "").localeCompare(a.updated_at || a.created_at || "");
}

function Tasks({ tasks }) {
  const [on, setOn] = useState(new Set());
  const [order, setOrder] = useState("state");
  const total = Object.values(tasks.by_state).reduce((sum, n) => sum + n, 0);
  const chosen = tasks.items.filter((task) => on.size === 0 || on.has(task.status)).sort(ORDERS[order]);
  const matching = on.size === 0 ? total : [...on].reduce((sum, state) => sum + (tasks.by_state[state] ?? 0), 0);
  const states = [...new Set([...STATES, ...Object.keys(tasks.by_state)])].filter((state) => tasks.by_state[state]);
  if (total === 0) return null;
  const sort = html`<${Choice} label="Sort by" value=${order} onChange=${setOrder}
    options=${[["state", "by state"], ["priority", "by priority"], ["newest", "by last change"], ["title", "by title"]]} />`;
  return html`<${Section} title="Tasks" aside=${html`${sort}<a href="/tasks" data-link>All ${number(total)}</a>`}>
    <div class="toolbar">
      <${Switches} label="Show tasks in these states" on=${on} onToggle=${(state) => setOn(toggled(on, state))}
        options=${states.map((state) =>
            ({ key: state, label: stateLabel(state), count: tasks.by_state[state], class: `state-${state}` }))} />
    </div>
    <ul class="entries" aria-label="Tasks">
      ${chosen.slice(0, SHOWN).map((task) => html`<li key=${task.id}><${TaskEntry} task=${task} /></li>`)}</ul>
    ${matching > SHOWN && html`<p class="rest quiet">
      ${number(matching - SHOWN)} more in <a href=${tasksPath(on, order)} data-link>the list of tasks</a></p>`}
  <//>`;
}

function tasksPath(on, order) {
  const query = new URLSearchParams([...on].map((state) => ["state", state]));
  query.set("sort", order);
  return `/tasks?${query}`;
}

const percent = (value) => (value === null || value === undefined ? "none" : `${Math.round(value * 100)} %`);

const FEWEST_DAYS = 3; // fewer points are no chart

/** The plots, once there are enough days. */
function Tokens({ tokens }) {
  if (tokens.given.filter((n) => n > 0).length < FEWEST_DAYS) return null;
  return html`<${Section} title="Context over time"><div class="plots">
    <div><h3 class="plot-title">Tokens given a day, and how many of them were used</h3>
      <${Plot} title="Tokens given and used a day" days=${tokens.days}
        series=${[{ label: "given", values: tokens.given, colour: "--plot-1", bars: true },
            { label: "used", values: tokens.used, colour: "--plot-2" }]} /></div>
    <div><h3 class="plot-title">Share of what was given that was used</h3>
      <${Plot} title="Share used" days=${tokens.days} say=${percent} top=${1}
        series=${[{ label: "share used", values: tokens.rate, colour: "--plot-2" }]} /></div>
  </div><//>`;
}

function Sessions({ sessions }) {
  const { items, total, empty } = sessions;
  return html`<${Section} title="Recent sessions" aside=${total > 0 && html`<a href="/sessions" data-link>All ${number(total)}</a>`}>
    ${items.length
      ? html`<ul class="entries">
          ${items.map((session) => html`<li key=${session.id}><${SessionEntry} session=${session} withTask=${false} /></li>`)}</ul>`
      : html`<${Empty} title="No sessions yet" text="Each conversation with a connected agent appears here, with what came of it." />`}
    ${empty > 0 && html`<p class="rest"><a class="quiet" href="/sessions?empty=1" data-link>${count(empty, "empty session")}</a></p>`}
  <//>`;
}

function Ended({ runs, loop }) {
  const ended = runs.filter((run) => !run.alive).slice(0, 4);
  if (!ended.length) return null;
  return html`<${Section} title="Recent runs" aside=${html`<a href="/runs" data-link>All runs</a>`}>
    <${SuccessRate} loop=${loop} />
    <ul class="entries is-narrow">${ended.map((run) => html`<li key=${run.id}><${RunEntry} run=${run} /></li>`)}</ul>
  <//>`;
}

/** How many runs succeeded, and in how many iterations on average. */
function SuccessRate({ loop }) {
  if (loop?.success_rate == null) return null;
  return html`<p class="quiet small num loop-rate">${number(loop.succeeded)} of ${count(loop.runs - loop.running, "run")}${" "}
    succeeded (${Math.round(100 * loop.success_rate)}%)${loop.mean_iterations != null
      && `, in ${loop.mean_iterations.toFixed(1)} iterations on average`}</p>`;
}

/** Problems with the hooks, if there are any. */
function Doctor({ notes }) {
  if (!notes?.length) return null;
  return html`<${Section} title="Doctor">
    <ul class="notes">
      ${notes.map(
        (note, at) => html`<li key=${at} class="note note-${note.level}">
          <b>${note.level}</b>: <${RichText} text=${note.message} />
          ${note.hint && html`<span class="quiet note-hint"><${RichText} text=${sentence(note.hint)} /></span>`}
        </li>`,
      )}
    </ul>
  <//>`;
}
