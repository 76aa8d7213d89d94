// Review: everything that only a person can decide. It lists held memories, proposals with their evidence,
// and memories that conflict with, contradict or repeat others, or are out of date. Accepting or rejecting a proposal
// takes one click, and every other decision has a preview of the diff.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { ChangeDialog, Decisions } from "../parts/changes.js";
import { Button, IdLink, recordPath, taskPath } from "../parts/controls.js";
import { Empty, Failure, Loaded, Loading } from "../parts/placeholders.js";
import { Icon } from "../parts/icons.js";
import { Section } from "../parts/widgets.js";
import { Evidence, Proposals } from "../parts/proposals.js";
import { setQuery } from "../parts/router.js";
import { PageHead, project } from "../parts/shell.js";
import { coded, count, Kind, number, readable, ReviewKind, sentence } from "../parts/format.js";

const STATES = ["proposed", "accepted", "rejected", "all"];
const KINDS = ["proposal", "held", "edit", "conflict", "contradiction", "duplicate", "citation", "unused"];
const SUB = "Decisions that only you can make: proposals, held memories, and memories that conflict, repeat others or are out of date.";

function Insight({ one: insight, act }) {
  const one = insight.task ? insight : { ...insight, kind: "proposal" };
  // A title that only repeats the beginning of the text is left out.
  const titled = one.title && !one.text.startsWith(one.title.replace(/…$/, ""));
  const [line, ...rest] = one.text.trim().split("\n");
  const more = titled ? one.text : rest.join("\n").trim();
  return html`<li class="card insight">
    <div class="insight-head">
      <${Kind} kind=${one.type || "proposal"} />
      <span class="badge ${one.status === "accepted" ? "good" : ""}">${readable(one.status)}</span>
      ${one.due && html`<span class="badge warn" title="Will be promoted when its task is done">due</span>`}
      <span class="quiet small num">seen ${count(one.count ?? 1, "time")}</span>
      ${one.task && html`<${IdLink} path=${taskPath} id=${one.task} small=${true} />`}
    </div>
    <h3 class="insight-title">${one.task ? html`<a href=${recordPath(one.id)} data-link>${coded(titled ? one.title : line)}</a>` : coded(line)}</h3>
    ${more && html`<p class="insight-text">${coded(more)}</p>`}
    ${one.promoted_to?.length > 0 &&
    html`<p class="quiet small">Promoted to <span class="file">${one.promoted_to.join(", ")}</span></p>`}
    <${Evidence} items=${one.evidence} />
    <div class="actions">
      ${one.status !== "accepted" &&
      html`<${Button} icon="check" look="small primary" opens=${true} onClick=${() => act("accept", one)}>Accept<//>`}
      ${one.status !== "rejected" &&
      html`<${Button} icon="close" look="small" opens=${true} onClick=${() => act("reject", one)}>Reject<//>`}
      <${Button} icon="promote" look="small" opens=${true} onClick=${() => act("promote", one)}>Promote<//>
    </div>
  </li>`;
}

/** A memory that waits for a person: it reads like an instruction to an agent, or it is unconfirmed. */
function Held({ one, act }) {
  const record = { ...one, held: true };
  const drop = one.kind === "edit" ? ["delete", "trash", "Delete"] : ["reject", "close", "Reject"];
  return html`<li class="card insight">
    <div class="insight-head"><${ReviewKind} kind=${one.kind} />${one.label && html`<${Kind} kind=${one.label} />`}
      ${one.kind === "edit" && html`<span class="file small">${one.source}</span>`}</div>
    <p class="held-text">${one.text}</p>
    <p class="quiet small">${sentence(one.why)}.</p>
    <div class="actions">
      <${Button} icon="check" look="small" opens=${true} onClick=${() => act("accept", record)}>Accept<//>
      <${Button} icon=${drop[1]} look="small" opens=${true} onClick=${() => act(drop[0], record)}>${drop[2]}<//>
    </div>
  </li>`;
}

const BUTTONS = {
  accept: ["check", "Keep"], merge: ["link", "Merge"], supersede: ["right", "Supersede"], edit: ["edit", "Edit"],
  archive: ["archive", "Archive"], promote: ["promote", "Promote"], delete: ["trash", "Delete"],
};

/** "gone: file src/soap.ts" -> "It cites something that is gone: file src/soap.ts". */
function citationNote(why) {
  return /^(gone|moved|changed): /.test(why) ? `It cites something that is ${why}` : sentence(why);
}

/** A memory that needs a decision, with the same actions as `ralph review`. */
function Waiting({ one, act }) {
  return html`<li class="card insight">
    <div class="insight-head"><${ReviewKind} kind=${one.kind} /><span class="file small">${one.source}</span></div>
    <h3 class="insight-title"><a href=${recordPath(one.id)} data-link>${coded(one.text.split("\n")[0])}</a></h3>
    <p class="quiet small">${coded(citationNote(one.why))}</p>
    <div class="actions">
      ${one.verbs.map((verb) => html`<${Button} key=${verb} icon=${BUTTONS[verb][0]} look="small" opens=${true}
        onClick=${() => act(verb, { ...one, kept: true })}>${BUTTONS[verb][1]}<//>`)}
    </div>
  </li>`;
}

function Choose({ status, task }) {
  const choose = (value) => setQuery({ status: value === "proposed" ? null : value });
  return html`<div class="seg insight-tabs" role="group" aria-label="Which proposals">
    ${STATES.map(
      (value) => html`<button type="button" class="seg-one" key=${value} onClick=${() => choose(value)}
        aria-pressed=${status === value ? "true" : "false"}>${sentence(value)}</button>`,
    )}
    ${task &&
    html`<button type="button" class="chip on" aria-label="Remove the filter task ${task}"
      onClick=${() => setQuery({ task: null })}>${task}<${Icon} name="close" /></button>`}
  </div>`;
}

function Insights({ items, status, act }) {
  if (!items.length) {
    return html`<${Empty} title=${status === "accepted" || status === "rejected" ? `No ${status} proposals` : "No proposals from tasks"}
      text="Tasks propose what they taught when they end: errors and their fixes, decisions, repeated statements." />`;
  }
  return html`<${Decisions} actions=${["accept", "promote", "reject"]} />
    <p class="visually-hidden" role="status">${count(items.length, "proposal")}</p>
    <ul class="plain stack insight-list">
      ${items.map((one) => html`<${Insight} key=${one.id} one=${one} act=${act} />`)}</ul>`;
}

const total = (value) => html`<span class="quiet num">${number(value)}</span>`;

/** The page at `/review`. */
export function Page({ query }) {
  const status = query.get("status") ?? "proposed";
  const task = query.get("task") ?? "";
  const asked = { status: status === "all" ? "" : status, task, limit: 500 };
  const insights = useGet("/api/insights", asked, { on: ["insights", "records"] });
  const others = useGet(status === "proposed" && !task ? "/api/review" : null,
    { kind: KINDS, limit: 500 }, { on: ["insights", "records"] });
  const [open, setOpen] = useState(null);
  // Proposals have a section of their own while they wait.
  const shown = (data) => data.items.filter((one) => one.task || one.status !== "proposed");
  const act = (action, record) => setOpen({ action, record });
  const of = (test) => (others.value?.items ?? []).filter(test);
  const proposals = of((one) => one.kind === "proposal");
  const held = of((one) => one.kind !== "proposal" && one.status === "held");
  const waiting = of((one) => one.kind !== "proposal" && one.status !== "held");
  const unused = status === "proposed" && !task && project.value?.task_count === 0 && insights.value?.items.every((one) => !one.task);
  const nothing = unused && others.value && !of(() => true).length;
  return html`<div class="page-narrow"><${PageHead} title="Review" sub=${SUB} />
    ${others.value === undefined && others.loading && html`<${Loading} lines=${2} what="held memories" />`}
    ${others.error && others.value === undefined && html`<${Failure} error=${others.error} retry=${others.reload} />`}
    ${held.length > 0 && html`<${Section} title="Held memories" aside=${total(held.length)}>
      <p class="quiet section-note">These read like instructions to an agent, so they need your decision.</p>
      <${Decisions} actions=${["accept", "reject"]} held=${true} />
      <ul class="plain stack insight-list">${held.map((one) => html`<${Held} key=${one.id} one=${one} act=${act} />`)}</ul>
    <//>`}
    ${proposals.length > 0 && html`<${Section} title="Proposals" aside=${total(proposals.length)}>
      <p class="quiet section-note">Memories that Ralph proposes from sessions, with what they are based on.</p>
      <${Decisions} actions=${["accept", "edit", "merge", "reject"]} kind="proposal" />
      <${Proposals} items=${proposals} />
    <//>`}
    ${nothing && html`<${Empty} title="Nothing to review"
      text="Ralph proposes memories from your sessions. They wait here, and so does everything else that only you can decide." />`}
    ${!unused && html`<${Section} title="From tasks" aside=${insights.value && total(shown(insights.value).length)}>
      <p class="quiet section-note">What tasks have taught, based on their sessions and runs.</p>
      <${Choose} status=${status} task=${task} />
      <${Loaded} state=${insights} lines=${6} what="the proposals">
        ${(data) => html`<${Insights} items=${shown(data)} status=${status} act=${act} />`}
      <//>
    <//>`}
    ${waiting.length > 0 && html`<${Section} title="Memories to check" aside=${total(waiting.length)}>
      <p class="quiet section-note">Merge conflicts, unsigned edits, contradictions, duplicates, and memories that are stale or were never used.</p>
      <ul class="plain stack insight-list">
        ${waiting.map((one) => html`<${Waiting} key=${`${one.kind} ${one.id}`} one=${one} act=${act} />`)}</ul>
    <//>`}
    ${open && html`<${ChangeDialog} action=${open.action} record=${open.record} onClose=${() => setOpen(null)} />`}
  </div>`;
}
