// The graph as text: one node with its neighbours, and lists of all nodes and edges. Everything in the picture can be
// reached here.
import { html } from "../lib.js";
import { useGet } from "./api.js";
import { Empty, Loaded } from "./placeholders.js";
import { Icon } from "./icons.js";
import { VirtualList } from "./virtual_list.js";
import { Facts } from "./widgets.js";
import { typeLabel, Shape } from "./node_shapes.js";
import { count, number, readable, Time } from "./format.js";

/** The page of a node as [address, link text], if it has one. */
export function pageOf(node) {
  if (node.record) return [`/memory/${encodeURIComponent(node.record)}`, "Open the memory"];
  const name = node.id.slice(node.id.indexOf(":") + 1);
  if (node.type === "task") return [`/tasks/${encodeURIComponent(name)}`, "Open the task"];
  if (node.type === "session" && node.recorded) return [`/sessions/${encodeURIComponent(name)}`, "Open the session"];
  if (node.type === "tag") return [`/memory?tag=${encodeURIComponent(name)}`, "All memories with this tag"];
  return [`/memory?q=${encodeURIComponent(name)}`, "Search Memory"];
}

/**
 * The panel for one node.
 * @param {{node: object, asOf: string, onOpen: (node: object|null) => void, onAround: () => void,
 *   onMore: (data: object) => void}} props
 */
export function NodePanel({ node, asOf, onOpen, onAround, onMore }) {
  const near = useGet("/api/graph/neighbors", { id: node.id, hops: 1, as_of: asOf });
  const [href, words] = pageOf(node);
  return html`<aside class="card node-panel" aria-label="Selected node" data-node=${node.id}>
    <header class="node-head"><p class="node-kind"><${Shape} kind=${node.type} />${typeLabel(node.type)}</p>
      <button type="button" class="icon-button" aria-label="Close the panel" onClick=${() => onOpen(null)}>
        <${Icon} name="close" /></button></header>
    <h2 class="node-title">${node.name || node.id}</h2>
    <p class="node-ends"><a class="button" href=${href} data-link>${words}</a>
      <button type="button" class="button" onClick=${onAround}>Show neighbourhood</button></p>
    ${(node.superseded || node.retired) && html`<p><span class="badge warn">${node.retired ? "archived" : "superseded"}</span></p>`}
    <${Facts} of=${[
      ["Id", node.type !== "session" && html`<code>${node.id}</code>`],
      ["Edges", number(node.degree)],
      ["Since", node.valid_from && html`<${Time} at=${node.valid_from} />`],
    ]} />
    <h3>Neighbours</h3>
    <${Loaded} state=${near} lines=${3}>
      ${(answer) => html`<${NeighbourList} node=${node} answer=${answer} onOpen=${onOpen} onMore=${onMore} />`}<//>
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
  discovered_in: "discovered here",
};

/** The relation between a node and the other end of an edge, in words. */
function relationText(edge, id) {
  return edge.source === id ? readable(edge.relation) : (BACKWARD[edge.relation] ?? readable(edge.relation));
}

function NeighbourList({ node, answer, onOpen, onMore }) {
  const known = new Map(answer.nodes.map((one) => [one.id, one]));
  const edges = answer.edges.filter((edge) => edge.source === node.id || edge.target === node.id);
  if (!edges.length) return html`<p class="quiet">Nothing is linked to this node at this time.</p>`;
  const groups = new Map();
  for (const edge of edges.slice(0, SHOWN)) {
    const other = edge.source === node.id ? edge.target : edge.source;
    const how = relationText(edge, node.id);
    groups.set(how, [...(groups.get(how) ?? []), known.get(other) ?? { id: other, type: "", name: other }]);
  }
  return html`${[...groups].map(
      ([how, others]) => html`<div key=${how}><h4 class="beside-how">${how}</h4>
        <ul class="beside">
          ${others.map((other) => html`<li key=${other.id}>
            <button type="button" class="link" onClick=${() => onOpen(other)}>
              <${Shape} kind=${other.type} />${other.name || other.id}</button></li>`)}
        </ul></div>`,
    )}
    ${edges.length > SHOWN && html`<p class="quiet">and ${number(edges.length - SHOWN)} more</p>`}
    <p><button type="button" class="button small" onClick=${() => onMore(answer)}>Show all in the graph</button></p>`;
}

/** All nodes as a list. */
export function NodeList({ nodes, selected, onOpen }) {
  if (!nodes.length) return html`<${Empty} title="No nodes match" text="Remove a filter." />`;
  const rows = [...nodes].sort((a, b) => b.degree - a.degree || (a.name || a.id).localeCompare(b.name || b.id));
  return html`<${VirtualList} count=${rows.length} rowHeight=${48} label="Nodes" get=${(at) => rows[at]} onOpen=${(node) => onOpen(node.id)}
    render=${(node) => html`<div class="node-row ${node.id === selected ? "is-chosen" : ""}"><${Shape} kind=${node.type} />
      <span class="node-row-title">${node.name || node.id}</span>
      <span class="quiet node-row-kind">${typeLabel(node.type)}</span>
      <span class="quiet num">${count(node.degree, "edge")}</span></div>`} />`;
}

/** All edges as a list. Opening an edge opens its source. */
export function EdgeList({ nodes, edges, onOpen }) {
  if (!edges.length) return html`<${Empty} title="No edges match" text="Remove a filter." />`;
  const titles = new Map(nodes.map((node) => [node.id, node]));
  const end = (id) => html`<${Shape} kind=${titles.get(id)?.type} /><span class="node-row-title">${titles.get(id)?.name || id}</span>`;
  return html`<${VirtualList} count=${edges.length} rowHeight=${56} label="Edges" get=${(at) => edges[at]}
    onOpen=${(edge) => onOpen(edge.source)}
    render=${(edge) => html`<div class="edge-row">${end(edge.source)}<span class="relation">${readable(edge.relation)}</span>
      ${end(edge.target)}${edge.explicit && html`<span class="badge">stated</span>`}</div>`} />`;
}

/** A path in words, with each node and its relation to the next one. */
export function PathSteps({ path, onOpen }) {
  return html`<ol class="path-words">${path.nodes.map((node, at) => {
    const edge = path.edges[at];
    const back = edge?.source !== node.id;
    return html`<li key=${node.id}>
      <button type="button" class="link" onClick=${() => onOpen(node.id)}><${Shape} kind=${node.type} />${node.name || node.id}</button>
      ${edge && html`<span class="relation">${back ? "← " : ""}${readable(edge.relation)}${back ? "" : " →"}</span>`}</li>`;
  })}</ol>`;
}
