// A task, session or run as one line with a link.
import { html } from "../lib.js";
import { secondsBetween, State } from "./widgets.js";
import { count, number, seconds, Time, unlinked } from "./format.js";

function Entry({ href, title, text, sub, state, aside, inList, look = "" }) {
  return html`<a class="entry ${look}" href=${href} data-link tabindex=${inList ? -1 : undefined}>
    <span class="entry-main"><span class="entry-title">${title}</span>${text && html`<span class="entry-text">${unlinked(text)}</span>`}${sub && html`<span class="entry-sub">${sub}</span>`}</span>
    ${state && html`<span class="entry-state">${state}</span>`}
    <span class="entry-aside">${aside}</span>
  </a>`;
}

function joined(parts) {
  return parts.filter(Boolean).map((part, at) => html`<span key=${at} class="entry-part">${part}</span>`);
}

/** A task. */
export function TaskEntry({ task, inList }) {
  const sub = joined([
    html`<code>${task.id}</code>`,
    task.feature && `feature ${task.feature}`,
    task.parent && html`under <code>${task.parent}</code>`,
    task.waits_for?.length > 0 && `waits for ${count(task.waits_for.length, "task")}`,
    task.attempts > 0 && count(task.attempts, "attempt"),
    task.worktree && "own worktree",
  ]);
  return html`<${Entry}
    inList=${inList}
    href=${`/tasks/${encodeURIComponent(task.id)}`}
    title=${task.title}
    sub=${sub}
    state=${html`<${State} state=${task.status} />${task.ready && task.status === "pending" && html`<span class="badge">ready</span>`}`}
    aside=${html`${task.priority > 0 && html`<span class="num" title=${`Priority ${task.priority}`}>P${task.priority}</span>`}
      <${Time} at=${task.updated_at || task.created_at} />`}
  />`;
}

/** A session or a chat, with its outcome: how it ended, what it changed, and what it left open. */
export function SessionEntry({ session, inList, withTask = true }) {
  const { outcome } = session;
  const changed = outcome?.changed ?? [];
  const sub = joined([
    outcome?.open ? html`<span class="state state-left_open" title=${outcome.open}><span class="state-sign" aria-hidden="true">◔</span>left open</span>`
      : session.status === "open" && html`<${State} state="open" />`,
    session.client,
    session.mode && `${session.mode} mode`,
    withTask && session.task && html`task <code>${session.task}</code>`,
    changed.length === 1 && `changed ${changed[0]}`,
    changed.length > 1 && `changed ${number(changed.length)} files`,
    changed.length === 0 && session.messages > 0 && count(session.messages, "message"),
  ]);
  return html`<${Entry}
    inList=${inList}
    href=${`/sessions/${encodeURIComponent(session.id)}`}
    title=${session.title}
    text=${outcome?.text}
    sub=${sub}
    look="entry-session"
    aside=${html`<${Time} at=${session.started_at} />`}
  />`;
}

/** A run of the loop. */
export function RunEntry({ run, inList }) {
  const sub = joined([
    html`<code>${run.id}</code>`,
    run.agent,
    count(run.iterations, "iteration"),
    run.tokens > 0 && `${number(run.tokens)} tokens`,
    run.cost_usd > 0 && money(run.cost_usd),
    seconds(secondsBetween(run.started_at, run.ended_at)),
  ]);
  return html`<${Entry}
    inList=${inList}
    href=${`/runs/${encodeURIComponent(run.id)}`}
    title=${run.goal || run.id}
    sub=${sub}
    state=${html`<${State} state=${run.alive ? "running" : run.status} />`}
    aside=${html`<${Time} at=${run.started_at} />`}
  />`;
}

/** A cost in dollars, as reported by the agent. */
export function money(value) {
  return value ? `$${value < 0.1 ? value.toFixed(3) : value.toFixed(2)}` : "";
}
