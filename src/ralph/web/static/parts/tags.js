// Tags as chips with completion. Enter or a comma adds a tag, Backspace removes the last one, and arrow keys choose.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { get, isAbort } from "./api.js";
import { Icon } from "./icons.js";
import { number } from "./format.js";

const MOST = 8;
const TYPING_DELAY = 80;

/** Existing tags that match the typed text and are not chosen yet. */
function useOffers(text, chosen) {
  const [offers, setOffers] = useState([]);
  useEffect(() => {
    const stop = new AbortController();
    const showOffers = ({ items }) => setOffers(items.filter(([tag]) => !chosen.includes(tag)).slice(0, MOST));
    const ask = () =>
      get("/api/tags", { q: text }, { signal: stop.signal }).then(showOffers, (error) => isAbort(error) || setOffers([]));
    const timer = setTimeout(ask, TYPING_DELAY);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text, chosen.join("\n")]);
  return [offers, () => setOffers([])];
}

function Chip({ tag, onRemove }) {
  return html`<button type="button" class="chip on" aria-label="Remove the tag ${tag}" onClick=${onRemove}>
    ${tag}<${Icon} name="close" />
  </button>`;
}

/** The field. With `first`, it gets the focus when its dialog opens. */
export function Tags({ value, onChange, first = false }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(-1);
  const [offers, closeOffers] = useOffers(text, value);
  const id = useId();
  const field = useRef(null);
  const open = text.trim() !== "" && offers.length > 0;

  const add = (tag, { stay = true } = {}) => {
    const clean = tag.trim().replace(/^#/, "").replace(/,+$/, "");
    if (clean && !value.includes(clean)) onChange([...value, clean]);
    setText("");
    setAt(-1);
    if (stay) field.current.focus();
  };
  // Text that was typed but not added counts as a tag, even if the form is submitted immediately.
  const rest = useRef(null);
  rest.current = () => text.trim() && add(text, { stay: false });
  useEffect(() => {
    const { form } = field.current;
    const before = () => rest.current();
    form?.addEventListener("submit", before, { capture: true });
    return () => form?.removeEventListener("submit", before, { capture: true });
  }, []);
  const remove = (tag) => onChange(value.filter((one) => one !== tag));
  // The position after the last suggestion stands for the typed text.
  const move = (step) => setAt((before) => ((before + 1 + step + offers.length + 1) % (offers.length + 1)) - 1);
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    const { key } = event;
    if (key === "," || (key === "Enter" && text.trim())) add(open && at >= 0 ? offers[at][0] : text);
    else if (open && key === "ArrowDown") move(1);
    else if (open && key === "ArrowUp") move(-1);
    else if (open && key === "Escape") closeOffers();
    else {
      if (key === "Backspace" && !text && value.length) onChange(value.slice(0, -1));
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return html`<div class="field">
    <label for=${id}>Tags</label>
    <div class="tags-box">
      ${value.map((tag) => html`<${Chip} key=${tag} tag=${tag} onRemove=${() => remove(tag)} />`)}
      <input id=${id} ref=${field} data-first=${first ? "" : undefined} role="combobox" autocomplete="off"
        aria-autocomplete="list" aria-expanded=${open ? "true" : "false"} aria-controls="${id}-list"
        aria-activedescendant=${open && at >= 0 ? `${id}-${at}` : undefined}
        placeholder=${value.length ? "" : "Add a tag"} value=${text} onKeyDown=${onKeyDown}
        onInput=${(event) => setText(event.target.value)} onBlur=${() => rest.current()} />
    </div>
    <ul class="offers plain" role="listbox" id="${id}-list" aria-label="Existing tags" hidden=${!open}>
      ${offers.map(
        ([tag, n], i) => html`<li key=${tag} role="option" id="${id}-${i}" aria-selected=${i === at ? "true" : "false"}
          onMouseDown=${(event) => (event.preventDefault(), add(tag))}>
          ${tag} <span class="quiet num">${number(n)}</span>
        </li>`,
      )}
    </ul>
    <p class="hint">Press Enter or comma to add a tag.</p>
  </div>`;
}
