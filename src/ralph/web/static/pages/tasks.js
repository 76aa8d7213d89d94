/**
 * All tasks, filtered by state and text, and sorted. The filter is part of the address.
 */
import { html } from "../lib.js";
import { Empty } from "../parts/placeholders.js";
import { Paged, useRows } from "../parts/paging.js";
import { Choice, TextInput, stateLabel, Switches, toggled } from "../parts/widgets.js";
import { go, route, setQuery } from "../parts/router.js";
import { TaskEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { useQueryText } from "../parts/hooks.js";
import { count } from "../parts/format.js";

const STATES = ["in_progress", "pending", "blocked", "failed", "done"];
const SORTS = [["priority", "priority"], ["newest", "last change"], ["title", "title"], ["state", "state"]];

/** The page at `/tasks?state=&q=&sort=`. */
export function Page() {
  const { query } = route.value;
  const on = new Set(query.getAll("state"));
  const sort = query.get("sort") ?? "priority";
  const [words, setWords, asked] = useQueryText("q");
  const list = useRows("/api/tasks", { state: [...on], q: asked, sort }, { on: ["tasks"] });
  const counts = list.answer.value?.by_state ?? {};
  const states = [...new Set([...STATES, ...Object.keys(counts)])].filter((state) => counts[state] || on.has(state));
  const isEmpty = list.answer.value && !list.count.value && !on.size && !asked;
  return html`<${PageHead} title="Tasks"
      sub=${html`<span role="status">${list.answer.value && !isEmpty ? count(list.count.value, "task") : ""}</span>`} />
    <div class="toolbar is-single" hidden=${isEmpty}>
      <${TextInput} label="Search tasks" type="search" value=${words} onInput=${setWords} placeholder="Search titles" search=${true} />
      <${Choice} label="Sort by" value=${sort} options=${SORTS} onChange=${(next) => setQuery({ sort: next })} />
      <${Switches} label="Show tasks in these states" on=${on} onToggle=${(state) => setQuery({ state: [...toggled(on, state)] })}
        options=${states.map((state) => ({ key: state, label: stateLabel(state), count: counts[state] ?? 0, class: `state-${state}` }))} />
    </div>
    <${Paged} list=${list} label="Tasks" rowHeight=${64} render=${(task) => html`<${TaskEntry} task=${task} inList=${true} />`}
      onOpen=${(task) => go(`/tasks/${encodeURIComponent(task.id)}`)}
      empty=${on.size || asked ? html`<${Empty} title="No tasks match" text="Remove a state, or use different words." />`
        : html`<${Empty} title="There are no tasks"
            text="A task is one piece of work with its own log, runs and proposals. Add one, or import the stories of a prd.json."
            command='ralph task add "what should be done"' />`} />`;
}
