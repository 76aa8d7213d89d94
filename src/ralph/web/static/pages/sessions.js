// All sessions, newest first or grouped by task.
import { html } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { NothingRecorded } from "../parts/setup.js";
import { Paged, useRows } from "../parts/paging.js";
import { Choice, TextInput, Tabs } from "../parts/widgets.js";
import { go, route, setQuery } from "../parts/router.js";
import { SessionEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { useQueryText } from "../parts/hooks.js";
import { count } from "../parts/format.js";

const GATHERED = 500;
const TABS = [{ key: "all", label: "All sessions" }, { key: "tasks", label: "By task" }];

/** The page at `/sessions?task=&q=&view=`. */
export function Page() {
  const { query } = route.value;
  const view = query.get("view") === "tasks" ? "tasks" : "all";
  const tasks = useGet("/api/tasks", { limit: GATHERED, sort: "newest" }, { on: ["tasks"] });
  return html`<${PageHead} title="Sessions"
      sub="Conversations with agents: what was asked, what came of it, what they were given." />
    ${view === "all" && !tasks.value?.items.length ? html`<${All} tasks=${[]} />`
      : html`<${Tabs} label="List sessions" tabs=${TABS} chosen=${view}
        onChoose=${(next) => setQuery({ view: next === "all" ? null : next })}>
        ${view === "tasks" ? html`<${ByTask} tasks=${tasks.value?.items ?? []} />` : html`<${All} tasks=${tasks.value?.items ?? []} />`}
      <//>`}`;
}

function All({ tasks }) {
  const { query } = route.value;
  const task = query.get("task") ?? "";
  const [words, setWords, asked] = useQueryText("q");
  const withEmpty = query.has("empty");
  const list = useRows("/api/sessions", { task, q: asked, empty: withEmpty ? "1" : "" }, { on: ["sessions"] });
  const options = [["", "any task or none"], ...tasks.map((one) => [one.id, one.title])];
  if (task && !tasks.some((one) => one.id === task)) options.push([task, task]);
  const isEmpty = list.answer.value && !list.count.value && !list.answer.value.empty && !task && !asked;
  return html`<div class="toolbar is-single" hidden=${isEmpty}>
      <${TextInput} label="Search sessions" type="search" value=${words} onInput=${setWords} placeholder="What was said or done" search=${true} />
      ${(tasks.length > 0 || task) && html`<${Choice} label="Task" value=${task} options=${options} onChange=${(next) => setQuery({ task: next })} />`}
      <span class="quiet toolbar-count" role="status">${list.answer.value ? count(list.count.value, "session") : ""}</span>
      <${EmptySessions} count=${list.answer.value?.empty ?? 0} shown=${withEmpty} />
    </div>
    <${Paged} list=${list} label="Sessions" rowHeight=${84}
      render=${(session) => html`<${SessionEntry} session=${session} inList=${true} />`}
      onOpen=${(session) => go(`/sessions/${encodeURIComponent(session.id)}`)}
      empty=${task || asked ? html`<${Empty} title="No sessions match" text="Choose another task, or use different words." />`
        : html`<${NothingRecorded} title="No sessions yet" text="Start a session with your agent in this folder, and it appears here." />`} />`;
}

/** Folds the sessions in which nothing was said or done. */
function EmptySessions({ count: empty, shown }) {
  if (!empty) return null;
  return html`<button type="button" class="link-button small" aria-expanded=${shown ? "true" : "false"}
    onClick=${() => setQuery({ empty: shown ? null : "1" })}>${shown ? "Hide" : "Show"} ${count(empty, "empty session")}</button>`;
}

/** Each task with its sessions, the most recently discussed first. */
function ByTask({ tasks }) {
  const answer = useGet("/api/sessions", { limit: GATHERED }, { on: ["sessions"] });
  const titles = new Map(tasks.map((task) => [task.id, task.title]));
  return html`<${Loaded} state=${answer} lines=${6}>
    ${(data) => {
      const groups = groupByTask(data.items);
      if (!groups.length) return html`<${Empty} title="No sessions belong to a task"
          text="A chat can belong to a task. In plan mode the agent cannot write files, in agent mode it can."
          command='ralph session chat --task ID --mode plan "How would you do it?"' />`;
      return groups.map(([task, sessions]) => html`<${Group} key=${task} task=${task} title=${titles.get(task)} sessions=${sessions} />`);
    }}
  <//>`;
}

function groupByTask(items) {
  const groups = new Map();
  for (const session of items.filter((one) => one.task)) groups.set(session.task, [...(groups.get(session.task) ?? []), session]);
  return [...groups];
}

const SHOWN = 12;

function Group({ task, title, sessions }) {
  return html`<details class="group" open>
    <summary><h2>${title ?? task}</h2><span class="quiet num">${count(sessions.length, "session")}</span></summary>
    <p class="quiet group-links"><code>${task}</code>
      <a href=${`/tasks/${encodeURIComponent(task)}`} data-link>Open the task</a>
      ${sessions.length > SHOWN && html`<a href=${`/sessions?task=${encodeURIComponent(task)}`} data-link>All sessions of this task</a>`}</p>
    <ul class="entries">
      ${sessions.slice(0, SHOWN).map(
        (session) => html`<li key=${session.id}><${SessionEntry} session=${session} withTask=${false} /></li>`,
      )}
    </ul>
  </details>`;
}
