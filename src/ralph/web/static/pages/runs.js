// All runs of the loop, the newest first; two can be marked and compared.
import { html, useEffect, useState } from "../lib.js";
import { Empty } from "../parts/placeholders.js";
import { onEvent } from "../parts/events.js";
import { Paged, useRows } from "../parts/paging.js";
import { toggled } from "../parts/widgets.js";
import { go } from "../parts/router.js";
import { RunEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { count } from "../parts/format.js";

/** The page at `/runs`. */
export function Page() {
  const [marked, setMarked] = useState(new Set());
  const list = useRows("/api/runs", {}, { on: ["runs"] });
  useEffect(() => onEvent("run", () => list.refresh()), []);
  const mark = (id) => setMarked(new Set([...toggled(marked, id)].slice(-2)));
  return html`<${PageHead} title="Runs"
      sub=${html`<span role="status">${list.answer.value ? count(list.count.value, "run") : ""}</span>
        ${list.count.value > 1 && html`<span>Mark two to compare them side by side.</span>`}`}
      actions=${list.count.value > 1 && html`<${Compare} marked=${[...marked]} />`} />
    <${Paged} list=${list} label="Runs" rowHeight=${64} onOpen=${(run) => go(`/runs/${encodeURIComponent(run.id)}`)}
      render=${(run) => html`<div class="marked-row">
        <label class="mark-box"><input type="checkbox" checked=${marked.has(run.id)} onChange=${() => mark(run.id)}
          aria-label=${`Mark for comparison: ${run.goal || run.id}, ${run.id}`} /></label><${RunEntry} run=${run} inList=${true} /></div>`}
      empty=${html`<${Empty} title="No run yet"
        text="The loop gives an agent one prompt after another, checks what it did, and ends when the goal is met."
        command='ralph loop start "what should be done"' />`} />`;
}

function Compare({ marked }) {
  const two = marked.length === 2;
  const query = new URLSearchParams(marked.map((id, at) => ["ab"[at], id]));
  return html`<a class="button ${two ? "primary" : ""}"
      href=${`/compare?${query}`} data-link>${two ? "Compare the two marked" : "Compare two"}</a>`;
}
