// One record in a list, with its title, its text, its badges and the reasons why it matches.
import { html } from "../lib.js";
import { recordPath } from "./controls.js";
import { Icon } from "./icons.js";
import { RecordLayers } from "./layers.js";
import { Marked } from "./markdown.js";
import { coded, count, day, Kind, matchReason, number, readable, sentence, Time } from "./format.js";

const SPOKEN = ["prompt", "answer"];
const USUAL = ["", "active", "accepted", "raw"];

/** The label next to the type: the author's own, or the speaker. */
export function labelOf(row) {
  return SPOKEN.includes(row.title) ? row.title : row.label;
}

/** A record's title, or the beginning of its text if it has none. */
export function titleOf(row) {
  if (row.title && !SPOKEN.includes(row.title)) return row.title;
  const line = (row.text ?? "").trim().split("\n")[0];
  const sentence = /^.{12,110}?[.!?。](?=\s|$)/u.exec(line)?.[0];
  return (sentence ?? (line.length > 110 ? `${line.slice(0, 100).replace(/\s+\S*$/, "")}…` : line)) || row.id;
}

/** Badges for records that are superseded, expired, stale, inactive or repeated. They never differ by colour alone. */
export function Badges({ row, inList = false }) {
  const repeats = `Seen ${count(row.count, "time")} with the same text`;
  const state = USUAL.includes(row.status ?? "") ? "" : readable(row.status);
  return html`${row.superseded_by &&
    html`<a class="badge warn" href=${recordPath(row.superseded_by)} data-link tabindex=${inList ? "-1" : undefined}
      title="Superseded by ${row.superseded_by}"><${Icon} name="archive" />superseded</a>`}
    ${row.expired && html`<span class="badge warn" title="Its last day was ${row.expired}"><${Icon} name="archive" />expired</span>`}
    ${row.stale && html`<span class="badge warn" title=${row.stale}><${Icon} name="alert" />stale</span>`}
    ${state && html`<span class="badge">${state}</span>`}
    ${row.count > 1 && html`<span class="badge num" title=${repeats}>×${number(row.count)}</span>`}`;
}

/** Warnings about a record that may be wrong, one sentence each. `newer` is its successor, if known. */
export function RecordNotices({ row, newer }) {
  const notices = [
    row.superseded_by &&
      html`Superseded by <a href=${recordPath(row.superseded_by)} data-link>${newer?.title || row.superseded_by}</a>.
        Agents receive that memory instead.`,
    row.expired && html`Expired on ${day(row.expired)}; agents are no longer given it.`,
    row.stale && `${sentence(row.stale)}.`,
    row.status === "archived" && "Archived: it stays in its file, and agents are not given it.",
  ].filter(Boolean);
  return notices.map((one, at) => html`<p class="notice past-notice" key=${at}><${Icon} name="alert" /><span>${one}</span></p>`);
}

/** Whether a record is no longer valid. */
const isPast = (row) => Boolean(row.superseded_by || row.expired || row.status === "archived");

/** The text from the first matching word on, if that word is far from the beginning. */
function excerpt(text, words) {
  const places = words.map((word) => text.toLowerCase().indexOf(word.toLowerCase())).filter((at) => at >= 0);
  const first = Math.min(...places);
  return places.length && first > 90 ? `…${text.slice(Math.max(0, text.lastIndexOf(" ", first - 40)))}` : text;
}

const marked = (text, words) => coded(text, (part) => html`<${Marked} text=${part} words=${words} />`);

/**
 * A row in which `words` are highlighted. A record without a title shows two lines of its text instead. The row's
 * link and button are not tab stops, because there would be thousands of them. Enter and `e` do the same in the list.
 */
export function RecordItem({ row, words, open, onToggle }) {
  const title = titleOf(row);
  const titled = title === row.title;
  const text = (row.text ?? "").trim() || row.id;
  return html`<article class="hit ${isPast(row) ? "hit-past" : ""}">
    <button type="button" class="icon-button hit-toggle" tabindex="-1" title="e" aria-expanded=${open ? "true" : "false"}
      aria-label="${open ? "Less" : "More"} of: ${title}" onClick=${onToggle}>
      <${Icon} name=${open ? "down" : "right"} />
    </button>
    <div class="hit-head ${titled ? "" : "hit-untitled"}">
      <a class="hit-title" href=${recordPath(row.id)} data-link tabindex="-1">
        ${marked(titled ? title : excerpt(text, words), words)}
      </a>
      <${Badges} row=${row} inList=${true} />
    </div>
    ${titled && html`<p class="hit-text">${marked(excerpt(text, words), words)}</p>`}
    <p class="hit-meta">
      <${Kind} kind=${row.type || row.family} label=${labelOf(row)} />
      <${Time} at=${row.created_at} />
      <span class="num">${count(row.tokens ?? 0, "token")}</span>
      ${row.source && row.family === "memory" && html`<span class="file hit-source" title=${row.source}><bdi>${row.source}</bdi></span>`}
      ${row.tags?.slice(0, 3).map((tag) => html`<span class="hit-tag" key=${tag}>#${tag}</span>`)}
      ${row.tags?.length > 3 &&
      html`<span class="hit-tag" title=${row.tags.slice(3).join(", ")}>+${row.tags.length - 3}</span>`}
    </p>
  </article>`;
}

/** The details below an expanded row. */
export function RecordDetail({ row }) {
  const why = row.why ?? [];
  return html`<div class="hit-detail">
    <${RecordNotices} row=${row} />
    ${why.length > 0 &&
    html`<div class="why">
      <p class="why-title">Why it matches</p>
      <ul>${why.map((one) => html`<li key=${one}>${matchReason(one)}</li>`)}</ul>
    </div>`}
    <${RecordLayers} id=${row.id} />
    <p><a href=${recordPath(row.id)} data-link>Open</a></p>
  </div>`;
}
