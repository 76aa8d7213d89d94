/**
 * The graph in words: one node with what is around it, and the lists of all nodes and edges.
 *
 * Whoever cannot see or point at the picture does everything here; both open the same panel.
 */
import { html } from "../lib.js";
import { useGet } from "./api.js";
import { Empty, Loaded } from "./empty.js";
import { Icon } from "./icons.js";
import { VirtualList } from "./list.js";
import { Facts } from "./pieces.js";
import { kindWord, Shape } from "./shapes.js";
import { count, number, said as worded, Time } from "./words.js";

/** Where a node has a page of its own, as [address, words]. */
export function placeOf(node) {
  if (node.record) return [`/memory/${encodeURIComponent(node.record)}`, "Open the record"];
  const name = node.id.slice(node.id.indexOf(":") + 1);
  if (node.kind === "task") return [`/tasks/${encodeURIComponent(name)}`, "Open the task"];
  if (node.kind === "session") return [`/sessions/${encodeURIComponent(name)}`, "Open the session"];
  if (node.kind === "tag") return [`/memory?tag=${encodeURIComponent(name)}`, "All with this tag"];
  return [`/memory?q=${encodeURIComponent(name)}`, "Search for it"];
}

/**
 * The panel of one node.
 * @param {{node: object, asOf: string, onOpen: (node: object|null) => void, onEnd: (end: "a"|"b", id: string) => void,
 *   onMore: (said: object) => void}} props
 */
export function NodePanel({ node, asOf, onOpen, onEnd, onMore }) {
  const near = useGet("/api/graph/neighbors", { id: node.id, hops: 1, as_of: asOf });
  const [href, words] = placeOf(node);
  return html`<aside class="card node-panel" aria-label="The chosen node" data-node=${node.id}>
    <header class="node-head"><p class="node-kind"><${Shape} kind=${node.kind} />${kindWord(node.kind)}</p>
      <button type="button" class="icon-button" aria-label="Close the panel" onClick=${() => onOpen(null)}>
        <${Icon} name="close" /></button></header>
    <h2 class="node-title">${node.title || node.id}</h2>
    <p><a class="button" href=${href} data-link>${words}</a></p>
    ${(node.superseded || node.retired) && html`<p><span class="badge warn">${node.retired ? "retired" : "superseded"}</span></p>`}
    <${Facts} of=${[
      ["Name", html`<code>${node.id}</code>`],
      ["Edges", number(node.degree)],
      ["Since", node.at && html`<${Time} at=${node.at} />`],
    ]} />
    <p class="node-ends">
      <button type="button" class="button small" onClick=${() => onEnd("a", node.id)}>Path from here</button>
      <button type="button" class="button small" onClick=${() => onEnd("b", node.id)}>Path to here</button></p>
    <h3>What is beside it</h3>
    <${Loaded} state=${near} lines=${3}>
      ${(answer) => html`<${Beside} node=${node} answer=${answer} onOpen=${onOpen} onMore=${onMore} />`}<//>
  </aside>`;
}

const SHOWN = 60;
const BACKWARD = {
  affects: "affected by",
  fixes: "fixed by",
  supersedes: "superseded by",
  contradicts: "contradicted by",
  mentions: "mentioned by",
  depends_on: "needed by",
  discovered_in: "what was discovered in it",
};

/** How a node stands to the other end of an edge, in words. */
function standing(edge, id) {
  return edge.source === id ? worded(edge.relation) : (BACKWARD[edge.relation] ?? worded(edge.relation));
}

function Beside({ node, answer, onOpen, onMore }) {
  const known = new Map(answer.nodes.map((one) => [one.id, one]));
  const edges = answer.edges.filter((edge) => edge.source === node.id || edge.target === node.id);
  if (!edges.length) return html`<p class="quiet">Nothing is joined to it at this time.</p>`;
  const groups = new Map();
  for (const edge of edges.slice(0, SHOWN)) {
    const other = edge.source === node.id ? edge.target : edge.source;
    const how = standing(edge, node.id);
    groups.set(how, [...(groups.get(how) ?? []), known.get(other) ?? { id: other, kind: "", title: other }]);
  }
  return html`${[...groups].map(
      ([how, others]) => html`<div key=${how}><h4 class="beside-how">${how}</h4>
        <ul class="beside">
          ${others.map((other) => html`<li key=${other.id}>
            <button type="button" class="link" onClick=${() => onOpen(other)}>
              <${Shape} kind=${other.kind} />${other.title || other.id}</button></li>`)}
        </ul></div>`,
    )}
    ${edges.length > SHOWN && html`<p class="quiet">and ${number(edges.length - SHOWN)} more</p>`}
    <p><button type="button" class="button small" onClick=${() => onMore(answer)}>Show all of them in the picture</button></p>`;
}

/** All nodes as a list. */
export function NodeList({ nodes, selected, onOpen }) {
  if (!nodes.length) return html`<${Empty} title="No node is left" text="Take a filter away." />`;
  const rows = [...nodes].sort((a, b) => b.degree - a.degree || (a.title || a.id).localeCompare(b.title || b.id));
  return html`<${VirtualList} count=${rows.length} rowHeight=${48} label="Nodes" get=${(at) => rows[at]} onOpen=${(node) => onOpen(node.id)}
    render=${(node) => html`<div class="node-row ${node.id === selected ? "is-chosen" : ""}"><${Shape} kind=${node.kind} />
      <span class="node-row-title">${node.title || node.id}</span>
      <span class="quiet node-row-kind">${kindWord(node.kind)}</span>
      <span class="quiet num">${count(node.degree, "edge")}</span></div>`} />`;
}

/** All edges as a list; opening one opens its source. */
export function EdgeList({ nodes, edges, onOpen }) {
  if (!edges.length) return html`<${Empty} title="No edge is left" text="Take a filter away." />`;
  const titles = new Map(nodes.map((node) => [node.id, node]));
  const end = (id) => html`<${Shape} kind=${titles.get(id)?.kind} /><span class="node-row-title">${titles.get(id)?.title || id}</span>`;
  return html`<${VirtualList} count=${edges.length} rowHeight=${56} label="Edges" get=${(at) => edges[at]}
    onOpen=${(edge) => onOpen(edge.source)}
    render=${(edge) => html`<div class="edge-row">${end(edge.source)}<span class="relation">${worded(edge.relation)}</span>
      ${end(edge.target)}${edge.explicit && html`<span class="badge">stated</span>`}</div>`} />`;
}

/** A path in words: each node, and how it leads to the next. */
export function PathWords({ path, onOpen }) {
  const steps = path.nodes.map((node, at) => {
    const next = path.nodes[at + 1];
    const edge = next && path.edges.find((one) =>
      (one.source === node.id && one.target === next.id) || (one.target === node.id && one.source === next.id));
    const back = edge && edge.source !== node.id;
    return html`<li key=${node.id}>
      <button type="button" class="link" onClick=${() => onOpen(node.id)}><${Shape} kind=${node.kind} />${node.title || node.id}</button>
      ${edge && html`<span class="relation">${back ? "←" : ""} ${worded(edge.relation)} ${back ? "" : "→"}</span>`}</li>`;
  });
  return html`<ol class="path-words">${steps}</ol>`;
}
