/**
 * The force-directed picture of a graph, around the force-graph library.
 *
 * Preact owns the box, the library the canvas within it. Nodes keep their places between answers, so a filter or
 * the time slider moves nothing that stays. The library's own labels take HTML, which a memory's title could
 * abuse: they are switched off, and names are drawn on the canvas as text. Whoever wants no motion gets the
 * finished layout at once. Everything here can be done from the list beside it as well, so the canvas is an
 * image to readers, with its counts in the label and in data-nodes and data-edges; data-settled says that the
 * layout has come to rest. While it moves only a few names are drawn, since placing them takes time.
 */
import { html, useEffect, useRef } from "../lib.js";
import { ink } from "./ink.js";
import { colourOf, KINDS, pathOf } from "./shapes.js";
import { shown } from "./theme.js";

let library = null;

function load() {
  library ??= import("../vendor/force-graph.js").then((module) => module.default ?? globalThis.ForceGraph);
  return library;
}

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** How big a node is: by the root of its degree, so that a hub is seen and does not hide the rest. */
function radius(node) {
  return 3.5 + Math.min(9, Math.sqrt(node.degree || 1) * 1.4);
}

/** The theme's colours for one drawing. */
function palette() {
  const colours = { other: ink("--node-other") };
  for (const kind of KINDS) colours[kind] = ink(colourOf(kind));
  for (const name of ["text", "plate", "edge", "path"]) colours[`:${name}`] = ink(`--graph-${name}`);
  return colours;
}

const paths = new Map();

function shape(kind) {
  if (!paths.has(kind)) paths.set(kind, new Path2D(pathOf(kind)));
  return paths.get(kind);
}

function short(title, most = 32) {
  const letters = [...title];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : title;
}

/** One node: its shape, dimmed when it is not what is looked at, ringed when it is. */
function drawNode(node, canvas, look) {
  const size = radius(node);
  const marked = look.marked(node.id);
  canvas.globalAlpha = look.dimmed(node.id) ? 0.2 : 1;
  canvas.save();
  canvas.translate(node.x, node.y);
  canvas.scale(size, size);
  canvas.fillStyle = look.colours[node.kind] ?? look.colours.other;
  canvas.fill(shape(node.kind));
  if (marked) {
    canvas.lineWidth = 2.5 / size;
    canvas.strokeStyle = look.colours[":path"];
    canvas.stroke(shape(node.kind));
  }
  canvas.restore();
  canvas.globalAlpha = 1;
}

const MARGIN = 36;
const NAMED = 60;
const NAMED_MOVING = 12;

/** The names, after all nodes, biggest first: one that would lie over another name or a node is left out. */
function drawNames(nodes, canvas, scale, look) {
  const font = 11.5 / scale;
  canvas.font = `${font}px system-ui, sans-serif`;
  canvas.textAlign = "center";
  canvas.textBaseline = "top";
  const view = look.view();
  const taken = nodes.map((node) => boxOf(node));
  let left = look.moving() ? NAMED_MOVING : NAMED * Math.max(1, scale);
  for (const node of nodes) {
    if (left <= 0) break;
    const wanted = look.marked(node.id) || look.hovered() === node.id;
    if ((!wanted && look.dimmed(node.id)) || !meets(boxOf(node), view)) continue;
    const text = short(node.title || node.id, wanted ? 40 : 28);
    const width = canvas.measureText(text).width + font * 0.6;
    const places = placesFor(node, width, font * 1.35).map((box) => within(box, view));
    const box = wanted ? freest(places, taken) : places[0];
    if (!wanted && taken.some((other) => meets(box, other))) continue;
    left -= 1;
    taken.unshift(box);
    drawName(text, box, canvas, look, font);
  }
}

/** Where a name could stand: below its node, above it, at its sides. */
function placesFor(node, width, height) {
  const away = radius(node) * 1.25;
  const size = { width, height };
  return [
    { ...size, left: node.x - width / 2, top: node.y + away },
    { ...size, left: node.x - width / 2, top: node.y - away - height },
    { ...size, left: node.x + away, top: node.y - height / 2 },
    { ...size, left: node.x - away - width, top: node.y - height / 2 },
  ];
}

/** A box moved as far as it must be to be seen whole: no name is cut by the edge. */
function within(box, view) {
  const left = Math.max(view.left, Math.min(box.left, view.left + view.width - box.width));
  const top = Math.max(view.top, Math.min(box.top, view.top + view.height - box.height));
  return { ...box, left, top };
}

/** The place that hides least; what comes first among those taken counts more. */
function freest(places, taken) {
  const hides = (box) => taken.reduce((sum, other, at) => sum + (meets(box, other) ? 1 + 20 / (1 + at) : 0), 0);
  return places.reduce((best, box) => (hides(box) < hides(best) ? box : best));
}

/** The box of a node itself. */
function boxOf(node) {
  const size = radius(node);
  return { left: node.x - size, top: node.y - size, width: 2 * size, height: 2 * size };
}

function drawName(text, box, canvas, look, font) {
  canvas.globalAlpha = 0.82;
  canvas.fillStyle = look.colours[":plate"];
  canvas.fillRect(box.left, box.top, box.width, box.height);
  canvas.globalAlpha = 1;
  canvas.fillStyle = look.colours[":text"];
  canvas.fillText(text, box.left + box.width / 2, box.top + font * 0.14);
}

function meets(one, other) {
  return one.left < other.left + other.width && other.left < one.left + one.width
    && one.top < other.top + other.height && other.top < one.top + one.height;
}

/** A pull to the middle, so that what is joined to nothing does not drift out of sight; weaker along the long side. */
function gravity(host) {
  const shape = (host.clientWidth / Math.max(1, host.clientHeight)) ** 0.8;
  const [across, down] = [0.056 / shape, 0.056 * shape];
  let nodes = [];
  const pull = (alpha) => {
    for (const node of nodes) {
      node.vx -= node.x * across * alpha;
      node.vy -= node.y * down * alpha;
    }
  };
  pull.initialize = (given) => {
    nodes = given;
  };
  return pull;
}

/** The library's graph with our drawing; `look` is asked at each frame, so nothing is set up twice. */
function begin(ForceGraph, host, look, events) {
  const graph = new ForceGraph(host)
    .nodeLabel(() => "")
    .linkLabel(() => "")
    .nodeVal((node) => (radius(node) / 4) ** 2)
    .nodeCanvasObject((node, canvas) => drawNode(node, canvas, look))
    .nodePointerAreaPaint((node, code, canvas) => {
      canvas.fillStyle = code;
      canvas.beginPath();
      canvas.arc(node.x, node.y, radius(node) + 3, 0, 2 * Math.PI);
      canvas.fill();
    })
    .linkColor((link) => (look.onPath(link) ? look.colours[":path"] : look.colours[":edge"]))
    .linkWidth((link) => (look.onPath(link) ? 3 : link.explicit ? 1.6 : 0.8))
    .linkLineDash((link) => (link.explicit || look.onPath(link) ? null : [3, 3]))
    .linkVisibility((link) => !look.hides(link))
    .linkDirectionalArrowLength((link) => (look.onPath(link) || link.explicit ? 4 : 0))
    .linkDirectionalArrowRelPos(0.92)
    .onRenderFramePost((canvas, scale) => drawNames(look.ordered(), canvas, scale, look))
    .onNodeClick((node) => events.open(node.id))
    .onNodeHover((node) => events.hover(node?.id ?? null))
    .onBackgroundClick(() => events.open(null))
    .enableZoomInteraction((event) => event.ctrlKey || event.metaKey)
    .minZoom(0.15)
    .maxZoom(8);
  graph.d3Force("charge").strength(-90).distanceMax(320);
  graph.d3Force("link").distance(44);
  graph.d3Force("gravity", gravity(host));
  return graph;
}

/** The nodes and links as the library wants them, with the objects (and so the places) it already knows. */
function merged(known, nodes, edges) {
  const next = new Map();
  for (const node of nodes) next.set(node.id, Object.assign(known.get(node.id) ?? {}, node));
  const links = edges.filter((edge) => next.has(edge.source) && next.has(edge.target)).map((edge) => ({ ...edge }));
  return { next, links };
}

function looking(state, current) {
  return {
    colours: {},
    marked: (id) => current().selected === id || current().path.has(id),
    dimmed: (id) => current().path.size > 0 ? !current().path.has(id) : current().near !== null && !current().near.has(id),
    hides: (link) => current().path.size === 0 && current().near !== null &&
      !(current().near.has(link.source.id) && current().near.has(link.target.id)),
    onPath: (link) =>
      current().pathEdges.has(`${link.source.id} ${link.target.id}`) || current().pathEdges.has(`${link.target.id} ${link.source.id}`),
    hovered: () => current().hovered,
    moving: () => state.moving,
    view: () => viewOf(state),
    ordered: () => current().ordered,
  };
}

/** What of the graph is in sight, as a box in its own measure. */
function viewOf({ graph, host }) {
  const { x: left, y: top } = graph.screen2GraphCoords(0, 0);
  const { x: right, y: bottom } = graph.screen2GraphCoords(host.clientWidth, host.clientHeight);
  return { left, top, width: right - left, height: bottom - top };
}

/** A node and those one step away; null when none is chosen. */
function around(selected, edges) {
  if (!selected) return null;
  const near = new Set([selected]);
  for (const edge of edges) {
    if (edge.source === selected) near.add(edge.target);
    if (edge.target === selected) near.add(edge.source);
  }
  return near;
}

/**
 * The picture.
 * @param {{nodes: object[], edges: object[], selected: string|null, path: {nodes: object[], edges: object[]},
 *   onOpen: (id: string|null) => void, label: string, control: {current: any}}} props `control.current` gets
 *   {fit, nearer, farther, centre(id)}
 */
export function Force({ nodes, edges, selected, path, onOpen, label, control }) {
  const box = useRef(null);
  const state = useRef({ hovered: null, known: new Map(), graph: null, fitted: false });
  const now = useRef({});
  now.current = {
    selected,
    onOpen,
    near: around(selected, edges),
    path: new Set(path.nodes.map((node) => node.id)),
    pathEdges: new Set(path.edges.map((edge) => `${edge.source} ${edge.target}`)),
    hovered: state.current.hovered,
    ordered: [],
    nodes,
    edges,
  };
  now.current.ordered = byWeight(state.current.known, now.current);

  useEffect(() => mount(box.current, state.current, now, control), []);
  useEffect(() => feed(state.current, nodes, edges, now), [shapeOf(nodes, edges)]);
  useEffect(() => redraw(state.current.graph), [selected, path]);
  useEffect(() => repaint(state.current), [shown.value]);

  return html`<div class="force" ref=${box} role="img" aria-label=${label} data-nodes=${nodes.length} data-edges=${edges.length}></div>`;
}

/** Which nodes and edges there are: the layout moves when that changes, not at every answer that says the same. */
function shapeOf(nodes, edges) {
  return JSON.stringify([nodes.map((node) => node.id), edges.map((edge) => [edge.source, edge.relation, edge.target])]);
}

function byWeight(known, current) {
  const weight = (node) => (current.selected === node.id || current.path.has(node.id) ? 1e6 : 0) + (node.degree || 0);
  return [...known.values()].sort((a, b) => weight(b) - weight(a));
}

function redraw(graph) {
  if (graph) graph.zoom(graph.zoom());
}

function moves(state, moving) {
  state.moving = moving;
  state.host.dataset.settled = String(!moving);
}

/** Reads the theme's colours again. */
function repaint(state) {
  if (!state.look) return;
  state.look.colours = palette();
  redraw(state.graph);
}

/**
 * As big as its box, and all of it in sight again, unless somebody has moved the picture: then its middle stays.
 * The library forgets its place when it is told the size that it has, so it is told of changes only.
 */
function fill(state) {
  const { graph, host } = state;
  if (!graph || !host.isConnected) return; // the page may be gone a moment before this is undone
  if (graph.width() === host.clientWidth && graph.height() === host.clientHeight) return;
  if (graph.width() !== host.clientWidth) graph.width(host.clientWidth);
  if (graph.height() !== host.clientHeight) graph.height(host.clientHeight);
  if (state.fitted && !state.moved) graph.zoomToFit(0, MARGIN);
}

/** Notes that somebody has dragged the picture, or come nearer. */
function watchMoves(host, state) {
  host.addEventListener("pointermove", (event) => (state.moved ||= event.buttons !== 0), { passive: true });
  host.addEventListener("wheel", (event) => (state.moved ||= event.ctrlKey || event.metaKey), { passive: true });
}

function mount(host, state, now, control) {
  let gone = false;
  const look = looking(state, () => now.current);
  const events = {
    open: (id) => now.current.onOpen(id),
    hover: (id) => {
      state.hovered = id;
      now.current.hovered = id;
      redraw(state.graph);
    },
  };
  const sizes = new ResizeObserver(() => fill(state));
  watchMoves(host, state);
  load().then((ForceGraph) => {
    if (gone || !host.isConnected) return;
    state.look = look;
    state.host = host;
    repaint(state);
    state.graph = begin(ForceGraph, host, look, events).width(host.clientWidth).height(host.clientHeight);
    sizes.observe(host);
    if (control) control.current = controls(state);
    feed(state, now.current.nodes, now.current.edges, now);
  });
  return () => {
    gone = true;
    sizes.disconnect();
    state.graph?._destructor();
    state.graph = null;
  };
}

function controls(state) {
  const time = () => (still() ? 0 : 240);
  const zoom = (times) => {
    state.moved = true;
    state.graph.zoom(Math.min(8, Math.max(0.15, state.graph.zoom() * times)), time());
  };
  return {
    fit: () => {
      state.moved = false;
      state.graph.zoomToFit(time(), MARGIN);
    },
    nearer: () => zoom(1.4),
    farther: () => zoom(1 / 1.4),
    centre: (id) => {
      const node = state.known.get(id);
      if (node?.x === undefined) return;
      state.moved = true;
      state.graph.centerAt(node.x, node.y, time());
    },
  };
}

function feed(state, nodes, edges, now) {
  if (!state.graph) return;
  const { next, links } = merged(state.known, nodes, edges);
  const first = state.known.size === 0;
  state.known = next;
  now.current.ordered = byWeight(next, now.current);
  const calm = still();
  // Without motion all of it is one task, which must not be felt.
  const whole = Math.round(Math.min(240, (calm ? 28000 : 40000) / Math.max(1, next.size)));
  moves(state, true);
  const fit = (time) => next.size > 0 && state.graph?.zoomToFit(time, MARGIN);
  let began = !first;
  state.graph
    .warmupTicks(calm ? whole : first ? Math.round(whole / 5) : 0)
    .cooldownTicks(calm ? 0 : whole)
    .onEngineTick(() => {
      // Only now do the nodes have places; before, there is nothing that could fit.
      if (!began) fit(0);
      began = true;
    })
    .onEngineStop(() => {
      if (!state.fitted) fit(calm ? 0 : 240);
      state.fitted = true;
      moves(state, false);
      redraw(state.graph);
    })
    .graphData({ nodes: [...next.values()], links });
}
