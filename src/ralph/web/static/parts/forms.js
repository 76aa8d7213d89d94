// The forms of the changes that need words: a text, tags, a place. Each is `Form({values, set, record})`; what it
// holds is the body of the request, so the names are the API's.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { get, isAbort } from "./api.js";
import { Icon } from "./icons.js";
import { number } from "./words.js";

const KINDS = [
  ["pattern", "Pattern: how we do it"],
  ["decision", "Decision: why we chose it"],
  ["fix", "Fix: what solves it"],
  ["context", "Context: what one must know"],
];
const PLACES = [
  ["memory", "Memory", ".agent/memories.md: offered in this project when it fits"],
  ["patterns", "Patterns", ".ralph/global-patterns.md: told to every task"],
  ["agents", "AGENTS.md", "read by every agent at every start"],
  ["claude", "CLAUDE.md", "read by Claude Code at every start"],
  ["design", "A design page", "a page of specs/design"],
];
const NOUNS = [
  ["memory", "Memory", "offered when it fits the work"],
  ["guardrail", "Guardrail", "a sign that is told before the mistake"],
  ["knowledge", "Knowledge", "a page with a title, found by its tags"],
];

const isPage = (record) => record.id.startsWith("know-");
const isMemory = (record) => record.id.startsWith("mem-");

/** What a form begins with. */
export function start(action, record) {
  if (action === "add") return { noun: "memory", kind: "pattern", title: "", text: "", tags: [] };
  if (action === "edit") return { text: record.text, ...(isPage(record) ? { title: record.title } : { kind: record.kind }) };
  if (action === "retag") return { tags: [...(record.tags ?? [])] };
  if (action === "promote") return { to: isMemory(record) ? "agents" : "memory", text: "", page: "", kind: "" };
  return {};
}

/** Chips with completion: Enter or a comma adds, Backspace in the empty field takes the last one away. */
export function Tags({ value, onChange, first = false }) {
  const [text, setText] = useState("");
  const [offers, setOffers] = useState([]);
  const [at, setAt] = useState(-1);
  const id = useId();
  const field = useRef(null);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(
      () =>
        get("/api/tags", { q: text }, { signal: stop.signal }).then(
          (told) => setOffers(told.items.filter(([tag]) => !value.includes(tag)).slice(0, 8)),
          (error) => isAbort(error) || setOffers([]),
        ),
      80,
    );
    return () => (clearTimeout(timer), stop.abort());
  }, [text, value.join("\n")]);
  const add = (tag) => {
    const clean = tag.trim().replace(/^#/, "").replace(/,+$/, "");
    if (clean && !value.includes(clean)) onChange([...value, clean]);
    setText("");
    setAt(-1);
    field.current.focus();
  };
  const open = text.trim() !== "" && offers.length > 0;
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" || event.key === ",") {
      if (!text.trim() && event.key === "Enter") return;
      event.preventDefault();
      add(open && at >= 0 ? offers[at][0] : text);
    } else if (event.key === "Backspace" && !text && value.length) onChange(value.slice(0, -1));
    else if (open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      setAt((before) => (before + (event.key === "ArrowDown" ? 1 : -1) + offers.length + 1) % (offers.length + 1) - (before === -1 && event.key === "ArrowUp" ? 1 : 0));
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      event.stopPropagation();
      setOffers([]);
    }
  };
  return html`<div class="field tags-field">
    <label for=${id}>Tags</label>
    <div class="tags-box">
      ${value.map(
        (tag) => html`<button type="button" class="chip on" key=${tag} aria-label="Remove the tag ${tag}" onClick=${() => onChange(value.filter((each) => each !== tag))}>${tag}<${Icon} name="close" /></button>`,
      )}
      <input id=${id} ref=${field} data-first=${first ? "" : undefined} role="combobox" autocomplete="off" aria-autocomplete="list" aria-expanded=${open ? "true" : "false"}
        aria-controls="${id}-list" aria-activedescendant=${open && at >= 0 ? `${id}-${at}` : undefined}
        placeholder=${value.length ? "" : "Add a tag"} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown}
        onBlur=${() => text.trim() && add(text)} />
    </div>
    <ul class="offers plain" role="listbox" id="${id}-list" aria-label="Tags that are in use" hidden=${!open}>
      ${offers.map(
        ([tag, n], i) => html`<li key=${tag} role="option" id="${id}-${i}" aria-selected=${i === at ? "true" : "false"}
          onMouseDown=${(event) => (event.preventDefault(), add(tag))}>${tag} <span class="quiet num">${number(n)}</span></li>`,
      )}
    </ul>
    <p class="hint">Enter or a comma adds one.</p>
  </div>`;
}

function Choice({ legend, name, options, value, onChange, first = false }) {
  return html`<fieldset class="choice">
    <legend class="label">${legend}</legend>
    ${options.map(
      ([each, title, text]) => html`<label key=${each} class="choice-one"><input type="radio" name=${name} checked=${value === each} data-first=${first && value === each ? "" : undefined} onChange=${() => onChange(each)} />
        <span><span class="choice-title">${title}</span> <span class="quiet small">${text}</span></span></label>`,
    )}
  </fieldset>`;
}

function TextField({ label, value, onInput, first, hint, required = true, short = false }) {
  const id = useId();
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <textarea id=${id} class=${short ? "short" : ""} data-first=${first ? "" : undefined} required=${required} value=${value} onInput=${(event) => onInput(event.target.value)}></textarea>
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

function LineField({ label, value, onInput, hint, required = false }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} value=${value} required=${required} onInput=${(event) => onInput(event.target.value)} />
    ${hint && html`<p class="hint">${hint}</p>`}</div>`;
}

function KindField({ value, onChange, open = false }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>Kind</label>
    <select id=${id} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${open && html`<option value="">As it is</option>`}
      ${KINDS.map(([kind, words]) => html`<option key=${kind} value=${kind}>${words}</option>`)}
    </select></div>`;
}

function Add({ values, set }) {
  return html`<${Choice} legend="What it is" name="noun" options=${NOUNS} value=${values.noun} onChange=${(noun) => set({ noun })} />
    ${values.noun === "knowledge"
      ? html`<${LineField} label="Title" required=${true} value=${values.title} onInput=${(title) => set({ title })} />`
      : html`<${KindField} value=${values.kind} onChange=${(kind) => set({ kind })} />`}
    <${TextField} label="Text" first=${true} value=${values.text} onInput=${(text) => set({ text })} hint="Markdown. What is between <private> and </private> is not kept." />
    <${Tags} value=${values.tags} onChange=${(tags) => set({ tags })} />`;
}

function Edit({ values, set, record }) {
  return html`${isPage(record)
      ? html`<${LineField} label="Title" required=${true} value=${values.title} onInput=${(title) => set({ title })} />`
      : html`<${KindField} value=${values.kind} onChange=${(kind) => set({ kind })} />`}
    <${TextField} label="Text" first=${true} value=${values.text} onInput=${(text) => set({ text })} hint="Markdown." />`;
}

function Retag({ values, set }) {
  return html`<${Tags} first=${true} value=${values.tags} onChange=${(tags) => set({ tags })} />`;
}

function Promote({ values, set, record }) {
  const options = PLACES.filter(([place]) => place !== "memory" || !isMemory(record));
  return html`<${Choice} legend="Where to" name="to" first=${true} options=${options} value=${values.to} onChange=${(to) => set({ to })} />
    ${values.to === "design" && html`<${LineField} label="Page" required=${true} value=${values.page} onInput=${(page) => set({ page })} hint="The name of a page in specs/design." />`}
    ${values.to === "memory" && html`<${KindField} open=${true} value=${values.kind} onChange=${(kind) => set({ kind })} />`}
    <${TextField} label="In these words instead" short=${true} required=${false} value=${values.text} onInput=${(text) => set({ text })} hint="Leave it empty to take the record's own words." />`;
}

/** Which changes have a form. */
export const FORMS = { add: Add, edit: Edit, retag: Retag, promote: Promote };
