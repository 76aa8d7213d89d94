// One record: text, layers, citations, injections, neighbours, git history, and every possible change.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { actionTitle, ChangeDialog, Decisions, hasDraft } from "../parts/changes.js";
import { Button, IdLink, recordPath, sessionPath, taskPath } from "../parts/controls.js";
import { Diff } from "../parts/diff.js";
import { Empty, Failure, Loaded, Loading } from "../parts/placeholders.js";
import { labelOf, Badges, RecordNotices, titleOf } from "../parts/record_row.js";
import { Icon } from "../parts/icons.js";
import { Layers } from "../parts/layers.js";
import { Html } from "../parts/markdown.js";
import { go } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { author, coded, count, hueOf, Kind, moment, number, readable, sentence, Time } from "../parts/format.js";

/** The changes with their icons, in the order of their buttons. */
const ACTIONS = [
  ["accept", "check"],
  ["reject", "close"],
  ["edit", "edit"],
  ["retag", "tag"],
  ["promote", "promote"],
  ["archive", "archive"],
  ["unarchive", "undo"],
  ["delete", "trash"],
];
const DECISIONS = ["accept", "reject", "promote"];
const LOOKS = { accept: "primary", delete: "danger" };

function Actions({ record, actions }) {
  const [action, setAction] = useState("");
  const done = () => action === "delete" && go("/memory");
  const words = (one) => (one === "retag" ? "Tags" : actionTitle(one).split(" ")[0]);
  return html`${ACTIONS.filter(([one]) => actions.includes(one)).map(
      ([one, icon]) => html`<${Button} key=${one} icon=${icon} look=${LOOKS[one]} opens=${true}
        onClick=${() => setAction(one)}>${words(one)}<//>`,
    )}
    ${action &&
    html`<${ChangeDialog} action=${action} record=${record} onClose=${() => setAction("")} onDone=${done} />`}`;
}

function Fact({ name, children }) {
  return children ? html`<div><dt>${name}</dt><dd>${children}</dd></div>` : null;
}

/** Any value from a file, as text. */
const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
const isThere = ([, value]) => value !== "" && value !== null && value !== undefined;

function Tags({ tags }) {
  if (!tags?.length) return null;
  return html`<h3 class="visually-hidden">Tags</h3>
    <div class="chips facts-tags">
      ${tags.map(
        (tag) => html`<a class="chip" key=${tag} href=${`/memory?tag=${encodeURIComponent(tag)}`} data-link>${tag}</a>`,
      )}
    </div>`;
}

function Facts({ data }) {
  const { record } = data;
  const { created_at: written, updated_at: changed } = record;
  return html`<section class="card">
    <h2>Facts</h2>
    <dl class="facts">
      <${Fact} name="Type"><${Kind} kind=${record.type || record.family} label=${labelOf(record)} /><//>
      <${Fact} name="Status">${readable(record.status)}<//>
      <${Fact} name="Scope">${record.scope && readable(record.scope)}<//>
      <${Fact} name="Task">${record.task && html`<${IdLink} path=${taskPath} id=${record.task} />`}<//>
      <${Fact} name="Session">${record.session && record.session_title &&
        html`<a href=${sessionPath(record.session)} data-link>${record.session_title}</a>`}<//>
      <${Fact} name="File">
        ${record.source && html`<span class="file">${record.source}</span>`}
      <//>
      <${Fact} name="Created"><${Time} at=${written} /><//>
      <${Fact} name="Changed">${changed && changed !== written && html`<${Time} at=${changed} />`}<//>
      ${[["by", author(record.by)], ["via", record.via], ["run", record.run], ["iteration", record.iteration]]
        .concat(Object.entries(record.origin ?? {}))
        .filter(isThere)
        .map(([name, value]) => html`<${Fact} key=${name} name=${sentence(readable(name))}>${shown(value)}<//>`)}
      <${Fact} name="Id"><code class="id">${record.id}</code><//>
    </dl>
    <${Tags} tags=${record.tags} />
  </section>`;
}

/** The badge class and the icon for each state of a citation. Other states have neither. */
const STATES = {
  fresh: ["good", "check"],
  moved: ["warn", "alert"],
  changed: ["warn", "alert"],
  stale: ["warn", "alert"],
  gone: ["bad", "alert"],
};

function Citation({ one }) {
  const [look, icon] = STATES[one.state] ?? ["", ""];
  return html`<li>
    <span class="badge ${look}">${icon && html`<${Icon} name=${icon} />`}${readable(one.state)}</span>
    <div class="lines-main">
      <code>${one.what}</code> ${one.type && html`<span class="quiet small">${readable(one.type)}</span>`}
      ${one.where &&
      one.where !== one.what &&
      html`<span class="quiet small"> in <span class="file">${one.where}</span></span>`}
      ${one.detail && html`<p class="quiet small">${one.detail}</p>`}
    </div>
  </li>`;
}

function Citations({ items }) {
  if (!items?.length) return null;
  return html`<section class="card">
    <h2>Citations</h2>
    <ul class="plain lines">${items.map((one, at) => html`<${Citation} key=${at} one=${one} />`)}</ul>
  </section>`;
}

/** The records that a memory was learned from. */
function LearnedFrom({ items }) {
  if (!items?.length) return null;
  return html`<section class="card">
    <h2>Learned from</h2>
    <ul class="plain neighbours">
      ${items.map((one) => html`<li key=${one.id}><a href=${recordPath(one.id)} data-link>${one.text}</a></li>`)}</ul>
  </section>`;
}

function Given({ one }) {
  const used = html`<span class="badge good"><${Icon} name="check" />used</span>`;
  return html`<tr>
    <td class="nowrap"><${Time} at=${one.at} /></td>
    <td><a href=${sessionPath(one.session)} data-link>${one.session_title || "An unrecorded session"}</a></td>
    <td class="wide-only">${moment(one.event)}</td>
    <td class="num wide-only">${number(one.tokens)}</td>
    <td>${one.used ? used : html`<span class="quiet">not used</span>`}</td>
  </tr>`;
}

function GivenToSessions({ data: { given_to: sessions, used } }) {
  return html`<section class="card">
    <div class="card-head">
      <h2>Given to sessions</h2>
      ${used?.given > 0 &&
      html`<p class="quiet small num">${count(used.given, "time")}, used ${count(used.used, "time")}</p>`}
    </div>
    ${sessions?.length
      ? html`<div class="table-box">
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Session</th>
                <th scope="col" class="wide-only">At</th>
                <th scope="col" class="num wide-only">Tokens</th>
                <th scope="col">Used</th>
              </tr>
            </thead>
            <tbody>${sessions.map((one, at) => html`<${Given} key=${at} one=${one} />`)}</tbody>
          </table>
        </div>`
      : html`<p class="quiet">No session has been given this yet.</p>`}
  </section>`;
}

/** The address of a node's page. Files, symbols and sessions that were not recorded have none. */
function nodePath({ id, type, name: title, recorded }) {
  if (type === "file" || type === "symbol" || (type === "session" && !recorded)) return "";
  if (type === "tag") return `/memory?tag=${encodeURIComponent(title || id)}`;
  const name = id.replace(/^(task|session):/, "");
  return ({ task: taskPath, session: sessionPath }[type] ?? recordPath)(name);
}

function Neighbour({ one: { relation, direction, node }, again }) {
  const path = nodePath(node);
  const words = html`<span class="kind hue-${hueOf(node.type)}" title=${readable(node.type)}>
      <span class="visually-hidden">${readable(node.type)}: </span>
    </span>${node.name || node.id}`;
  const arrow = direction === "in" ? ["incoming", "←"] : ["outgoing", "→"];
  return html`<li>
    ${!again && html`<span class="quiet small"><span role="img" aria-label=${arrow[0]}>${arrow[1]}</span> ${readable(relation)}</span>`}
    ${path ? html`<a href=${path} data-link>${words}</a>` : html`<span class="file">${words}</span>`}
  </li>`;
}

/** The neighbours in the graph that the record itself does not link to. A repeated relation is written once. */
function Neighbours({ id, links, neighbours }) {
  const items = neighbours?.filter(({ relation, node }) => !links?.some((one) => one.relation === relation && one.target === node.id));
  const same = (a, b) => a && a.relation === b.relation && a.direction === b.direction;
  return html`<section class="card">
    <div class="card-head">
      <h2>Neighbours</h2>
      ${items?.length > 0 &&
      html`<a class="small" href=${`/graph?around=${encodeURIComponent(id)}&node=${encodeURIComponent(id)}`} data-link>Show in the graph</a>`}
    </div>
    ${items?.length
      ? html`<ul class="plain neighbours">${items.map((one, at) => html`<${Neighbour} key=${at} one=${one} again=${same(items[at - 1], one)} />`)}</ul>`
      : html`<p class="quiet">Nothing is linked to this memory.</p>`}
  </section>`;
}

function Commit({ one, open }) {
  return html`<li>
    <details open=${open}>
      <summary>
        <span class="commit-subject">${one.subject}</span>${" "}
        <span class="quiet small">${readable(one.change)} <${Time} at=${one.at} />${one.author && ` by ${one.author} `}<code>${one.commit.slice(0, 8)}</code></span>
      </summary>
      <${Diff} text=${one.diff} />
    </details>
  </li>`;
}

function Commits({ data }) {
  const note = data.note || (data.items.length ? "" : "Not committed yet.");
  return html`${note && html`<p class="quiet">${sentence(note)}</p>`}
    <ol class="plain commits">
      ${data.items.map((one, at) => html`<${Commit} key=${at} one=${one} open=${at === 0} />`)}
    </ol>`;
}

function History({ id }) {
  const [wanted, setWanted] = useState(false);
  const state = useGet(wanted ? `/api/records/${encodeURIComponent(id)}/history` : null);
  return html`<section class="card">
    <div class="card-head">
      <h2>History</h2>
      ${!wanted && html`<${Button} look="small" onClick=${() => setWanted(true)}>Show git history<//>`}
    </div>
    ${wanted
      ? html`<${Loaded} state=${state} lines=${4} what="the history">${(data) => html`<${Commits} data=${data} />`}<//>`
      : html`<p class="quiet">Its changes in git and the logs, with their diffs.</p>`}
  </section>`;
}

function Links({ links }) {
  if (!links?.length) return null;
  return html`<section class="card">
    <h2>Links</h2>
    <ul class="plain neighbours">
      ${links.map(
        (one, at) => html`<li key=${at}>
          <span class="quiet small">${readable(one.relation)}</span>
          ${one.title ? html`<a href=${recordPath(one.target)} data-link>${one.title}</a>` : html`<span>${one.target}</span>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

function Extra({ extra }) {
  const fields = Object.entries(extra ?? {});
  if (!fields.length) return null;
  return html`<details class="card extra">
    <summary>${count(fields.length, "more field")} in the file</summary>
    <dl class="facts">
      ${fields.map(([name, value]) => html`<${Fact} key=${name} name=${name}>${shown(value)}<//>`)}
    </dl>
  </details>`;
}

function RecordView({ data }) {
  const { record } = data;
  const sub = html`<${Kind} kind=${record.type || record.family} label=${labelOf(record)} />
    <${Badges} row=${record} />
    <span class="num">${count(record.tokens ?? 0, "token")}</span>
    <${Time} at=${record.updated_at || record.created_at} />`;
  return html`<${PageHead} title=${coded(record.heading || record.id)} name=${titleOf(record)} back=${["/memory", "Memory"]} sub=${sub}
      actions=${html`<${Actions} record=${{ ...record, held: data.held }} actions=${data.actions ?? []} />`} />
    ${data.held && html`<p class="notice past-notice"><${Icon} name="alert" /><span>${record.unconfirmed
      ? "Unconfirmed: no agent receives this memory unasked until you have accepted it. Accept it to use it, or delete it."
      : "Held: this memory reads like an instruction to an agent, so no agent receives it. Accept it to use it, or delete it."}</span></p>`}
    ${DECISIONS.some((one) => data.actions?.includes(one)) && html`<${Decisions} held=${data.held}
      actions=${DECISIONS.filter((one) => data.actions.includes(one) && !(data.held && one === "promote"))} />`}
    <${RecordNotices} row=${record} newer=${data.superseded_by} />
    <div class="record-columns">
      <div class="stack">
        ${record.html && html`<section class="card" aria-labelledby="record-content">
          <h2 id="record-content" class="visually-hidden">Content</h2><${Html} html=${record.html} />
        </section>`}
        <section class="card">
          <h2>What agents receive</h2>
          <${Layers} layers=${data.layers} start="line" />
        </section>
        <${LearnedFrom} items=${data.evidence} />
        <${Citations} items=${data.citations} />
        <${GivenToSessions} data=${data} />
        <${History} id=${record.id} />
      </div>
      <div class="stack">
        <${Facts} data=${data} />
        <${Links} links=${record.links} />
        <${Neighbours} id=${record.id} links=${record.links} neighbours=${data.neighbours} />
        <${Extra} extra=${record.extra} />
      </div>
    </div>`;
}

/** The page at `/memory/ID`. */
export function Page({ params: { id } }) {
  const state = useGet(`/api/records/${encodeURIComponent(id)}`, {}, { on: ["records", "insights"] });
  const { value, error, reload } = state;
  // The record was deleted while a draft is open, so the dialog and its text are kept.
  if (error?.status === 404 && !(value && hasDraft(id))) {
    return html`<${PageHead} title="Memory not found" back=${["/memory", "Memory"]} />
      <${Empty} title=${sentence(error.message)}
        text="It may have been deleted, or its file may have been renamed. Its history is in git."
        action=${html`<a class="button" href=${`/memory?q=${encodeURIComponent(id)}`} data-link>Search in Memory</a>`} />`;
  }
  if (!value) {
    return html`<${PageHead} title="Memory" back=${["/memory", "Memory"]} />
      ${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} lines=${8} what="the memory" />`}`;
  }
  return html`<${Failure} error=${error} retry=${reload} /><${RecordView} data=${value} />`;
}
