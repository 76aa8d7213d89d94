// A record at three levels of detail, as an agent receives it, each with its token count.
import { html, useId, useState } from "../lib.js";
import { useGet } from "./api.js";
import { Failure, Loading } from "./placeholders.js";
import { count } from "./format.js";

const NAMES = [
  ["line", "Short"],
  ["moment", "Around"],
  ["full", "Full"],
];

/** The layers of a record (`{line: {text, tokens}, moment, full}`). `start` is shown first. */
export function Layers({ layers, start = "moment" }) {
  const [chosen, choose] = useState(start);
  const id = useId();
  const shown = layers[chosen] ?? layers.full;
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const at = NAMES.findIndex(([name]) => name === chosen);
    const next = NAMES[(at + step + NAMES.length) % NAMES.length][0];
    choose(next);
    document.getElementById(`${id}-${next}`)?.focus();
  };
  return html`<div class="layers">
    <div class="seg" role="tablist" aria-label="Level of detail" onKeyDown=${onKeyDown}>
      ${NAMES.map(
        ([name, words]) => html`<button type="button" role="tab" class="seg-one" id="${id}-${name}" key=${name}
          aria-selected=${chosen === name ? "true" : "false"} aria-controls="${id}-text"
          tabindex=${chosen === name ? 0 : -1} onClick=${() => choose(name)}>
          ${words}${" "}<span class="seg-note num">${count(layers[name]?.tokens ?? 0, "token")}</span>
        </button>`,
      )}
    </div>
    <pre class="layer" role="tabpanel" id="${id}-text" aria-labelledby="${id}-${chosen}" tabindex="0">${shown?.text}</pre>
  </div>`;
}

/** The layers of the record with this id, requested when they are first shown. */
export function RecordLayers({ id, start }) {
  const state = useGet(`/api/records/${encodeURIComponent(id)}`);
  if (state.error) return html`<${Failure} error=${state.error} retry=${state.reload} />`;
  if (!state.value) return html`<${Loading} lines=${3} what="the text" />`;
  return html`<${Layers} layers=${state.value.layers} start=${start} />`;
}
