// The graph: how memories, files, symbols, tags, tasks and sessions are linked at a given time. It opens around the
// newest memory. Choosing another node or "All" shows another part. The picture and the lists show the same part, and
// the view is part of the address.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { useGet } from "../parts/api.js";
import { AddMemory } from "../parts/changes.js";
import { Empty, Loaded } from "../parts/placeholders.js";
import { Force } from "../parts/force_graph.js";
import { EdgeList, NodeList, NodePanel, PathSteps } from "../parts/nodes.js";
import { Pick } from "../parts/node_picker.js";
import { Choice, Switches, Tabs, toggled } from "../parts/widgets.js";
import { route, setQuery } from "../parts/router.js";
import { KINDS, typeLabel, Shape } from "../parts/node_shapes.js";
import { PageHead } from "../parts/shell.js";
import { useMedia } from "../parts/hooks.js";
import { TimeSlider } from "../parts/slider.js";
import { count, number, unlinked } from "../parts/format.js";

const NONE = { nodes: [], edges: [] };

/** The page at `/graph?around=&all=&task=&tag=&as_of=&off=&node=&a=&b=&view=`. */
export function Page() {
  const { query } = route.value;
  const asked = { task: query.get("task") ?? "", tag: query.get("tag") ?? "", as_of: query.get("as_of") ?? "" };
  asked.around = query.has("all") || asked.task || asked.tag ? "" : (query.get("around") ?? "newest");
  const graph = useGet("/api/graph", asked, { on: ["records", "tasks", "sessions"] });
  return html`<${PageHead} title="Graph"
      sub="How memories, files, tasks and sessions are linked. Solid edges are stated in a file, dashed ones are derived." />
    <${Loaded} state=${graph} lines=${8} what="the graph">
      ${(data) =>
        data.total_nodes === 0 && !asked.as_of && !asked.task && !asked.tag
          ? html`<${Empty} title="The graph is empty"
              text="Nodes are memories and what they mention: files, symbols, tags, tasks, sessions. Add a memory that names a file."
              command='ralph memory add "src/db.ts needs the pool started first"'
              action=${html`<${AddMemory} />`} />`
          : html`<${GraphView} data=${data} asked=${asked} loading=${graph.loading} />`}
    <//>`;
}

function Filters({ asked, data }) {
  const tasks = useGet("/api/tasks", { limit: 200, sort: "newest" }, { on: ["tasks"] });
  const tags = useGet("/api/tags", { limit: 200 });
  const options = [["", "all tasks"], ...(tasks.value?.items ?? []).map((one) => [one.id, one.title])];
  const words = [["", "all tags"], ...(tags.value?.items ?? []).map(([tag, times]) => [tag, `${tag} (${times})`])];
  if (asked.task && !options.some(([id]) => id === asked.task)) options.push([asked.task, asked.task]);
  if (asked.tag && !words.some(([tag]) => tag === asked.tag)) words.push([asked.tag, asked.tag]);
  return html`<div class="toolbar">
    ${options.length > 1 && html`<${Choice} label="Task" name="task" value=${asked.task} options=${options} onChange=${(task) => setQuery({ task })} />`}
    <${Choice} label="Tag" name="tag" value=${asked.tag} options=${words} onChange=${(tag) => setQuery({ tag })} />
    <${TimeSlider} from=${data.from} until=${data.until} value=${asked.as_of} onChange=${(as_of) => setQuery({ as_of })} />
  </div>`;
}

/** Two nodes and a shortest path between them. `path` is the server's response. */
function Between({ nodes, all, ends, path, onOpen }) {
  const named = (id) => nodes.find((node) => node.id === id)?.name ?? id;
  const end = (key, label) => html`<${Pick} label=${label} nodes=${nodes} all=${all} value=${named(ends[key])}
    onPick=${(node) => setQuery({ [key]: node?.id })} />`;
  return html`<details class="between" open=${Boolean(ends.a || ends.b) || undefined}><summary>Path between two nodes</summary>
    <div class="toolbar">${end("a", "From")}${end("b", "To")}</div>
    <div role="status">${ends.a && ends.b && html`<${Loaded} state=${path} lines=${1}>${(data) => data.found
        ? html`<${PathSteps} path=${data} onOpen=${onOpen} />` : html`<p>There is no path between these nodes at this time.</p>`}<//>`}</div>
  </details>`;
}

/** The nodes and edges to show: the response and what a panel added, without the types that are switched off. */
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
  const ends = { a: query.get("a") ?? "", b: query.get("b") ?? "" };
  const path = useGet(ends.a && ends.b ? "/api/graph/path" : null, { ...ends, as_of: asked.as_of });
  const way = ends.a && ends.b && path.value?.found ? path.value : NONE;
  const seen = useMemo(() => shownOf(data, { nodes: [...added.nodes, ...way.nodes], edges: [...added.edges, ...way.edges] }, off),
    [data, added, way, [...off].join(" ")]);
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
  const showAround = (node) => setQuery({ around: node?.id ?? null, node: node?.id ?? null, all: null, task: null, tag: null });
  const narrow = useMedia("(max-width: 640px)");
  const filtered = asked.task || asked.tag || asked.as_of || off.size || ends.a || ends.b;
  const tabs = [
    { key: "picture", label: "Picture" },
    { key: "nodes", label: "Nodes", count: seen.nodes.length },
    { key: "edges", label: "Edges", count: seen.edges.length },
  ];
  const words = html`<span class="quiet" role="status">${counted(seen, data)}${loading ? ", updating" : ""}</span>`;
  const more = html`<${Filters} asked=${asked} data=${data} />
    <${Legend} counts=${seen.counts} off=${off} />
    <${Between} nodes=${seen.nodes} all=${all} ends=${ends} path=${path} onOpen=${open} />`;
  return html`<div class="toolbar">
      <${Pick} label="Find a node" nodes=${seen.nodes} all=${all} value=${data.around ? "" : (chosen?.name ?? "")}
        onPick=${data.around ? showAround : find} placeholder="A memory, file, tag or task" search=${true} />
      <${Scope} around=${data.around} name=${centre?.name ?? ""} />
    </div>
    ${narrow ? html`<details class="between" open=${Boolean(filtered) || undefined}><summary>Filters and paths</summary>${more}</details>` : more}
    <div class="graph-body ${chosen ? "has-panel" : ""}">
      <${Tabs} label="View of the graph" aside=${words} tabs=${tabs} chosen=${view}
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

/** The choice between the surroundings of one node and the whole graph. */
function Scope({ around, name }) {
  const all = !around;
  const bare = unlinked(name).replaceAll("`", "");
  const words = bare.length > 40 ? `${bare.slice(0, 39)}…` : bare;
  const choose = (next) => setQuery({ all: next ? "1" : null, task: null, tag: null });
  return html`<div class="seg graph-scope" role="group" aria-label="Part of the graph">
    <button type="button" class="seg-one" aria-pressed=${all ? "false" : "true"} onClick=${() => choose(false)}>
      ${words ? `Around: ${words}` : "Around one memory"}</button>
    <button type="button" class="seg-one" aria-pressed=${all ? "true" : "false"} onClick=${() => choose(true)}>Whole graph</button>
  </div>`;
}

/** Requests the node in the address, with its neighbours, if the response does not contain it. */
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
  const touch = useMedia("(pointer: coarse), (max-width: 640px)");
  if (!seen.nodes.length) {
    return html`<${Empty} title="No nodes match"
      text="Nothing was recorded by that time, or the filters exclude everything. Move the slider or remove a filter." />`;
  }
  const counts = `${count(seen.nodes.length, "node")} and ${count(seen.edges.length, "edge")}`;
  const label = `Graph of ${counts}. The tabs Nodes and Edges list the same.`;
  return html`<div class="picture">
    <${Force} nodes=${seen.nodes} edges=${seen.edges} selected=${selected} onOpen=${onOpen} label=${label}
      control=${control} />
    <div class="picture-tools" role="group" aria-label="Zoom">
      <button type="button" class="button small" onClick=${() => control.current?.nearer()} aria-label="Zoom in">+</button>
      <button type="button" class="button small" onClick=${() => control.current?.farther()} aria-label="Zoom out">−</button>
      <button type="button" class="button small" onClick=${() => control.current?.fit()}>All</button>
    </div>
    <p class="picture-hint quiet">${touch ? "Drag to pan, pinch to zoom, tap a node to open it."
      : "Drag to pan, Ctrl + scroll to zoom, click a node to open it."}</p>
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
    <${Switches} label="Node types to show" on=${on} options=${kinds.map(option)}
      onToggle=${(kind) => setQuery({ off: [...toggled(off, kind)] })} />
  </div>`;
}
