// One record's page: what it says, where it stands, whether it is still true, who was told of it and used it, what is
// around it, how it came to be; and every change that is possible, each with its diff first.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { actionWords, ChangeDialog } from "../parts/changes.js";
import { Diff } from "../parts/diff.js";
import { Empty, Failure, Loaded, Loading } from "../parts/empty.js";
import { labelOf, Marks, titleOf } from "../parts/hit.js";
import { Icon } from "../parts/icons.js";
import { Layers } from "../parts/layers.js";
import { Html } from "../parts/markdown.js";
import { go } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { count, hueOf, Kind, number, said, sentence, Time } from "../parts/words.js";

const ICONS = { edit: "edit", retag: "tag", retire: "archive", restore: "undo", delete: "trash", promote: "promote", accept: "check", reject: "close" };
const ORDER = ["accept", "reject", "edit", "retag", "promote", "retire", "restore", "delete"];

function Actions({ record, actions, reload }) {
  const [action, setAction] = useState("");
  const possible = ORDER.filter((one) => actions.includes(one));
  const done = () => (action === "delete" ? go("/memory") : reload());
  return html`${possible.map(
      (one) => html`<button type="button" key=${one} class="button ${one === "delete" ? "danger" : ""} ${one === "accept" ? "primary" : ""}"
        aria-haspopup="dialog" onClick=${() => setAction(one)}><${Icon} name=${ICONS[one]} />${one === "retag" ? "Tags" : actionWords(one).split(" ")[0]}</button>`,
    )}
    ${action && html`<${ChangeDialog} action=${action} record=${record} onClose=${() => setAction("")} onDone=${done} />`}`;
}

function Fact({ name, children }) {
  return children ? html`<div><dt>${name}</dt><dd>${children}</dd></div>` : null;
}

function originOf(origin) {
  return Object.entries(origin ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
}

function Facts({ told }) {
  const { record, file } = told;
  return html`<section class="card">
    <h2>Facts</h2>
    <dl class="facts">
      <${Fact} name="Kind"><${Kind} kind=${record.kind || record.family} label=${labelOf(record)} /><//>
      <${Fact} name="Family">${said(record.family)}<//>
      <${Fact} name="Status">${said(record.status)}<//>
      <${Fact} name="Scope">${record.scope && said(record.scope)}<//>
      <${Fact} name="Task">${record.task && html`<a href=${`/tasks/${encodeURIComponent(record.task)}`} data-link class="id">${record.task}</a>`}<//>
      <${Fact} name="Session">${record.session && html`<a href=${`/sessions/${encodeURIComponent(record.session)}`} data-link class="id">${record.session}</a>`}<//>
      <${Fact} name="File">${file?.name && html`<span class="file">${file.name}${file.line ? `:${file.line}` : ""}</span>`}<//>
      <${Fact} name="Written"><${Time} at=${record.created_at} /><//>
      <${Fact} name="Changed">${record.updated_at && record.updated_at !== record.created_at && html`<${Time} at=${record.updated_at} />`}<//>
      ${originOf(record.origin).map(([name, value]) => html`<${Fact} key=${name} name=${sentence(said(name))}>${typeof value === "object" ? JSON.stringify(value) : String(value)}<//>`)}
      <${Fact} name="Id"><code class="id">${record.id}</code><//>
    </dl>
    ${record.tags?.length > 0 &&
    html`<h3 class="visually-hidden">Tags</h3><div class="chips facts-tags">${record.tags.map((tag) => html`<a class="chip" key=${tag} href=${`/memory?tag=${encodeURIComponent(tag)}`} data-link>${tag}</a>`)}</div>`}
  </section>`;
}

const STATES = { fresh: "good", ok: "good", there: "good", gone: "bad", missing: "bad", changed: "warn", moved: "warn", stale: "warn" };

function Citations({ items }) {
  if (!items?.length) return null;
  return html`<section class="card">
    <h2>Citations</h2>
    <ul class="plain lines">
      ${items.map(
        (one, at) => html`<li key=${at}>
          <span class="badge ${STATES[one.state] ?? ""}">${STATES[one.state] === "good" ? html`<${Icon} name="check" />` : STATES[one.state] && html`<${Icon} name="alert" />`}${said(one.state)}</span>
          <div class="lines-main"><code>${one.what}</code>${one.kind && html` <span class="quiet small">${said(one.kind)}</span>`}
            ${one.where && one.where !== one.what && html`<span class="quiet small"> in <span class="file">${one.where}</span></span>`}
            ${one.detail && html`<p class="quiet small">${one.detail}</p>`}</div>
        </li>`,
      )}
    </ul>
  </section>`;
}

function Injections({ told }) {
  const { injections, used } = told;
  return html`<section class="card">
    <div class="card-head"><h2>Told to agents</h2>
      ${used?.injected > 0 && html`<p class="quiet small num">${count(used.injected, "time")}, used ${count(used.used, "time")}</p>`}</div>
    ${injections?.length
      ? html`<div class="table-box"><table>
          <thead><tr><th scope="col">When</th><th scope="col">Session</th><th scope="col">Event</th><th scope="col" class="num">Tokens</th><th scope="col">Used</th></tr></thead>
          <tbody>${injections.map(
            (one, at) => html`<tr key=${at}><td class="nowrap"><${Time} at=${one.at} /></td>
              <td><a href=${`/sessions/${encodeURIComponent(one.session)}`} data-link class="id">${one.session}</a></td>
              <td>${one.event}</td><td class="num">${number(one.tokens)}</td>
              <td>${one.used ? html`<span class="badge good"><${Icon} name="check" />used</span>` : html`<span class="quiet">not seen used</span>`}</td></tr>`,
          )}</tbody></table></div>`
      : html`<p class="quiet">No agent was told of it yet.</p>`}
  </section>`;
}

function Neighbours({ id, items }) {
  return html`<section class="card">
    <div class="card-head"><h2>Around it</h2>${items?.length > 0 && html`<a class="small" href=${`/graph?q=${encodeURIComponent(id)}`} data-link>In the graph</a>`}</div>
    ${items?.length
      ? html`<ul class="plain neighbours">
          ${items.map(
            (one, at) => html`<li key=${at}>
              <span class="quiet small">${one.direction === "in" ? html`<span aria-label="from there">←</span>` : html`<span aria-label="to there">→</span>`} ${said(one.relation)}</span>
              <${Node} node=${one.node} />
            </li>`,
          )}
        </ul>`
      : html`<p class="quiet">Nothing is linked with it.</p>`}
  </section>`;
}

const NODE_PAGES = { task: "/tasks/", session: "/sessions/" };

function Node({ node }) {
  const title = html`<span class="kind hue-${hueOf(node.kind)}" title=${said(node.kind)}><span class="visually-hidden">${said(node.kind)}: </span></span>${node.title || node.id}`;
  if (node.kind === "tag") return html`<a href=${`/memory?tag=${encodeURIComponent(node.title || node.id)}`} data-link>${title}</a>`;
  if (node.kind === "file" || node.kind === "symbol") return html`<span class="file">${title}</span>`;
  return html`<a href=${(NODE_PAGES[node.kind] ?? "/memory/") + encodeURIComponent(node.id.replace(/^(task|session):/, ""))} data-link>${title}</a>`;
}

function History({ id }) {
  const [wanted, setWanted] = useState(false);
  const state = useGet(wanted ? `/api/records/${encodeURIComponent(id)}/history` : null);
  return html`<section class="card">
    <div class="card-head"><h2>History</h2>${!wanted && html`<button type="button" class="button small" onClick=${() => setWanted(true)}>Show it from git</button>`}</div>
    ${!wanted && html`<p class="quiet">The commits that changed this record's lines, with what they changed.</p>`}
    ${wanted &&
    html`<${Loaded} state=${state} lines=${4} what="the history">${(told) => html`
      ${told.note && html`<p class="quiet">${told.note}</p>`}
      ${!told.items.length && !told.note && html`<p class="quiet">No commit holds it yet.</p>`}
      <ol class="plain commits">
        ${told.items.map(
          (one, at) => html`<li key=${one.commit}><details open=${at === 0}>
            <summary><span class="commit-subject">${one.subject}</span> <span class="quiet small"><${Time} at=${one.at} /> by ${one.author} <code>${one.commit.slice(0, 8)}</code></span></summary>
            <${Diff} text=${one.diff} />
          </details></li>`,
        )}
      </ol>`}<//>`}
  </section>`;
}

function Links({ links }) {
  if (!links?.length) return null;
  return html`<section class="card"><h2>Links</h2>
    <ul class="plain neighbours">${links.map(
      (one, at) => html`<li key=${at}><span class="quiet small">${said(one.relation)}</span> <a href=${`/memory/${encodeURIComponent(one.target)}`} data-link>${one.title || one.target}</a></li>`,
    )}</ul></section>`;
}

function Extra({ extra }) {
  const rows = Object.entries(extra ?? {});
  if (!rows.length) return null;
  return html`<details class="card extra"><summary>${count(rows.length, "more field")} of the file</summary>
    <dl class="facts">${rows.map(([name, value]) => html`<${Fact} key=${name} name=${name}>${typeof value === "object" ? JSON.stringify(value) : String(value)}<//>`)}</dl></details>`;
}

function Whole({ told, reload }) {
  const { record } = told;
  return html`<${PageHead} title=${titleOf(record)} back=${["/memory", "Memory"]}
      sub=${html`<${Kind} kind=${record.kind || record.family} label=${labelOf(record)} /><${Marks} row=${record} /><span class="num">${count(record.tokens ?? 0, "token")}</span><${Time} at=${record.updated_at || record.created_at} />`}
      actions=${html`<${Actions} record=${record} actions=${told.actions ?? []} reload=${reload} />`} />
    ${record.stale && html`<p class="notice record-stale">${sentence(record.stale)}</p>`}
    <div class="record-columns">
      <div class="stack">
        <section class="card" aria-label="Content">
          ${record.html ? html`<${Html} html=${record.html} />` : html`<p class="quiet">It has no text.</p>`}
        </section>
        <section class="card"><h2>As an agent sees it</h2><${Layers} layers=${told.layers} start="line" /></section>
        <${Citations} items=${told.citations} />
        <${Injections} told=${told} />
        <${History} id=${record.id} />
      </div>
      <div class="stack">
        <${Facts} told=${told} />
        <${Links} links=${record.links} />
        <${Neighbours} id=${record.id} items=${told.neighbours} />
        <${Extra} extra=${record.extra} />
      </div>
    </div>`;
}

/** `/memory/ID`. */
export function Page({ params }) {
  const state = useGet(`/api/records/${encodeURIComponent(params.id)}`, {}, { on: ["records", "insights"] });
  if (state.error?.status === 404) {
    return html`<${PageHead} title="There is no such record" back=${["/memory", "Memory"]} />
      <${Empty} title=${sentence(state.error.message)} text="It may have been deleted, or its file renamed. Its history is in git." command=${`ralph search ${params.id}`} />`;
  }
  if (!state.value) {
    return html`<${PageHead} title="Record" back=${["/memory", "Memory"]} />
      ${state.error ? html`<${Loaded} state=${state} />` : html`<${Loading} lines=${8} what="the record" />`}`;
  }
  return html`<${Failure} error=${state.error} retry=${state.reload} /><${Whole} told=${state.value} reload=${state.reload} />`;
}
