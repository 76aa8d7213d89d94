// Insights: proposed memories with their evidence; accept, reject or promote each, with a preview of the diff.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { ChangeDialog } from "../parts/changes.js";
import { Button, IdLink, recordPath, taskPath } from "../parts/controls.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Icon } from "../parts/icons.js";
import { setQuery } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { count, Kind, readable, sentence } from "../parts/format.js";

const STATES = ["proposed", "accepted", "rejected", "all"];
const SUB = "Proposed memories that wait for review. Accepted ones can be promoted to files that every agent reads.";
const EXPLANATION =
  "Insights come from sessions and runs: an error and its fix, a repeated statement, a decision. " +
  "They are extracted when a task ends, or with this command.";

/** Evidence is an id of a record, or words. */
function EvidenceItem({ one }) {
  const text = typeof one === "string" ? one : (one.text ?? one.id ?? JSON.stringify(one));
  return /^(mem|obs|ins|jrn|know|pat)-[\w-]+$/.test(text) ? html`<${IdLink} path=${recordPath} id=${text} />` : text;
}

function Evidence({ items }) {
  if (!items?.length) return null;
  return html`<details class="evidence">
    <summary>${count(items.length, "piece")} of evidence</summary>
    <ul>${items.map((one, at) => html`<li key=${at}><${EvidenceItem} one=${one} /></li>`)}</ul>
  </details>`;
}

function Insight({ one, act }) {
  // A title that is only the beginning of the text is no title: the text stands for itself.
  const titled = one.title && !one.text.startsWith(one.title.replace(/…$/, ""));
  const [line, ...rest] = one.text.trim().split("\n");
  const more = titled ? one.text : rest.join("\n").trim();
  return html`<li class="card insight">
    <div class="insight-head">
      <${Kind} kind=${one.type || "insight"} />
      <span class="badge ${one.status === "accepted" ? "good" : ""}">${readable(one.status)}</span>
      ${one.due && html`<span class="badge warn" title="It is promoted when its task is done">due</span>`}
      <span class="quiet small num">seen ${count(one.count ?? 1, "time")}</span>
      ${one.task && html`<${IdLink} path=${taskPath} id=${one.task} small=${true} />`}
    </div>
    <h2 class="insight-title"><a href=${recordPath(one.id)} data-link>${titled ? one.title : line}</a></h2>
    ${more && html`<p class="insight-text">${more}</p>`}
    ${one.promoted_to?.length > 0 &&
    html`<p class="quiet small">Promoted to <span class="file">${one.promoted_to.join(", ")}</span></p>`}
    <${Evidence} items=${one.evidence} />
    <div class="actions">
      ${one.status !== "accepted" &&
      html`<${Button} icon="check" look="small" opens=${true} onClick=${() => act("accept", one)}>Accept<//>`}
      ${one.status !== "rejected" &&
      html`<${Button} icon="close" look="small" opens=${true} onClick=${() => act("reject", one)}>Reject<//>`}
      <${Button} icon="promote" look="small" opens=${true} onClick=${() => act("promote", one)}>Promote<//>
    </div>
  </li>`;
}

function Nothing({ status }) {
  if (status === "accepted" || status === "rejected") return html`<${Empty} title=${`No insight is ${status}`} />`;
  return html`<${Empty} title="No insights to review" text=${EXPLANATION} command="ralph review extract" />`;
}

function Choose({ status, task }) {
  const choose = (value) => setQuery({ status: value === "proposed" ? null : value });
  return html`<div class="seg insight-tabs" role="group" aria-label="Which insights">
    ${STATES.map(
      (value) => html`<button type="button" class="seg-one" key=${value} onClick=${() => choose(value)}
        aria-pressed=${status === value ? "true" : "false"}>${sentence(value)}</button>`,
    )}
    ${task &&
    html`<button type="button" class="chip on" aria-label="Remove the filter task ${task}"
      onClick=${() => setQuery({ task: null })}>${task}<${Icon} name="close" /></button>`}
  </div>`;
}

function List({ data, status, act }) {
  return html`<p class="quiet small insight-count" role="status">${count(data.total, "insight")}</p>
    ${data.items.length
      ? html`<ul class="plain stack insight-list">
          ${data.items.map((one) => html`<${Insight} key=${one.id} one=${one} act=${act} />`)}
        </ul>`
      : html`<${Nothing} status=${status} />`}`;
}

/** `/insights`. */
export function Page({ query }) {
  const status = query.get("status") ?? "proposed";
  const task = query.get("task") ?? "";
  const asked = { status: status === "all" ? "" : status, task, limit: 500 };
  const state = useGet("/api/insights", asked, { on: ["insights", "records"] });
  const [open, setOpen] = useState(null);
  const act = (action, record) => setOpen({ action, record });
  return html`<${PageHead} title="Insights" sub=${SUB} />
    <${Choose} status=${status} task=${task} />
    <${Loaded} state=${state} lines=${6} what="the insights">
      ${(data) => html`<${List} data=${data} status=${status} act=${act} />`}
    <//>
    ${open && html`<${ChangeDialog} action=${open.action} record=${open.record} onClose=${() => setOpen(null)} />`}`;
}
