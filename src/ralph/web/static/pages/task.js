// One task: description, stories, progress, log, sessions, runs and proposals.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Html } from "../parts/markdown.js";
import { Facts, Section, State } from "../parts/widgets.js";
import { RunEntry, SessionEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { Time, number } from "../parts/format.js";

/** The page at `/tasks/ID`. */
export function Page({ params }) {
  const answer = useGet(`/api/tasks/${encodeURIComponent(params.id)}`, {}, { on: ["tasks", "sessions", "runs", "insights"] });
  return html`${answer.value === undefined && html`<${PageHead} title="Task" back=${["/tasks", "Tasks"]} />`}
    <${Loaded} state=${answer}>${(data) => html`<${Task} data=${data} />`}<//>`;
}

function Task({ data }) {
  const { task } = data;
  return html`<${PageHead} title=${task.title} back=${["/tasks", "Tasks"]}
      sub=${html`<span class="head-states"><${State} state=${task.status} />
        ${task.ready && task.status === "pending" && html`<span class="badge">ready</span>`}<code>${task.id}</code></span>`} />
    <${Facts} of=${facts(task)} />
    ${task.html && html`<h2 class="visually-hidden">Description</h2><${Html} html=${task.html} />`}
    <div class="columns">
      <div>
        <${Children} tasks=${data.children ?? []} />
        <${Stories} stories=${data.stories} />
        <${Section} title="Progress">
          ${/<(p|li|pre|td)\b/.test(data.progress_html ?? "") ? html`<${Html} class="progress" html=${data.progress_html} />`
            : html`<${Empty} title="No progress yet"
                text="A loop writes its progress after each iteration." command=${`ralph loop start --task ${task.id}`} />`}
        <//>
      </div>
      <div>
        <${Log} log=${data.log} />
        <${Chats} sessions=${data.sessions} task=${task} />
        <${Section} title="Runs" aside=${html`<span class="quiet num">${number(data.runs.length)}</span>`}>
          ${data.runs.length ? html`<ul class="entries is-narrow">
              ${data.runs.map((run) => html`<li key=${run.id}><${RunEntry} run=${run} /></li>`)}</ul>`
            : html`<${Empty} title="No runs yet" text="Start a loop to have an agent work on this task."
                command=${`ralph loop start --task ${task.id}`} />`}
        <//>
        <${Insights} insights=${data.insights} />
      </div>
    </div>`;
}

function facts(task) {
  const link = (id) => html`<a href=${`/tasks/${encodeURIComponent(id)}`} data-link><code>${id}</code></a>`;
  return [
    ["Priority", task.priority || null],
    ["Created", task.created_at && html`<${Time} at=${task.created_at} />`],
    ["Changed", task.updated_at && html`<${Time} at=${task.updated_at} />`],
    ["Parent", task.parent && link(task.parent)],
    ["Waits for", task.waits_for?.length > 0 && task.waits_for.map((id) => html`<span key=${id} class="entry-part">${link(id)}</span>`)],
    ["Feature", task.feature],
    ["Branch", task.branch && html`<code>${task.branch}</code>`],
    ["Worktree", task.worktree && html`<code>${task.worktree}</code>`],
    ["Claimed by", task.run && html`<a href=${`/runs/${encodeURIComponent(task.run)}`} data-link><code>${task.run}</code></a>`],
    ["Attempts", task.attempts || null],
  ];
}

/** The subtasks. */
function Children({ tasks }) {
  if (!tasks.length) return null;
  return html`<${Section} title="Subtasks">
    <ul class="found">
      ${tasks.map((task) => html`<li key=${task.id}>
        <a href=${`/tasks/${encodeURIComponent(task.id)}`} data-link>${task.title}</a>
        <span class="found-rest"><${State} state=${task.status} /><code>${task.id}</code></span></li>`)}
    </ul>
  <//>`;
}

/** The stories of the task's PRD, and how many of them pass. */
function Stories({ stories }) {
  if (!stories.length) return null;
  const passed = stories.filter((story) => story.passes).length;
  return html`<${Section} title="Stories" aside=${html`<span class="quiet num">${passed} of ${stories.length} passed</span>`}>
    <progress class="progress-bar" max=${stories.length} value=${passed}
      aria-label=${`${passed} of ${stories.length} stories passed`}></progress>
    <ol class="stories">${stories.map((story, at) => html`<li key=${story.id ?? at}><${Story} story=${story} /></li>`)}</ol>
  <//>`;
}

function Story({ story }) {
  const criteria = story.acceptance_criteria ?? [];
  return html`<p class="story-head"><${State} state=${story.passes ? "passed" : "pending"} /><b>${story.title || story.id}</b>
      ${story.id && html`<code>${story.id}</code>`}</p>
    ${story.description && html`<p class="quiet">${story.description}</p>`}
    ${criteria.length > 0 && html`<ul class="criteria">${criteria.map((one, at) => html`<li key=${at}>${one}</li>`)}</ul>`}`;
}

/** The history of the task's state, newest first. */
function Log({ log }) {
  return html`<${Section} title="Log">
    ${log.length
      ? html`<ol class="log">${[...log].reverse().map(
          (step, at) => html`<li key=${at}>
            <p class="log-head">
              ${step.from &&
              html`<${State} state=${step.from} /><span aria-hidden="true">→</span><span class="visually-hidden">became</span>`}
              <${Step} to=${step.to} />
            </p>
            <p class="quiet"><${Time} at=${step.at} />${step.by && ` by ${step.by}`}</p>
            ${step.note && html`<p>${step.note}</p>`}
          </li>`,
        )}</ol>`
      : html`<p class="quiet">No state changes yet.</p>`}
  <//>`;
}

/** The result of a step, which is a state or the outcome of an iteration. */
function Step({ to }) {
  const ended = /^(iteration \d+): (\w+)$/.exec(to);
  return ended ? html`<span class="num">${ended[1]}</span><${State} state=${ended[2]} />` : html`<${State} state=${to} />`;
}

function Chats({ sessions, task }) {
  return html`<${Section} title="Sessions" aside=${html`<span class="quiet num">${number(sessions.length)}</span>`}>
    ${sessions.length
      ? html`<ul class="entries is-narrow">
          ${sessions.map((session) => html`<li key=${session.id}><${SessionEntry} session=${session} withTask=${false} /></li>`)}</ul>`
      : html`<${Empty} title="No sessions yet"
          text="A chat can belong to a task: plan the work in plan mode, where the agent cannot write files, or let it work in agent mode."
          command=${`ralph session chat --task ${task.id} --mode plan`} />`}
  <//>`;
}

function Insights({ insights }) {
  return html`<${Section} title="Proposals" aside=${insights.length > 0 && html`<a href="/review" data-link>Review</a>`}>
    ${insights.length
      ? html`<ul class="found">${insights.map(
          (one) => html`<li key=${one.id}>
            <a href=${`/memory/${encodeURIComponent(one.id)}`} data-link>${one.title || one.text}</a>
            <span class="found-rest"><${State} state=${one.status} />
              ${one.count > 1 && html`<span class="quiet">seen ${number(one.count)} times</span>`}</span></li>`,
        )}</ul>`
      : html`<p class="quiet">Nothing was proposed from this task yet.</p>`}
  <//>`;
}
