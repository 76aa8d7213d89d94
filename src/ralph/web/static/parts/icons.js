// Icons, 16 by 16 pixels, in the colour of the text. Text or a label always has the same meaning.
import { html } from "../lib.js";

const PATHS = {
  dashboard: "M2.5 2.5h4.5v5h-4.5zM9 2.5h4.5v3H9zM9 8h4.5v5.5H9zM2.5 10h4.5v3.5h-4.5z",
  memory: "M3 3.5h10M3 8h10M3 12.5h6",
  review: "M8 1.8a4.2 4.2 0 0 1 2.4 7.6c-.5.4-.7.9-.7 1.4H6.3c0-.5-.2-1-.7-1.4A4.2 4.2 0 0 1 8 1.8zM6.5 13.8h3",
  sessions: "M2.5 3.5h11v7.5h-6l-3 2.5v-2.5h-2z",
  runs: "M13 8a5 5 0 1 1-1.5-3.6M13.2 2.2v2.6h-2.6",
  tasks: "M2.5 4l1.2 1.2L6 2.8M8 4h5.5M2.5 11l1.2 1.2L6 9.8M8 11h5.5",
  context: "M1.8 8S4 3.8 8 3.8 14.2 8 14.2 8 12 12.2 8 12.2 1.8 8 1.8 8zM8 6.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6z",
  graph: "M4 2.4a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2zM12 4.4a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2zM6 10.4a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2zM5.5 4.4l5 1.2M10.9 7.2l-3.7 3.6M4.4 5.6l1.2 4.8",
  connections: "M5.5 2v3M10.5 2v3M3.8 5h8.4v2.2a4.2 4.2 0 0 1-8.4 0zM8 11.4V14",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3l3.2 3.2",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  check: "M2.5 8.5l3.5 3.5 7.5-8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  alert: "M8 2l6.3 11.5H1.7zM8 6.5v3M8 11.5v.1",
  down: "M3.5 6l4.5 4.5L12.5 6",
  right: "M6 3.5L10.5 8 6 12.5",
  left: "M10 3.5L5.5 8l4.5 4.5",
  plus: "M8 3v10M3 8h10",
  edit: "M2.8 13.2l.6-2.8 7.4-7.4 2.2 2.2-7.4 7.4zM9.4 4.4l2.2 2.2",
  tag: "M2.5 2.5h5.2l5.8 5.8-5.2 5.2-5.8-5.8zM5.2 5.2h.01",
  archive: "M2 3h12v3H2zM3 6v7h10V6M6.5 8.5h3",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4",
  promote: "M8 13V3.5M4 7.2l4-4 4 4",
  undo: "M5.5 3L2.5 6l3 3M2.5 6h6.8a3.8 3.8 0 0 1 0 7.5H6",
  filter: "M2 3.5h12M4.5 8h7M6.5 12.5h3",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1.2v1.3M8 13.5v1.3M1.2 8h1.3M13.5 8h1.3M3.2 3.2l.9.9M11.9 11.9l.9.9M3.2 12.8l.9-.9M11.9 4.1l.9-.9",
  moon: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  help: "M6 6.2a2 2 0 1 1 2.9 1.8c-.6.3-.9.7-.9 1.3M8 11.5v.1M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8z",
  link: "M6.5 9.5l3-3M7 4.8l1.6-1.6a2.8 2.8 0 0 1 4 4L11 8.8M9 11.2l-1.6 1.6a2.8 2.8 0 0 1-4-4L5 7.2",
};

/** An icon by name. PATHS has the names. */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}
