// The dashboard: this week's usage, the review inbox and running loops, followed by tasks, tokens and memory health.
// Review and secrets read every memory, so they are separate requests. Live runs are updated by events.
import { html, useEffect, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Command, Empty, Failure, Loaded, RichText } from "../parts/placeholders.js";
import { recordPath } from "../parts/controls.js";
import { onEvent } from "../parts/events.js";
import { secondsBetween, Choice, Section, stateLabel, Switches, toggled } from "../parts/widgets.js";
import { Plot } from "../parts/plot.js";
import { RunEntry, SessionEntry, TaskEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { coded, count, number, ReviewKind, seconds, sentence } from "../parts/format.js";

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
      ${(data) => html`<div class="board-top">
          <${Week} week=${data.week} learning=${data.learning} />
          <${Waiting} state=${waiting} />
          <${Running} runs=${data.runs} />
        </div>
        <div class="board-grid">
          <div class="board-wide">
            <${Tasks} tasks=${data.tasks} />
            <${Tokens} tokens=${data.tokens} />
          </div>
          <div class="board-side">
            <${Sessions} sessions=${data.sessions} />
            <${Health} counts=${waiting.value && { ...waiting.value.counts, ...secrets.value }} />
            <${Doctor} notes=${data.doctor} />
            <${Ended} runs=${data.runs} loop=${data.loop} />
          </div>
        </div>
        <p class="quiet small board-foot">Diagnostics: <a href="/hooks" data-link>hook latency</a></p>`}
    <//>
  </div>`;
}

const HEALTH = [["citation", "stale"], ["unused", "unused"], ["duplicate", "duplicates"], ["secrets", "secrets"]];

/** Memory health: four numbers, each with a link to the page where it can be improved. */
function Health({ counts }) {
  const shown = (key) => (counts?.[key] === undefined && (key === "secrets" || !counts) ? "…" : number(counts?.[key] ?? 0));
  return html`<${Section} title="Memory health">
    <dl class="health">${HEALTH.map(([key, label]) => html`<div key=${key} class=${counts?.[key] ? "is-found" : ""}><dt>${label}</dt>
      <dd class="num">${key !== "secrets" && counts?.[key] ? html`<a href="/review" data-link>${shown(key)}</a>` : shown(key)}</dd></div>`)}</dl>
    ${counts?.secrets > 0 && html`<${Command} command="ralph doctor --secrets" />`}
  <//>`;
}

const WAITING = 3;

/** A sentence about what Ralph did in the last seven days. */
function Week({ week, learning }) {
  return html`<${Section} title="This week" class="week">
    ${week.injected > 0
      ? html`<p class="week-words">Ralph gave your agents <b class="num">${count(week.injected, "record")}</b>${" "}
            in ${count(week.sessions, "session")}. ${" "}<b class="num">${number(week.referenced)}</b>
            ${week.referenced === 1 ? " was" : " were"} used.</p>
          <p class="quiet small num">${count(week.tokens, "token")}${week.skill_tokens > 0
            && `, ${number(week.skill_tokens)} of them instructions for using Ralph`}</p>`
      : html`<${Empty} title="Nothing was injected this week"
          text="With hooks installed, your agents get the memories that match their work." command="ralph install claude" />`}
    <${Learned} learning=${learning} />
  <//>`;
}

/** What was learned this week, and what waits for a decision. */
function Learned({ learning: { kept, waiting } }) {
  if (!kept && !waiting) return null;
  return html`<p class="week-learned num">
    ${kept > 0 && html`<span><b>${count(kept, "memory", "memories")}</b> learned this week.</span>`}${" "}
    ${waiting > 0 && html`<a href="/review" data-link>${count(waiting, "proposal")} to review</a>`}</p>`;
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
  return html`<${Section} title="Running now" class="running"
      aside=${live.length > 0 && html`<span class="quiet num">${number(live.length)}</span>`}>
    <div aria-live="polite" class="visually-hidden">
      ${live.length === 0 ? "No loop is running." : live.map((run) => `${run.goal || run.id}: iteration ${current(run)}`).join(". ")}</div>
    ${live.length === 0
      ? html`<${Empty} title="No loop is running"
          text="A loop runs an agent repeatedly until the work is done."
          command='ralph loop start "what should be done"' />`
      : html`<ul class="cards">${live.map((run) => html`<li key=${run.id}><${LiveRun} run=${run} /></li>`)}</ul>`}
  <//>`;
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
  if (total === 0) {
    return html`<${Section} title="Tasks">
        <${Empty} title="There are no tasks"
          text="A task is one piece of work with its own log, runs and insights. Add one, or import a PRD."
          command='ralph task add "what should be done"' /><//>`;
  }
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

function Tokens({ tokens }) {
  const any = tokens.injected.some((n) => n > 0);
  return html`<${Section} title="Context over time">
    ${any
      ? html`<h3 class="plot-title">Tokens injected a day, and how many of them were used</h3>
          <${Plot} title="Tokens injected and used a day" days=${tokens.days}
            series=${[{ label: "injected", values: tokens.injected, colour: "--plot-1", bars: true },
                { label: "used", values: tokens.used, colour: "--plot-2" }]} />
          <h3 class="plot-title">Share of injected records that were used</h3>
          <${Plot} title="Share used" days=${tokens.days} say=${percent} top=${1} height=${132}
            series=${[{ label: "share used", values: tokens.rate, colour: "--plot-2" }]} />`
      : html`<${Empty} title="Nothing has been injected yet"
          text="Once an agent's hooks ask for context, this shows the tokens of each day and the share that was used." />`}
  <//>`;
}

function Sessions({ sessions }) {
  return html`<${Section} title="Recent sessions" aside=${sessions.length > 0 && html`<a href="/sessions" data-link>All sessions</a>`}>
    ${sessions.length
      ? html`<ul class="entries is-narrow">
          ${sessions.slice(0, 6).map((session) =>
            html`<li key=${session.id}><${SessionEntry} session=${session} withTask=${false} /></li>`)}</ul>`
      : html`<${Empty} title="No sessions yet"
          text="A session is one conversation with an agent, recorded by the agent's hooks." />`}
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
  return html`<p class="quiet small num loop-rate">${number(loop.succeeded)} of ${count(loop.runs - loop.running, "run")}
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
