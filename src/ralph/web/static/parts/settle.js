/**
 * The finished layout of a graph, for whoever wants no motion: computed before anything is drawn, in slices.
 *
 * The library lays out in one task, which stops the page for as long as it takes. Here the same forces (springs along
 * the edges, every node pushing the others away, a pull to the middle) act for a few milliseconds at a time, and between
 * two slices the page goes on. Nodes that have a place begin there, so that what stays hardly moves.
 */
const SLICE = 8;
const REST = 0.02;
const DRAG = 0.6;
const PUSH = -90;
const FAR = 320 * 320;
const SPRING = 44;
const TURN = Math.PI * (3 - Math.sqrt(5));

/** Gives every node a place to begin at: on a spiral, as seeds stand in a sunflower. */
function begin(nodes) {
  nodes.forEach((node, at) => {
    if (!Number.isFinite(node.x) || !Number.isFinite(node.y)) {
      const [away, angle] = [10 * Math.sqrt(0.5 + at), at * TURN];
      [node.x, node.y] = [away * Math.cos(angle), away * Math.sin(angle)];
    }
    [node.vx, node.vy] = [0, 0];
  });
}

/** The edges with their ends; the end with fewer edges moves more. */
function springs(nodes, edges) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const ends = edges.map((edge) => [known.get(edge.source), known.get(edge.target)]).filter(([a, b]) => a && b && a !== b);
  const degree = new Map();
  for (const pair of ends) for (const node of pair) degree.set(node, (degree.get(node) ?? 0) + 1);
  return ends.map(([a, b]) => {
    const [one, other] = [degree.get(a), degree.get(b)];
    return { a, b, strength: 1 / Math.min(one, other), share: one / (one + other) };
  });
}

function stretch(springsThere, alpha) {
  for (const { a, b, strength, share } of springsThere) {
    const x = b.x + b.vx - a.x - a.vx || 1e-6;
    const y = b.y + b.vy - a.y - a.vy || 1e-6;
    const length = Math.sqrt(x * x + y * y);
    const pull = ((length - SPRING) / length) * alpha * strength;
    b.vx -= x * pull * share;
    b.vy -= y * pull * share;
    a.vx += x * pull * (1 - share);
    a.vy += y * pull * (1 - share);
  }
}

function push(nodes, alpha) {
  for (let i = 0; i < nodes.length; i++) {
    const a = nodes[i];
    for (let j = i + 1; j < nodes.length; j++) {
      const b = nodes[j];
      const x = b.x - a.x || 1e-6;
      const y = b.y - a.y || 1e-6;
      const away = x * x + y * y;
      if (away >= FAR) continue;
      const force = (PUSH * alpha) / (away < 1 ? Math.sqrt(away) : away);
      a.vx += x * force;
      a.vy += y * force;
      b.vx -= x * force;
      b.vy -= y * force;
    }
  }
}

function move(nodes) {
  let [left, top] = [0, 0];
  for (const node of nodes) {
    node.vx *= DRAG;
    node.vy *= DRAG;
    left += node.x += node.vx;
    top += node.y += node.vy;
  }
  for (const node of nodes) {
    node.x -= left / nodes.length;
    node.y -= top / nodes.length;
  }
}

/**
 * Lays nodes out, in place.
 * @param {object[]} nodes @param {{source: string, target: string}[]} edges by id
 * @param {{ticks: number, gravity: (alpha: number) => void, wanted: () => boolean}} how `wanted` says false when nobody
 *   waits for it any more
 * @returns {Promise<boolean>} whether it was finished
 */
export async function settle(nodes, edges, { ticks, gravity, wanted }) {
  begin(nodes);
  const there = springs(nodes, edges);
  const decay = REST ** (1 / Math.max(1, ticks));
  let alpha = 1;
  let began = performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    if (performance.now() - began > SLICE) {
      await new Promise((go) => setTimeout(go));
      if (!wanted()) return false;
      began = performance.now();
    }
    alpha *= decay;
    stretch(there, alpha);
    push(nodes, alpha);
    gravity(alpha);
    move(nodes);
  }
  return wanted();
}
