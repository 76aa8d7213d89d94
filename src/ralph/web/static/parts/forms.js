// The forms for changes. Each is `Form({values, set, record})`, and its values are the body of the request.
import { html, useId } from "../lib.js";
import { Tags } from "./tags.js";

const KINDS = [
  ["pattern", "Pattern: how we do it"],
  ["decision", "Decision: why we chose it"],
  ["fix", "Fix: what solves it"],
  ["context", "Context: what you need to know"],
];
const PLACES = [
  ["memory", "Memory", ".agent/memories.md: given to agents of this project when it matches"],
  ["patterns", "Patterns", ".ralph/global-patterns.md: given with every task"],
  ["agents", "AGENTS.md", "read by every agent at every start"],
  ["claude", "CLAUDE.md", "read by Claude Code at every start"],
  ["design", "A design page", "a page in specs/design"],
];
const NOUNS = [
  ["memory", "Memory", "given to agents when it matches their work"],
  ["guardrail", "Guardrail", "a rule that prevents a mistake, given before other memories"],
  ["knowledge", "Knowledge", "an article with a title, found by its tags"],
];
const PRIVATE = "Markdown. Text between <private> and </private> is not stored.";

const isPage = (record) => record.id.startsWith("know-");
const isProposal = (record) => record?.kind === "proposal";
const isMemory = (record) => record.id.startsWith("mem-");

/** The initial values of a form. */
export function start(action, record) {
  if (action === "add") return { family: "memory", type: "pattern", title: "", text: "", tags: [] };
  if (action === "edit" && isProposal(record)) return { text: record.text };
  if (action === "merge" && isProposal(record)) return { to: record.other, text: `${record.other_text}\n${record.text}` };
  if (action === "edit") return { text: record.text, ...(isPage(record) ? { title: record.title } : { type: record.type }) };
  if (action === "retag") return { tags: [...(record.tags ?? [])] };
  if (action === "promote") return { to: isMemory(record) ? "agents" : "memory", text: "", page: "", type: "" };
  if (action === "accept") return { to: record.verbs ? record.kind : "" };
  if (action === "merge" || action === "supersede") return { to: record.other };
  return {};
}

function Choice({ legend, name, options, value, onChange, first = false }) {
  return html`<fieldset class="choice">
    <legend class="label">${legend}</legend>
    ${options.map(
      ([each, title, text]) => html`<label key=${each} class="choice-one">
        <input type="radio" name=${name} checked=${value === each} onChange=${() => onChange(each)}
          data-first=${first && value === each ? "" : undefined} />
        <span><span class="choice-title">${title}</span>${" "}<span class="quiet small">${text}</span></span>
      </label>`,
    )}
  </fieldset>`;
}

/** A label, its control (which gets the id) and a hint. */
function Field({ label, hint, children }) {
  const id = useId();
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${children(id)}
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

function TextField({ label, hint, value, set, first = false, required = true, short = false }) {
  return html`<${Field} label=${label} hint=${hint}>
    ${(id) => html`<textarea id=${id} class=${short ? "short" : ""} data-first=${first ? "" : undefined}
      required=${required} value=${value} onInput=${(event) => set(event.target.value)}></textarea>`}
  <//>`;
}

function LineField({ label, hint, value, set }) {
  return html`<${Field} label=${label} hint=${hint}>
    ${(id) => html`<input id=${id} value=${value} required=${true} onInput=${(event) => set(event.target.value)} />`}
  <//>`;
}

function TypeField({ value, set, open = false }) {
  return html`<${Field} label="Type">
    ${(id) => html`<select id=${id} value=${value} onChange=${(event) => set(event.target.value)}>
      ${open && html`<option value="">Unchanged</option>`}
      ${KINDS.map(([kind, words]) => html`<option key=${kind} value=${kind}>${words}</option>`)}
    </select>`}
  <//>`;
}

function Add({ values, set }) {
  return html`<${Choice} legend="Kind" name="family" options=${NOUNS} value=${values.family}
      onChange=${(family) => set({ family })} />
    ${values.family === "knowledge"
      ? html`<${LineField} label="Title" value=${values.title} set=${(title) => set({ title })} />`
      : html`<${TypeField} value=${values.type} set=${(type) => set({ type })} />`}
    <${TextField} label="Text" first=${true} value=${values.text} set=${(text) => set({ text })} hint=${PRIVATE} />
    <${Tags} value=${values.tags} onChange=${(tags) => set({ tags })} />`;
}

function Edit({ values, set, record }) {
  return html`${isPage(record)
      ? html`<${LineField} label="Title" value=${values.title} set=${(title) => set({ title })} />`
      : html`<${TypeField} value=${values.type} set=${(type) => set({ type })} />`}
    <${TextField} label="Text" first=${true} value=${values.text} set=${(text) => set({ text })} hint=${PRIVATE} />`;
}

function EditProposal({ values, set }) {
  return html`<${TextField} label="Text" first=${true} value=${values.text} set=${(text) => set({ text })} hint=${PRIVATE} />`;
}

function MergeProposal({ values, set, record }) {
  return html`<${TextField} label="New text of ${record.other}" first=${true} value=${values.text}
    set=${(text) => set({ text })} hint="Its text, followed by the proposal. Write what should remain of both." />`;
}

function Retag({ values, set }) {
  return html`<${Tags} first=${true} value=${values.tags} onChange=${(tags) => set({ tags })} />`;
}

function Promote({ values, set, record }) {
  const options = PLACES.filter(([place]) => place !== "memory" || !isMemory(record));
  return html`<${Choice} legend="Destination" name="to" first=${true} options=${options} value=${values.to}
      onChange=${(to) => set({ to })} />
    ${values.to === "design" &&
    html`<${LineField} label="Page" value=${values.page} set=${(page) => set({ page })}
      hint="The name of a page in specs/design." />`}
    ${values.to === "memory" && html`<${TypeField} open=${true} value=${values.type} set=${(type) => set({ type })} />`}
    <${TextField} label="Replacement text" short=${true} required=${false} value=${values.text}
      set=${(text) => set({ text })} hint="Leave empty to use the original text." />`;
}

const FORMS = { add: Add, edit: Edit, retag: Retag, promote: Promote };
const PROPOSAL_FORMS = { ...FORMS, edit: EditProposal, merge: MergeProposal };

/** The form of a change, or undefined if it has none. */
export const formOf = (action, record) => (isProposal(record) ? PROPOSAL_FORMS : FORMS)[action];
