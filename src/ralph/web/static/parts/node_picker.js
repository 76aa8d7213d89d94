// Choose a node by typing. The combobox searches the nodes on the page and, if not all are loaded, those on the server.
import { html, useEffect, useId, useState } from "../lib.js";
import { get } from "./api.js";
import { Shape, typeLabel } from "./node_shapes.js";
import { useDebounced } from "./hooks.js";

const MOST = 8;

function fitting(nodes, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (node) => wanted.every((word) => `${node.name} ${node.id}`.toLowerCase().includes(word));
  return nodes.filter(fits).sort((a, b) => b.degree - a.degree).slice(0, MOST);
}

/** Nodes that match the words, first those on the page and then those that the server finds. */
function useFitting(nodes, words, all) {
  const calm = useDebounced(words, 150);
  const [more, setMore] = useState([]);
  useEffect(() => {
    if (all || !calm.trim()) return setMore([]);
    const control = new AbortController();
    get("/api/graph", { q: calm, limit: MOST * 3 }, { signal: control.signal }).then((data) => setMore(data.nodes), () => setMore([]));
    return () => control.abort();
  }, [calm, all]);
  const near = fitting(nodes, words);
  const known = new Set(near.map((node) => node.id));
  return [...near, ...fitting(more, words).filter((node) => !known.has(node.id))].slice(0, MOST);
}

/**
 * @param {{label: string, nodes: object[], all: boolean, value: string, onPick: (node: object|null) => void,
 *   search?: boolean, placeholder?: string}} props `all` is true if `nodes` is complete; `value` is the chosen title
 */
export function Pick({ label, nodes, all, value, onPick, search = false, placeholder = "Type part of its name" }) {
  const own = useId();
  const [words, setWords] = useState(null);
  const [at, setAt] = useState(0);
  const open = words !== null && words.trim() !== "";
  const options = useFitting(nodes, open ? words : "", all);
  const take = (node) => {
    setWords(null);
    onPick(node);
  };
  const key = (event) => {
    if (event.key === "Escape" && words !== null) {
      event.preventDefault();
      return setWords(null);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && open && options.length) {
      event.preventDefault();
      setAt((at + step + options.length) % options.length);
    }
    if (event.key === "Enter" && open && options[at]) {
      event.preventDefault();
      take(options[at]);
    }
    return undefined;
  };
  const type = (event) => {
    setAt(0);
    setWords(event.currentTarget.value);
    if (event.currentTarget.value === "" && value) onPick(null);
  };
  return html`<div class="field pick">
    <label for=${own}>${label}</label>
    <input id=${own} type="search" role="combobox" autocomplete="off" spellcheck="false" aria-autocomplete="list"
      data-search=${search || undefined}
      aria-expanded=${open ? "true" : "false"}
      aria-controls=${`${own}-list`} aria-activedescendant=${open && options[at] ? `${own}-${at}` : undefined}
      value=${words ?? value} placeholder=${placeholder} onInput=${type} onKeyDown=${key} onBlur=${() => setWords(null)} />
    <ul class="pick-list" id=${`${own}-list`} role="listbox" aria-label=${label} hidden=${!open}>
      ${options.map(
        (node, index) => html`<li key=${node.id} id=${`${own}-${index}`} role="option" aria-selected=${index === at ? "true" : "false"}
          onMouseDown=${(event) => (event.preventDefault(), take(node))}><${Shape} kind=${node.type} />
          <span class="pick-title">${node.name || node.id}</span><span class="quiet">${typeLabel(node.type)}</span></li>`,
      )}
      ${open && !options.length && html`<li class="quiet pick-none" role="option" aria-disabled="true"
        aria-selected="false">No node matches</li>`}
    </ul>
  </div>`;
}
