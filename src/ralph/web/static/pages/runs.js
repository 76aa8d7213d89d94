// All runs of the loop, newest first.
import { html, useEffect } from "../lib.js";
import { Empty } from "../parts/placeholders.js";
import { onEvent } from "../parts/events.js";
import { Paged, useRows } from "../parts/paging.js";
import { go } from "../parts/router.js";
import { RunEntry } from "../parts/entries.js";
import { PageHead } from "../parts/shell.js";
import { count } from "../parts/format.js";

/** The page at `/runs`. */
export function Page() {
  const list = useRows("/api/runs", {}, { on: ["runs"] });
  useEffect(() => onEvent("run", () => list.refresh()), []);
  return html`<${PageHead} title="Runs"
      sub=${html`<span role="status">${list.answer.value ? count(list.count.value, "run") : ""}</span>`}
      actions=${list.count.value > 1 && html`<a class="button" href="/compare" data-link>Compare two runs</a>`} />
    <${Paged} list=${list} label="Runs" rowHeight=${64} onOpen=${(run) => go(`/runs/${encodeURIComponent(run.id)}`)}
      render=${(run) => html`<${RunEntry} run=${run} inList=${true} />`}
      empty=${html`<${Empty} title="No runs yet"
        text="The loop runs an agent repeatedly, checks its work, and ends when the goal is met."
        command='ralph loop start "what should be done"' />`} />`;
}
