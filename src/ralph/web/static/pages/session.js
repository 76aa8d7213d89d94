// One session, with tabs for its messages, timeline, what its agent was given, and summary. The open tab is part of the
// address. What was given is also shown in the messages and the timeline, at its moment.
import { html, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { Command, Empty, Loaded } from "../parts/placeholders.js";
import { NothingRecorded } from "../parts/setup.js";
import { labelOf } from "../parts/record_row.js";
import { Html } from "../parts/markdown.js";
import { Paged, useRows } from "../parts/paging.js";
import { Code, secondsBetween, Facts, Mode, Section, State, Tabs } from "../parts/widgets.js";
import { go, route, setQuery } from "../parts/router.js";
import { PageHead } from "../parts/shell.js";
import { coded, count, Kind, moment, Time, number, seconds, unlinked } from "../parts/format.js";

/** The page at `/sessions/ID`. */
export function Page({ params }) {
  const path = `/api/sessions/${encodeURIComponent(params.id)}`;
  const answer = useGet(path, {}, { on: ["sessions"] });
  return html`${answer.value === undefined && html`<${PageHead} title="Session" back=${["/sessions", "Sessions"]} />`}
    <${Loaded} state=${answer}>${(data) => html`<${Session} data=${data} path=${path} />`}<//>`;
}

function Session({ data, path }) {
  const { session } = data;
  const tabs = [
    data.turns.length > 0 && { key: "messages", label: "Messages", count: data.turns.length },
    { key: "timeline", label: "Timeline", count: data.timeline.total },
    { key: "given", label: "Given", count: data.given.length },
    data.summary_html && { key: "summary", label: "Summary" },
  ].filter(Boolean);
  const wanted = route.value.query.get("view")?.replace(/^injected$/, "given");
  const chosen = tabs.some((tab) => tab.key === wanted) ? wanted : tabs[0].key;
  return html`<${PageHead} title=${session.title} back=${["/sessions", "Sessions"]}
      sub=${html`<span class="head-states"><${Mode} mode=${session.mode} />
        ${session.status && html`<${State} state=${session.status} />`}</span>`} />
    <${Facts} of=${facts(session, data)} />
    <${Tabs} label="Parts of this session" tabs=${tabs} chosen=${chosen} onChoose=${(key) => setQuery({ view: key })}>
      ${chosen === "messages" && html`<${Messages} turns=${data.turns} given=${data.given} />`}
      ${chosen === "timeline" && html`<${Timeline} path=${path} before=${data.timeline.before ?? []} />`}
      ${chosen === "given" && html`<${Given} items=${data.given} />`}
      ${chosen === "summary" && html`<h2 class="visually-hidden">Summary</h2><${Html} html=${data.summary_html} />`}
    <//>`;
}

function facts(session, data) {
  const used = data.given.filter((item) => item.used).length;
  return [
    ["Task", session.task && html`<a href=${`/tasks/${encodeURIComponent(session.task)}`} data-link><code>${session.task}</code></a>`],
    ["Agent", session.client],
    ["Started", session.started_at && html`<${Time} at=${session.started_at} />`],
    ["Duration", session.ended_at && seconds(secondsBetween(session.started_at, session.ended_at))],
    ["Recorded", session.activity ? count(session.activity, "step") : null],
    ["Messages", session.messages ? number(session.messages) : null],
    ["Given", session.tokens_given ? count(session.tokens_given, "token") : null],
    ["Used", data.given.length > 0 && `${number(used)} of ${number(data.given.length)}`],
    ["In the terminal", html`<${Command} command=${`ralph session show ${session.id.slice(0, SHORT_ID)}`} />`],
  ];
}

const SHORT_ID = 8;
const FEW = 3;

/** What the agent was given at one moment. Only the first few are shown until the list is expanded. */
function GivenHere({ items, where = "here" }) {
  if (!items?.length) return null;
  const line = (item, at) => html`<li key=${at}><a href=${`/memory/${encodeURIComponent(item.id)}`} data-link>${coded(item.title || item.id)}</a>
    ${item.used && html`<${State} state="used" />`}</li>`;
  return html`<div class="given-here">
    <p class="given-words">${items.length === 1 ? `Given ${where}` : `${count(items.length, "item")} given ${where}`}
      <span class="quiet num">${number(items.reduce((sum, item) => sum + item.tokens, 0))} tokens</span></p>
    <ul class="plain">${items.slice(0, FEW).map(line)}</ul>
    ${items.length > FEW && html`<details class="more-of"><summary>${number(items.length - FEW)} more</summary>
      <ul class="plain">${items.slice(FEW).map(line)}</ul></details>`}
  </div>`;
}

/** What the agent was given between two times. */
function between(given, from, until) {
  const [first, last] = [Date.parse(from) || 0, Date.parse(until) || Infinity];
  return given.filter((item) => Date.parse(item.at) >= first && Date.parse(item.at) < last);
}

const SHOWN = 100;

/** A chat's messages. A long chat is shown in steps, so that the page stays small. */
function Messages({ turns, given }) {
  const [most, setMost] = useState(SHOWN);
  return html`<h2 class="visually-hidden">Messages</h2>
    <${GivenHere} items=${between(given, "", turns[0].at)} where="at the start" />
    <ol class="turns">
      ${turns.slice(0, most).map((turn, at) => html`<li key=${at} class="turn turn-${turn.role}"><${Turn} turn=${turn} />
        <${GivenHere} items=${turn.at ? between(given, turn.at, turns[at + 1]?.at) : []} /></li>`)}
    </ol>
    ${turns.length > most && html`<button type="button" class="button" onClick=${() => setMost(most + SHOWN)}>
      Show ${Math.min(SHOWN, turns.length - most)} more of ${turns.length - most}</button>`}`;
}

function Turn({ turn }) {
  return html`<p class="turn-head"><b>${turn.role}</b>${turn.at && html`<${Time} at=${turn.at} />`}</p>
    <${Html} html=${turn.html} />
    ${turn.tools?.length > 0 && html`<ul class="tools">
      ${turn.tools.map((tool, at) => html`<li key=${at}><${Tool} tool=${tool} /></li>`)}</ul>`}`;
}

function Tool({ tool }) {
  return html`<details class="tool">
    <summary><code>${tool.name}</code><span class="tool-input">${oneLine(tool.input)}</span>
      <${State} state=${tool.failed ? "failed" : "done"} /></summary>
    <${Code} text=${plain(tool.input)} label=${`Input of ${tool.name}`} />
  </details>`;
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function oneLine(value) {
  return plain(value ?? "").replace(/\s+/g, " ").slice(0, 160);
}

function Timeline({ path, before }) {
  const list = useRows(path, {}, { on: ["sessions"], pick: (data) => data.timeline, size: 200 });
  return html`<div class="timeline">
    <${GivenHere} items=${before} where="at the start" />
    <${Paged} list=${list} label="Timeline" rowHeight=${56} render=${(row) => html`<${Moment} row=${row} />`}
      detail=${(row) => row.given?.length > 0 && html`<${GivenHere} items=${row.given} />`}
      onOpen=${(row) => go(`/memory/${encodeURIComponent(row.id)}`)}
      empty=${html`<${NothingRecorded} title="Nothing was recorded" text="The session ended before anything was said or done." />`} />
  </div>`;
}

/** One step with its time, its type and its first line. Of a failed command, the line that names the error comes first. */
function Moment({ row }) {
  const spoken = labelOf(row) === row.title;
  const other = !spoken && row.title && !row.title.endsWith(row.text) ? row.text : "";
  const failed = row.type === "error" && other;
  const first = failed ? other : (!spoken && row.title) || row.text;
  const rest = failed ? row.title : other;
  return html`<a class="moment ${rest ? "" : "is-single"}" href=${`/memory/${encodeURIComponent(row.id)}`} data-link tabindex="-1">
    <time class="moment-at num" datetime=${row.at} title=${row.at}>${clock(row.at)}</time>
    <span class="moment-kind"><${Kind} kind=${row.type} label=${labelOf(row)} /></span>
    <span class="moment-text">${unlinked(first)}</span>
    ${rest && html`<span class="moment-rest quiet">${unlinked(rest)}</span>`}
  </a>`;
}

function clock(at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function Given({ items }) {
  const [most, setMost] = useState(200);
  if (!items.length) return html`<${Empty} title="The agent was given nothing"
      text="Nothing matched, or giving context is switched off. The preview shows what a prompt would be given now."
      action=${html`<a class="button" href="/context" data-link>Open the context preview</a>`} />`;
  return html`<${Section} title="What the agent was given">
    <div class="scroller" tabindex="0" role="region" aria-label="Table of what the agent was given">
      <table class="is-tight">
        <thead><tr><th scope="col">Memory or session</th><th scope="col">Used</th><th scope="col" class="num wide-only">Tokens</th>
            <th scope="col" class="wide-only">At</th><th scope="col" class="wide-only">When</th></tr></thead>
        <tbody>
          ${items.slice(0, most).map(
            (item, at) => html`<tr key=${at}>
              <td class="cell-wide"><a href=${`/memory/${encodeURIComponent(item.id)}`} data-link>${coded(item.title || item.id)}</a></td>
              <td>${item.used ? html`<${State} state="used" />` : html`<span class="quiet">not used</span>`}</td>
              <td class="num wide-only">${number(item.tokens)}</td><td class="wide-only">${moment(item.event)}</td><td class="wide-only"><${Time} at=${item.at} /></td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${items.length > most && html`<p><button type="button" class="button small" onClick=${() => setMost(items.length)}>
      Show ${number(items.length - most)} more</button></p>`}
  <//>`;
}
