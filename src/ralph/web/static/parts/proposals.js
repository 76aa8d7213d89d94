// Memories that sessions without a task propose, with their evidence. Accept and Reject take one click and can be undone.
import { html, useEffect, useRef, useState } from "../lib.js";
import { applyNow, ChangeDialog } from "./changes.js";
import { Button, IdLink, recordPath } from "./controls.js";
import { coded, count, Kind, sentence } from "./format.js";

const BUTTONS = { accept: ["check", "Accept"], edit: ["edit", "Edit"], merge: ["link", "Merge"], reject: ["close", "Reject"] };
const ONE_CLICK = ["accept", "reject"];

/** A piece of evidence, which is the id of a record or text. */
function EvidenceItem({ one }) {
  const text = typeof one === "string" ? one : (one.text ?? one.id ?? JSON.stringify(one));
  return /^(mem|obs|ins|jrn|know|pat)-[\w-]+$/.test(text) ? html`<${IdLink} path=${recordPath} id=${text} />` : text;
}

/** The ids of the records on which a proposal is based. */
export function Evidence({ items }) {
  if (!items?.length) return null;
  return html`<details class="evidence">
    <summary>${count(items.length, "piece")} of evidence</summary>
    <ul>${items.map((one, at) => html`<li key=${at}><${EvidenceItem} one=${one} /></li>`)}</ul>
  </details>`;
}

/** What the evidence says. */
export function Quotes({ quotes }) {
  if (!quotes?.length) return null;
  return html`<ul class="plain quotes">${quotes.map((quote, at) => html`<li key=${at}><q>${quote}</q></li>`)}</ul>`;
}

const MEMORY_ID = /\b((?:mem|know|pat)-\d+-[0-9a-f]+)\b/;

/** Why something is proposed. The id of a similar memory becomes a link to it. */
function Why({ text }) {
  return text.split(MEMORY_ID).map((part, at) =>
    at % 2 ? html`<a key=${at} href=${recordPath(part)} data-link>a memory</a>` : coded(part));
}

function Proposal({ one, busy, act }) {
  return html`<li class="card insight">
    <div class="insight-head"><${Kind} kind=${one.label || "proposal"} /></div>
    <h3 class="insight-title">${coded(one.text)}</h3>
    <p class="quiet small"><${Why} text=${sentence(one.why)} /></p>
    <${Quotes} quotes=${one.quotes} />
    <${Evidence} items=${one.evidence} />
    <div class="actions">
      ${one.verbs.map((verb) => html`<${Button} key=${verb} icon=${BUTTONS[verb][0]} disabled=${busy}
        look=${verb === "accept" ? "small primary" : "small"} opens=${!ONE_CLICK.includes(verb)}
        onClick=${() => act(verb, one)}>${BUTTONS[verb][1]}<//>`)}
    </div>
  </li>`;
}

/** The proposals that wait for a decision, as the API for the review inbox returns them. */
export function Proposals({ items }) {
  const [open, setOpen] = useState(null);
  const [busy, setBusy] = useState(false);
  const list = useRef(null);
  const decided = useRef(-1); // the position of the proposal that was decided last
  useEffect(() => {
    if (decided.current < 0 || busy || document.activeElement !== document.body) return;
    const cards = list.current.children;
    cards[Math.min(decided.current, cards.length - 1)]?.querySelector("button")?.focus();
  }, [items.length, busy]);
  useEffect(() => () => {
    // The last card has gone, and the focus with it.
    if (decided.current >= 0) queueMicrotask(() => document.activeElement === document.body && document.getElementById("main")?.focus());
  }, []);
  const act = async (action, record) => {
    decided.current = items.indexOf(record);
    if (!ONE_CLICK.includes(action)) {
      setOpen({ action, record });
      return;
    }
    setBusy(true);
    await applyNow(action, record);
    setBusy(false);
  };
  return html`<ul class="plain stack insight-list" aria-label="Proposals" ref=${list}>
      ${items.map((one) => html`<${Proposal} key=${one.id} one=${one} busy=${busy} act=${act} />`)}</ul>
    ${open && html`<${ChangeDialog} action=${open.action} record=${open.record} onClose=${() => setOpen(null)} />`}`;
}
