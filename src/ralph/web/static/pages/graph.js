// The graph: how memories, files, symbols, tags, tasks and sessions are linked, at any time. It opens around the newest
// memory; another node or "All" shows another part. Picture and lists show the same; the address holds it.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { AddMemory } from "../parts/changes.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Force } from "../parts/force_graph.js";
import { EdgeList, NodeList, NodePanel } from "../parts/nodes.js";
import { Pick } from "../parts/node_picker.js";
import { Switches, Tabs, toggled } from "../parts/widgets.js";
import { route, setQuery } from "../parts/router.js";
import { KINDS, typeLabel, Shape } from "../parts/node_shapes.js";
import { PageHead } from "../parts/shell.js";
import { useMedia } from "../parts/hooks.js";
import { TimeSlider } from "../parts/slider.js";
import { count, number } from "../parts/format.js";

const NONE = { nodes: [], edges: [] };

/** The page at `/graph?around=&all=&as_of=&off=&node=&view=`. */
export function Page() {
  const { query } = route.value;
  const asked = { as_of: query.get("as_of") ?? "", around: query.has("all") ? "" : (query.get("around") ?? "newest") };
  const graph = useGet("/api/graph", asked, { on: ["records", "tasks", "sessions"] });
  return html`<${PageHead} title="Graph"
      sub="How memories, files, tasks and sessions are linked. Solid edges are stated in a file, dashed ones are derived." />
    <${Loaded} state=${graph} lines=${8} what="the graph">
      ${(data) =>
        data.total_nodes === 0 && !asked.as_of
          ? html`<${Empty} title="The graph is empty"
              text="Nodes are memories and what they mention: files, symbols, tags, tasks, sessions. Add a memory that names a file."
              command='ralph memory add "src/db.ts needs the pool started first"'
              action=${html`<${AddMemory} />`} />`
          : html`<${GraphView} data=${data} asked=${asked} loading=${graph.loading} />`}
    <//>`;
}

/** What is shown: the answer, what a panel added, less the kinds that are off. */
function shownOf(data, added, off) {
  const nodes = new Map();
  for (const node of [...data.nodes, ...added.nodes]) if (!nodes.has(node.id)) nodes.set(node.id, node);
  const counts = {};
  for (const node of nodes.values()) counts[node.type] = (counts[node.type] ?? 0) + 1;
  for (const [id, node] of nodes) if (off.has(node.type)) nodes.delete(id);
  const edges = new Map();
  for (const edge of [...data.edges, ...added.edges]) {
    if (nodes.has(edge.source) && nodes.has(edge.target)) edges.set(`${edge.source} ${edge.relation} ${edge.target}`, edge);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], counts };
}

function GraphView({ data, asked, loading }) {
  const { query } = route.value;
  const [added, setAdded] = useState(NONE);
  const control = useRef(null);
  const off = new Set(query.getAll("off"));
  const seen = useMemo(() => shownOf(data, added, off), [data, added, [...off].join(" ")]);
  const selected = query.get("node");
  const centre = data.nodes.find((node) => node.id === data.around);
  const chosen = seen.nodes.find((node) => node.id === selected) ?? data.nodes.find((node) => node.id === selected);
  const open = (id) => setQuery({ node: id });
  const view = query.get("view") ?? "picture";
  const all = !data.around && data.nodes.length >= data.total_nodes;
  const add = (more) => setAdded((old) => ({ nodes: [...old.nodes, ...more.nodes], edges: [...old.edges, ...more.edges] }));
  useEffect(() => setAdded(NONE), [data.total_nodes, data.around, asked.as_of]);
  useMissing(chosen ? null : selected, asked.as_of, add);
  const find = (node) => {
    if (!node) return open(null);
    if (!seen.nodes.some((one) => one.id === node.id)) add({ nodes: [node], edges: [] });
    open(node.id);
    return control.current?.centre(node.id);
  };
  const showAround = (node) => setQuery({ around: node?.id ?? null, node: node?.id ?? null, all: null });
  const narrow = useMedia("(max-width: 640px)");
  const filtered = asked.as_of || off.size;
  const tabs = [
    { key: "picture", label: "Picture" },
    { key: "nodes", label: "Nodes", count: seen.nodes.length },
    { key: "edges", label: "Edges", count: seen.edges.length },
  ];
  const words = html`<span class="quiet" role="status">${counted(seen, data)}${loading ? ", asking again" : ""}</span>`;
  const more = html`<div class="toolbar"><${TimeSlider} from=${data.from} until=${data.until} value=${asked.as_of}
      onChange=${(as_of) => setQuery({ as_of })} /></div>
    <${Legend} counts=${seen.counts} off=${off} />`;
  return html`<div class="toolbar">
      <${Pick} label="Find a node" nodes=${seen.nodes} all=${all} value=${data.around ? "" : (chosen?.name ?? "")}
        onPick=${data.around ? showAround : find} placeholder="A memory, file, tag or task" search=${true} />
      <${Scope} around=${data.around} name=${centre?.name ?? ""} />
    </div>
    ${narrow ? html`<details class="between" open=${Boolean(filtered) || undefined}><summary>Filters</summary>${more}</details>` : more}
    <div class="graph-body ${chosen ? "has-panel" : ""}">
      <${Tabs} label="How the graph is shown" aside=${words} tabs=${tabs} chosen=${view}
        onChoose=${(key) => setQuery({ view: key === "picture" ? null : key })}>
        ${view === "nodes" && html`<${NodeList} nodes=${seen.nodes} selected=${selected} onOpen=${open} />`}
        ${view === "edges" && html`<${EdgeList} nodes=${seen.nodes} edges=${seen.edges} onOpen=${open} />`}
        ${!["nodes", "edges"].includes(view) &&
          html`<${Picture} seen=${seen} selected=${chosen?.id ?? null} onOpen=${open} control=${control} />`}
      <//>
      ${chosen && html`<${NodePanel} key=${chosen.id} node=${chosen} asOf=${asked.as_of} onOpen=${find} onMore=${add}
        onAround=${() => showAround(chosen)} />`}
    </div>`;
}

/** Whether only what is near one node is shown, or everything. */
function Scope({ around, name }) {
  const all = !around;
  const words = name.length > 40 ? `${name.slice(0, 39)}…` : name;
  const choose = (next) => setQuery({ all: next ? "1" : null });
  return html`<div class="seg graph-scope" role="group" aria-label="How much of the graph">
    <button type="button" class="seg-one" aria-pressed=${all ? "false" : "true"} onClick=${() => choose(false)}>
      ${words ? `Around: ${words}` : "Around one memory"}</button>
    <button type="button" class="seg-one" aria-pressed=${all ? "true" : "false"} onClick=${() => choose(true)}>Whole graph</button>
  </div>`;
}

/** A node that the address names and the answer has not: it is asked for, with what is beside it. */
function useMissing(id, asOf, add) {
  const near = useGet(id ? "/api/graph/neighbors" : null, { id, hops: 1, as_of: asOf });
  useEffect(() => {
    if (near.value) add(near.value);
  }, [near.value]);
}

function counted(seen, data) {
  const words = `${count(seen.nodes.length, "node")} and ${count(seen.edges.length, "edge")}`;
  return data.total_nodes > data.nodes.length
    ? `${words} of ${number(data.total_nodes)} nodes and ${number(data.total_edges)} edges: those with the most edges` : words;
}

function Picture({ seen, selected, onOpen, control }) {
  if (!seen.nodes.length) {
    return html`<${Empty} title="No nodes match"
      text="Nothing was known yet at this time, or the filters leave nothing. Move the slider or remove a filter." />`;
  }
  const counts = `${count(seen.nodes.length, "node")} and ${count(seen.edges.length, "edge")}`;
  const label = `Graph of ${counts}. The tabs Nodes and Edges have the same as lists.`;
  return html`<div class="picture">
    <${Force} nodes=${seen.nodes} edges=${seen.edges} selected=${selected} onOpen=${onOpen} label=${label}
      control=${control} />
    <div class="picture-tools" role="group" aria-label="The picture">
      <button type="button" class="button small" onClick=${() => control.current?.nearer()} aria-label="Nearer">+</button>
      <button type="button" class="button small" onClick=${() => control.current?.farther()} aria-label="Farther">−</button>
      <button type="button" class="button small" onClick=${() => control.current?.fit()}>All</button>
    </div>
    <p class="picture-hint quiet">Drag to move, Ctrl and the wheel to come nearer, click a node to open it.</p>
  </div>`;
}

function Legend({ counts, off }) {
  const kinds = [...new Set([...KINDS, ...Object.keys(counts)])].filter((kind) => counts[kind] || off.has(kind));
  const on = new Set(kinds.filter((kind) => !off.has(kind)));
  const option = (kind) => ({
    key: kind,
    label: typeLabel(kind),
    count: number(counts[kind] ?? 0),
    sign: html`<${Shape} kind=${kind} />`,
  });
  return html`<div class="legend">
    <${Switches} label="Kinds of nodes that are shown" on=${on} options=${kinds.map(option)}
      onToggle=${(kind) => setQuery({ off: [...toggled(off, kind)] })} />
  </div>`;
}
