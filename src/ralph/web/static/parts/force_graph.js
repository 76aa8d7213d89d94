/**
 * A force-directed picture of the graph, drawn with the force-graph library.
 *
 * Preact owns the box, and the library owns the canvas inside it. Nodes keep their positions between responses, so a
 * filter or the time slider does not move the nodes that remain. The library's own labels accept HTML, which a
 * memory's title could abuse. They are switched off, and names are drawn on the canvas as text. With reduced motion,
 * the library computes the layout before it draws. Everything here can also be done in the list, so the canvas is an
 * image to screen readers, with its counts in the label and in data-nodes and data-edges. data-settled marks a layout
 * that has come to rest. While it moves, only a few names are drawn, because placing them takes time.
 */
import { html, useEffect, useRef } from "../lib.js";
import { drawLabels, radius } from "./node_labels.js";
import { colourOf, KINDS, pathOf } from "./node_shapes.js";
import { colour, shown } from "./theme.js";

let library = null;

function load() {
  library ??= import("../vendor/force-graph.js").then((module) => module.default ?? globalThis.ForceGraph);
  return library;
}

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The theme's colours, read once per drawing. */
function palette() {
  const colours = { other: colour("--node-other") };
  for (const kind of KINDS) colours[kind] = colour(colourOf(kind));
  for (const name of ["text", "plate", "edge", "chosen"]) colours[`:${name}`] = colour(`--graph-${name}`);
  return colours;
}

const paths = new Map();

function shape(kind) {
  if (!paths.has(kind)) paths.set(kind, new Path2D(pathOf(kind)));
  return paths.get(kind);
}

/** Draws one node. It is dimmed if another node is in focus, and has a ring if it is in focus itself. */
function drawNode(node, canvas, look) {
  const size = radius(node);
  const marked = look.marked(node.id);
  canvas.globalAlpha = look.dimmed(node.id) ? 0.28 : 1;
  canvas.save();
  canvas.translate(node.x, node.y);
  canvas.scale(size, size);
  canvas.fillStyle = look.colours[node.type] ?? look.colours.other;
  canvas.fill(shape(node.type));
  if (marked) {
    canvas.lineWidth = 2.5 / size;
    canvas.strokeStyle = look.colours[":chosen"];
    canvas.stroke(shape(node.type));
  }
  canvas.restore();
  canvas.globalAlpha = 1;
}

const MARGIN = 36;
const NEAREST = 3;

/** A force towards the centre, which keeps unlinked nodes in view. It is weaker along the longer side. */
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

/** The library's graph with our drawing functions. `look` is read in each frame, so nothing is set up twice. */
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
    .linkColor(() => look.colours[":edge"])
    .linkWidth((link) => (link.explicit ? 1.6 : 0.8))
    .linkLineDash((link) => (link.explicit ? null : [3, 3]))
    .linkVisibility((link) => !look.hides(link))
    .linkDirectionalArrowLength((link) => (link.explicit ? 4 : 0))
    .linkDirectionalArrowRelPos(0.92)
    .onRenderFramePost((canvas, scale) => drawLabels(look.ordered(), canvas, scale, look))
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

/** The nodes and links for the library. Known objects are reused, so that nodes keep their positions. */
function merged(known, nodes, edges) {
  const next = new Map();
  for (const node of nodes) next.set(node.id, Object.assign(known.get(node.id) ?? {}, node));
  const links = edges.filter((edge) => next.has(edge.source) && next.has(edge.target)).map((edge) => ({ ...edge }));
  return { next, links };
}

function looking(state, current) {
  return {
    colours: {},
    marked: (id) => current().selected === id,
    dimmed: (id) => current().near !== null && !current().near.has(id),
    hides: (link) => current().near !== null &&
      !(current().near.has(link.source.id) && current().near.has(link.target.id)),
    hovered: () => current().hovered,
    moving: () => state.moving,
    view: () => viewOf(state),
    ordered: () => current().ordered,
  };
}

/** The visible part of the graph, as a box in graph coordinates. */
function viewOf({ graph, host }) {
  const { x: left, y: top } = graph.screen2GraphCoords(0, 0);
  const { x: right, y: bottom } = graph.screen2GraphCoords(host.clientWidth, host.clientHeight);
  return { left, top, width: right - left, height: bottom - top };
}

/** A node and its direct neighbours, or null if no node is chosen. */
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
 * @param {{nodes: object[], edges: object[], selected: string|null,
 *   onOpen: (id: string|null) => void, label: string, control: {current: any}}} props `control.current` is set
 *   to {fit, nearer, farther, centre(id)}
 */
export function Force({ nodes, edges, selected, onOpen, label, control }) {
  const box = useRef(null);
  const state = useRef({ hovered: null, known: new Map(), graph: null, fitted: false });
  const now = useRef({});
  now.current = {
    selected,
    onOpen,
    near: around(selected, edges),
    hovered: state.current.hovered,
    ordered: [],
    nodes,
    edges,
  };
  now.current.ordered = byWeight(state.current.known, now.current);

  useEffect(() => mount(box.current, state.current, now, control), []);
  useEffect(() => feed(state.current, nodes, edges, now), [shapeOf(nodes, edges)]);
  useEffect(() => redraw(state.current.graph), [selected]);
  useEffect(() => repaint(state.current), [shown.value]);

  return html`<div class="force" ref=${box} role="img" aria-label=${label} data-nodes=${nodes.length} data-edges=${edges.length}></div>`;
}

/** A key for the set of nodes and edges. The layout moves only if it changes, not with every response. */
function shapeOf(nodes, edges) {
  return JSON.stringify([nodes.map((node) => node.id), edges.map((edge) => [edge.source, edge.relation, edge.target])]);
}

function byWeight(known, current) {
  const weight = (node) => (current.selected === node.id ? 1e6 : 0) + (node.degree || 0);
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
 * Resizes the canvas with its box, and keeps the view if the person has moved the picture. Setting the same size
 * again would reset the library's view, so only changes are set.
 */
function fill(state) {
  const { graph, host } = state;
  if (!graph || !host.isConnected) return; // the page may be gone a moment before this is undone
  if (graph.width() === host.clientWidth && graph.height() === host.clientHeight) return;
  if (graph.width() !== host.clientWidth) graph.width(host.clientWidth);
  if (graph.height() !== host.clientHeight) graph.height(host.clientHeight);
  if (state.fitted && !state.moved) fit(state, 0);
}

/** Records that the picture was dragged or zoomed. */
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

/** Zooms so that everything is visible, but not so far that the nodes of a small graph become huge. */
function fit({ graph, host, known }, time) {
  if (!graph || !known.size) return;
  const { x, y } = graph.getGraphBbox();
  const nearest = Math.min((host.clientWidth - 2 * MARGIN) / (x[1] - x[0]), (host.clientHeight - 2 * MARGIN) / (y[1] - y[0]));
  if (nearest <= NEAREST) return void graph.zoomToFit(time, MARGIN);
  graph.centerAt((x[0] + x[1]) / 2, (y[0] + y[1]) / 2, time);
  graph.zoom(NEAREST, time);
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
      fit(state, time());
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
  moves(state, true);
  const ticks = Math.round(Math.min(240, 40000 / Math.max(1, next.size)));
  if (still()) draw(state, links, { warm: ticks, ticks: 0, first });
  else draw(state, links, { warm: first ? Math.round(ticks / 5) : 0, ticks, first });
}

/** Passes the graph to the library, with `warm` ticks before it is drawn and `ticks` while it moves. */
function draw(state, links, { warm, ticks, first }) {
  const calm = ticks === 0;
  let began = !first;
  state.graph
    .warmupTicks(warm)
    .cooldownTicks(ticks)
    .onEngineTick(() => {
      // Nodes have positions only from now on. Before that, there is nothing to fit.
      if (!began) fit(state, 0);
      began = true;
    })
    .onEngineStop(() => {
      if (!state.fitted) fit(state, calm ? 0 : 240);
      state.fitted = true;
      moves(state, false);
      redraw(state.graph);
    })
    .graphData({ nodes: [...state.known.values()], links });
}
