// The Memory Explorer: search as you type, facets with counts, and a virtual list of memories. "Include activity"
// adds records of sessions and runs. The whole view is part of the address. The rows outlive the page, so that
// returning from a memory restores the scroll position.
import { html, signal, useEffect, useRef, useState } from "../lib.js";
import { get, queryOf } from "../parts/api.js";
import { ChangeDialog } from "../parts/changes.js";
import { Button, recordPath } from "../parts/controls.js";
import { Dialog } from "../parts/dialog.js";
import { Empty, Failure, Loading, RichText } from "../parts/placeholders.js";
import { chosenFilters, ChosenFilters, Facets } from "../parts/facets.js";
import { RecordItem, RecordDetail } from "../parts/record_row.js";
import { Recorded } from "../parts/recorded.js";
import { Icon } from "../parts/icons.js";
import { bind } from "../parts/shortcuts.js";
import { rows, VirtualList } from "../parts/virtual_list.js";
import { onEvent } from "../parts/events.js";
import { go, route, setQuery } from "../parts/router.js";
import { PageHead, project } from "../parts/shell.js";
import { count, sentence } from "../parts/format.js";

const TYPING_DELAY = 80;
const OTHER_WORDS = "Try fewer or different words. Search by meaning needs the extra 'local'.";
const NAMES = ["q", "type", "tag", "status", "age", "task", "sort", "team"];
const SHOWN = ["records", "insights", "sessions", "runs"];
const opened = signal(new Set());
const narrow = window.matchMedia("(max-width: 700px)");
let asked = null;

/** Requests a page. The response keeps its query, so that the text next to it never belongs to another query. */
const loader =
  (question) =>
  async ({ offset, limit, signal: abort }) => {
    const page = queryOf({ limit, offset: offset || "" });
    const data = await get(`/api/records?${question ? `${question}&` : ""}${page}`, {}, { signal: abort });
    return { ...data, query: new URLSearchParams(question) };
  };
const found = rows(loader("family=memory"));

/** The number of memories, or of all results if activity is included. */
const counted = (query) =>
  query.getAll("family").join() === "memory" ? count(found.count.value, "memory", "memories") : count(found.count.value, "result");

/** The part of the query that is sent to the server, in a fixed order. */
function requestQuery(query) {
  const words = new URLSearchParams();
  for (const name of NAMES) for (const value of query.getAll(name)) if (value) words.append(name, value);
  if (query.has("activity")) return words.toString();
  const families = query.getAll("family").filter(Boolean);
  for (const one of families.length ? families : ["memory"]) words.append("family", one);
  // Proposed memories are on the Review page.
  if (!query.has("status")) for (const one of ["active", "raw"]) words.append("status", one);
  return words.toString();
}

/** The words of a search that are highlighted, without quotes and punctuation. */
function wordsOf(q) {
  return (q ?? "").split(/\s+/).map((word) => word.replace(/^["'(+-]+|["').,:;*]+$/g, "")).filter((word) => word.length > 1);
}

function toggleRow(id) {
  const next = new Set(opened.value);
  if (!next.delete(id)) next.add(id);
  opened.value = next;
}

/** The search field. Its text is sent after a short pause in typing. Back and Forward also set it. */
function Search({ query, onDown }) {
  const [text, setText] = useState(query.get("q") ?? "");
  const timer = useRef(0);
  const sent = useRef(text);
  useEffect(() => {
    const now = query.get("q") ?? "";
    if (now !== sent.current) {
      sent.current = now;
      setText(now);
    }
  }, [query]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (value) => {
    sent.current = value;
    setQuery({ q: value.trim() ? value : null });
  };
  const onInput = (event) => {
    const value = event.target.value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => send(value), TYPING_DELAY);
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      onDown();
    } else if (event.key === "Escape" && text) {
      event.preventDefault();
      clearTimeout(timer.current);
      setText("");
      send("");
    }
  };
  return html`<div class="search" role="search">
    <${Icon} name="search" />
    <input type="search" data-search autocomplete="off" spellcheck="false" aria-label="Search the memory"
      placeholder="Search the memory" value=${text} onInput=${onInput} onKeyDown=${onKeyDown} />
    <kbd aria-hidden="true">/</kbd>
  </div>`;
}

function Sort({ query }) {
  const q = query.get("q");
  const usual = q ? "relevance" : "newest";
  const choose = (value) => setQuery({ sort: value === usual ? null : value });
  return html`<label class="sort"><span class="visually-hidden">Order</span>
    <select value=${query.get("sort") ?? usual} onChange=${(event) => choose(event.target.value)}>
      ${q && html`<option value="relevance">Best match first</option>`}
      <option value="newest">Newest first</option>
    </select></label>`;
}

/** Whether nothing was found although nothing was searched for. */
const isEmptyProject = ({ query, total }) =>
  !total && !query.get("q") && !chosenFilters(route.value.query).length;

function Nothing({ answer }) {
  const { query } = answer;
  const filters = chosenFilters(route.value.query).length > 0;
  if (isEmptyProject(answer)) {
    return html`<${Recorded} />`;
  }
  const more = query.has("family") && html`<${Button} onClick=${() => setQuery({ activity: "1" })}>Include activity<//>`;
  return html`<${Empty} title="No results"
    text=${filters ? "Remove a filter, or use fewer words." : OTHER_WORDS}
    action=${html`<span class="actions">${more}<${Button} onClick=${() => go("/memory")}>Show all memories<//></span>`} />`;
}

function Results({ handle }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const again = () => redraw((turn) => turn + 1);
    narrow.addEventListener("change", again);
    return () => narrow.removeEventListener("change", again);
  }, []);
  const { count: total, error, answer, version } = found;
  version.value; // a page that came redraws
  if (error.value) return html`<${Failure} error=${error.value} retry=${() => found.refresh()} />`;
  if (!answer.value) return html`<${Loading} lines=${8} what="the memories" />`;
  if (!total.value) return html`<${Nothing} answer=${answer.value} />`;
  const words = wordsOf(answer.value.query.get("q"));
  const isOpen = opened.value;
  const draw = (row) =>
    html`<${RecordItem} row=${row} words=${words} open=${isOpen.has(row.id)} onToggle=${() => toggleRow(row.id)} />`;
  return html`<${VirtualList} label="Memories" count=${total.value} rowHeight=${narrow.matches ? 104 : 88}
    get=${found.get} handle=${handle} onOpen=${(row) => go(recordPath(row.id))} render=${draw}
    detail=${(row) => isOpen.has(row.id) && html`<${RecordDetail} row=${row} />`} />`;
}

function Summary() {
  const answer = found.answer.value;
  if (found.error.value) return null; // it says what is wrong, and an old count beside it would not be true
  if (!answer) return html`<p class="quiet small" role="status">Searching…</p>`;
  if (isEmptyProject(answer)) return null; // the page says what was recorded instead
  const all = counted(answer.query);
  const q = answer.query.get("q");
  const what = q ? `${all} for “${q.trim()}”` : all;
  const took = answer.took_ms === undefined ? "" : ` in ${Math.max(1, Math.round(answer.took_ms))} ms`;
  return html`<div class="summary quiet small">
    <p role="status" class="num">${what}<span class="took">${took}</span></p>
    ${answer.notes?.map((note) => html`<p key=${note}><${RichText} text=${sentence(note)} /></p>`)}
  </div>`;
}

function Head({ onOpen }) {
  const state = project.value;
  return html`<${PageHead} title="Memory" sub=${state && `Learned by agents and people in ${state.project}`}
    actions=${html`<${Button} icon="plus" look="primary" opens=${true} onClick=${() => onOpen("add")}>Add a memory<//>`} />`;
}

/** The facets, for windows that are too narrow to show them next to the list. */
function Drawer({ onClose, children }) {
  const answer = found.answer.value;
  const footer = html`<${Button} look="primary" onClick=${onClose}>Show ${answer ? counted(answer.query) : ""}<//>`;
  return html`<${Dialog} title="Filters" onClose=${onClose} side=${true} footer=${footer}>${children}<//>`;
}

/** The switch that adds prompts, tool calls, answers and the journal to the list. */
function Activity({ query }) {
  return html`<label class="activity" title="Prompts, tool calls and answers of sessions, and the journal of runs">
    <input type="checkbox" role="switch" checked=${query.has("activity")}
      onChange=${(event) => setQuery({ activity: event.target.checked ? "1" : null })} />Include activity</label>`;
}

/** The switch that includes records from the team's other machines. It is shown only in a team. */
function Team({ query }) {
  return html`<label class="activity" title="What other machines of the team share, as of the last pull">
    <input type="checkbox" role="switch" checked=${query.has("team")}
      onChange=${(event) => setQuery({ team: event.target.checked ? "1" : null })} />Team</label>`;
}

/** The page at `/memory`. */
export function Page() {
  const query = route.value.query;
  const question = requestQuery(query);
  const [dialog, setDialog] = useState("");
  const handle = useRef(null);

  useEffect(() => {
    if (asked === question) found.refresh();
    else found.reset(loader(question));
    asked = question;
  }, [question]);
  useEffect(() => onEvent("changed", ({ what }) => what.some((part) => SHOWN.includes(part)) && found.refresh()), []);
  useEffect(() => {
    const more = () => {
      const row = found.get(handle.current?.active() ?? -1);
      return row ? toggleRow(row.id) : false;
    };
    return bind({ e: more });
  }, []);

  const close = () => setDialog("");
  const facets = html`<${Facets} counts=${found.answer.value?.facets} query=${query} />`;
  const chosen = chosenFilters(query).length;
  const nothing = found.answer.value && !found.error.value && isEmptyProject(found.answer.value);
  return html`<div class="explorer">
    <${Head} onOpen=${setDialog} />
    <div class="sticky-head">
      <div class="search-line">
        <${Search} query=${query} onDown=${() => handle.current?.focus()} />
        <${Button} icon="filter" look="filters-button" opens=${true} onClick=${() => setDialog("facets")}>
          Filters${chosen ? ` (${chosen})` : ""}
        <//>
        <${Sort} query=${query} />
        <${Activity} query=${query} />
        ${project.value?.team && html`<${Team} query=${query} />`}
      </div>
      <${ChosenFilters} query=${query} />
    </div>
    <div class="explorer-columns ${nothing ? "is-empty" : ""}">
      ${!nothing && html`<aside class="facets-side" aria-label="Filters">${facets}</aside>`}
      <section class="results" aria-label="Results" aria-busy=${found.loading.value ? "true" : "false"}>
        <${Summary} />
        <${Results} handle=${handle} />
      </section>
    </div>
    ${dialog === "facets" && html`<${Drawer} onClose=${close}>${facets}<//>`}
    ${dialog === "add" && html`<${ChangeDialog} action="add" onClose=${close} onDone=${({ id }) => id && go(recordPath(id))} />`}
  </div>`;
}
