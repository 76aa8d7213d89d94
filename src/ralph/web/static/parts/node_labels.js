// The labels of nodes on the canvas, largest nodes first. In a large graph, a label never covers another label or a
// node. While the layout moves, only a few are drawn. A selected or hovered node always has its label.

/** The size of a node, from the square root of its degree, so that hubs stand out without hiding the rest. */
export function radius(node) {
  return 3.5 + Math.min(9, Math.sqrt(node.degree || 1) * 1.4);
}

function short(title, most = 32) {
  const letters = [...title];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : title;
}

const MAX_LABELS = 60;
const MAX_LABELS_MOVING = 12;
const FEW_NODES = 24; // each of them has its name, even if it covers something

/** Draws the names over all nodes, largest nodes first. Of many nodes, only those with room for it get their name. */
export function drawLabels(nodes, canvas, scale, look) {
  const font = 11.5 / scale;
  canvas.font = `${font}px system-ui, sans-serif`;
  canvas.textAlign = "center";
  canvas.textBaseline = "top";
  const view = look.view();
  const taken = nodes.map((node) => boxOf(node));
  let left = look.moving() ? MAX_LABELS_MOVING : MAX_LABELS * Math.max(1, scale);
  for (const node of nodes) {
    if (left <= 0) break;
    const wanted = look.marked(node.id) || look.hovered() === node.id;
    if ((!wanted && look.dimmed(node.id)) || !overlaps(boxOf(node), view)) continue;
    const text = short((node.name || node.id).replaceAll("`", ""), wanted ? 40 : 28);
    const width = canvas.measureText(text).width + font * 0.6;
    const places = labelPositions(node, width, font * 1.35).map((box) => within(box, view));
    const free = places.find((place) => !taken.some((other) => overlaps(place, other)));
    if (!free && !wanted && nodes.length > FEW_NODES) continue;
    const box = free ?? leastCovered(places, taken);
    left -= 1;
    taken.unshift(box);
    drawLabel(text, box, canvas, look, font);
  }
}

/** Possible positions for a name: below its node, above it, or at its sides. */
function labelPositions(node, width, height) {
  const away = radius(node) * 1.25;
  const size = { width, height };
  return [
    { ...size, left: node.x - width / 2, top: node.y + away },
    { ...size, left: node.x - width / 2, top: node.y - away - height },
    { ...size, left: node.x + away, top: node.y - height / 2 },
    { ...size, left: node.x - away - width, top: node.y - height / 2 },
  ];
}

/** A box, moved just far enough to be completely visible. */
function within(box, view) {
  const left = Math.max(view.left, Math.min(box.left, view.left + view.width - box.width));
  const top = Math.max(view.top, Math.min(box.top, view.top + view.height - box.height));
  return { ...box, left, top };
}

/** The position that covers the least. Earlier entries in `taken` weigh more. */
function leastCovered(places, taken) {
  const hides = (box) => taken.reduce((sum, other, at) => sum + (overlaps(box, other) ? 1 + 20 / (1 + at) : 0), 0);
  return places.reduce((best, box) => (hides(box) < hides(best) ? box : best));
}

/** The bounding box of a node. */
function boxOf(node) {
  const size = radius(node);
  return { left: node.x - size, top: node.y - size, width: 2 * size, height: 2 * size };
}

function drawLabel(text, box, canvas, look, font) {
  canvas.globalAlpha = 0.82;
  canvas.fillStyle = look.colours[":plate"];
  canvas.fillRect(box.left, box.top, box.width, box.height);
  canvas.globalAlpha = 1;
  canvas.fillStyle = look.colours[":text"];
  canvas.fillText(text, box.left + box.width / 2, box.top + font * 0.14);
}

function overlaps(one, other) {
  return one.left < other.left + other.width && other.left < one.left + one.width
    && one.top < other.top + other.height && other.top < one.top + one.height;
}
