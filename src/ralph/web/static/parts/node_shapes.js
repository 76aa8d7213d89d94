// The shape of each node type, so that types never differ by colour alone. A shape is a path in a box from -1 to 1,
// drawn as SVG in the legend and as Path2D on the canvas.
import { html } from "../lib.js";

/** The node types in the order of the legend: first memories, then what they mention. */
export const KINDS = ["pattern", "decision", "gotcha", "discovery", "task", "session", "file", "symbol", "tag"];

const PATHS = {
  pattern: "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",
  decision: "M0 -1.15L1.15 0L0 1.15L-1.15 0Z",
  gotcha: "M0 -1.1L1.1 0.85L-1.1 0.85Z",
  discovery: "M0 -1.2L0.33 -0.4L1.2 -0.3L0.55 0.3L0.75 1.1L0 0.7L-0.75 1.1L-0.55 0.3L-1.2 -0.3L-0.33 -0.4Z",
  task: "M-1.15 -0.7H1.15V0.7H-1.15Z",
  session: "M-0.45 -1H0.45A0.55 0.55 0 0 1 1 -0.45V0.45A0.55 0.55 0 0 1 0.45 1H-0.45A0.55 0.55 0 0 1 -1 0.45V-0.45A0.55 0.55 0 0 1 -0.45 -1Z",
  file: "M-0.8 -1H0.3L0.8 -0.5V1H-0.8Z",
  symbol: "M-0.55 -0.95H0.55L1.1 0L0.55 0.95H-0.55L-1.1 0Z",
  tag: "M-1 -0.6H0.35L1.1 0L0.35 0.6H-1Z",
};

const WORDS = { gotcha: "fix or gotcha", discovery: "context" };

/** The path for a node type. An unknown type is a circle. */
export function pathOf(kind) {
  return PATHS[kind] ?? PATHS.pattern;
}

/** The label of a node type. */
export function typeLabel(kind) {
  return WORDS[kind] ?? kind;
}

/** The custom property with the colour of a node type. */
export function colourOf(kind) {
  return `--node-${KINDS.includes(kind) ? kind : "other"}`;
}

/** The icon of a node type in running text. Screen readers skip it, because the label is next to it. */
export function Shape({ kind }) {
  const known = KINDS.includes(kind) ? kind : "other";
  return html`<svg class="shape shape-${known}" viewBox="-1.3 -1.3 2.6 2.6" aria-hidden="true">
    <path d=${pathOf(kind)} />
  </svg>`;
}
