// The frame of every page: navigation, messages, help, and a link that skips to the content.
import { html, signal, useEffect, useState } from "../lib.js";
import { get } from "./api.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { bind } from "./shortcuts.js";
import { connected, onEvent } from "./events.js";
import { go, route } from "./router.js";
import { shown, toggleTheme } from "./theme.js";
import { Toasts } from "./toast.js";

/** The response of /api/state, or null until it has arrived. */
export const project = signal(null);

const PLACES = [
  ["/", "Dashboard", "dashboard", "d"],
  ["/memory", "Memory", "memory", "m"],
  ["/review", "Review", "review", "v"],
  ["/sessions", "Sessions", "sessions", "s"],
  ["/context", "Context", "context", "c"],
  ["/graph", "Graph", "graph", "g"],
  ["/tasks", "Tasks", "tasks", "t"],
  ["/runs", "Runs", "runs", "r"],
  ["/connections", "Connections", "connections", "n"],
];
const NARROW = ["/", "/memory", "/review", "/sessions"];
const PARTS = { "/compare": "/runs", "/insights": "/review", "/hooks": "/connections" };

const KEYS = [
  ["/", "search"],
  ["j", "next row"],
  ["k", "previous row"],
  ["Enter", "open the row"],
  ["e", "show more of the row (Memory page)"],
  ["Esc", "clear the search, leave the field, close the dialog"],
  ...PLACES.map(([, name, , key]) => [`g ${key}`, name]),
  ["t", "light or dark"],
  ["?", "this help"],
];

function isHere(path) {
  const now = route.value.path;
  const root = PARTS[now] ?? now;
  return path === "/" ? root === "/" : root === path || root.startsWith(`${path}/`);
}

function Place({ place: [path, name, icon, key], onGo }) {
  return html`<a href=${path} data-link class="place" aria-current=${isHere(path) ? "page" : undefined}
    title=${key ? `g ${key}` : undefined} onClick=${onGo}><${Icon} name=${icon} /><span>${name}</span></a>`;
}

const DISCONNECTED = "This page may be out of date: the server does not respond. Start it again with ralph web";

function ConnectionStatus() {
  const words = { live: "Live", waiting: "Not connected", off: "Connecting" }[connected.value];
  const title = connected.value === "waiting" ? DISCONNECTED : "Changes in the files appear automatically";
  return html`<p class="line line-${connected.value}" role="status" title=${title}>
    <span class="line-dot" aria-hidden="true"></span>${words}
  </p>`;
}

function Help({ onClose }) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}>
    <dl class="keys">
      ${KEYS.map(
        ([key, what]) => html`<div key=${key}>
          <dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd>`)}</dt>
          <dd>${what}</dd>
        </div>`,
      )}
    </dl>
  <//>`;
}

function More({ onClose, onHelp }) {
  return html`<${Dialog} title="More" onClose=${onClose} side=${true}>
    <nav class="more" aria-label="More pages">
      ${PLACES.filter(([path]) => !NARROW.includes(path)).map(
        (place) => html`<${Place} key=${place[0]} place=${place} onGo=${onClose} />`,
      )}
    </nav>
    <div class="more">
      <button type="button" class="place" onClick=${toggleTheme}>
        <${Icon} name=${shown.value === "dark" ? "sun" : "moon"} /><span>${shown.value === "dark" ? "Light" : "Dark"}</span>
      </button>
      <button type="button" class="place" onClick=${onHelp}><${Icon} name="help" /><span>Keyboard</span></button>
    </div>
  <//>`;
}

/** Requests the project's state, and again whenever something changes. */
function useProject() {
  useEffect(() => {
    let newest = 0;
    const ask = () => {
      const mine = ++newest;
      get("/api/state").then((state) => mine === newest && (project.value = state), () => undefined);
    };
    ask();
    // Wait a moment, so that the page's own data is requested first.
    return onEvent("changed", () => setTimeout(ask, 400));
  }, []);
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

/** The whole window, with the page as its child. */
export function Shell({ children }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  useProject();
  useEffect(
    () =>
      bind({
        "?": () => setOpen("help"),
        t: toggleTheme,
        "/": () => {
          const field = document.querySelector("[data-search]");
          if (!field) go("/memory", { search: true });
          field?.focus();
          field?.select();
        },
        ...Object.fromEntries(PLACES.map(([path, , , key]) => [`g ${key}`, () => go(path)])),
      }),
    [],
  );
  const state = project.value;
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header class="rail">
      <a class="mark" href="/" data-link>
        <img src="/static/icon.svg" alt="" width="24" height="24" />
        <span class="mark-words"><span class="mark-name">Ralph</span>
        <span class="mark-project" title=${state?.project}>${state?.project || " "}</span></span>
      </a>
      <nav class="places" aria-label="Pages">${PLACES.map((place) => html`<${Place} key=${place[0]} place=${place} />`)}</nav>
      <div class="rail-foot">
        ${state?.paused && html`<p class="paused" title="Hooks record nothing and give agents nothing until you run ralph capture on">Paused</p>`}
        <${ConnectionStatus} />
        <div class="rail-tools">
          <button type="button" class="icon-button" onClick=${toggleTheme} title="t"
            aria-label=${shown.value === "dark" ? "Light colours" : "Dark colours"}>
            <${Icon} name=${shown.value === "dark" ? "sun" : "moon"} />
          </button>
          <button type="button" class="icon-button" onClick=${() => setOpen("help")} title="?" aria-label="Keyboard help">
            <${Icon} name="help" />
          </button>
        </div>
      </div>
    </header>
    <main id="main" class="main" tabindex="-1">${children}</main>
    <nav class="bottom-bar" aria-label="Main pages">
      ${PLACES.filter(([path]) => NARROW.includes(path)).map((place) => html`<${Place} key=${place[0]} place=${place} />`)}
      <button type="button" class="place" aria-haspopup="dialog" aria-current=${PLACES.some(([path]) => !NARROW.includes(path) && isHere(path)) ? "true" : undefined}
        onClick=${() => setOpen("more")}>
        <${Icon} name="more" /><span>More</span>
      </button>
    </nav>
    <${Toasts} />
    ${open === "help" && html`<${Help} onClose=${close} />`}
    ${open === "more" && html`<${More} onClose=${close} onHelp=${() => setOpen("help")} />`}
  </div>`;
}

/**
 * The header of a page, with its title, a line below it, and actions.
 * @param {{title: any, sub?: any, actions?: any, back?: [string, string], name?: string}} props `back` is
 *   [path, words]; `name` is what the window is called when the title is no text.
 */
export function PageHead({ title, sub, actions, back, name }) {
  const words = name ?? (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = words ? `${words} · Ralph` : "Ralph";
  }, [words]);
  return html`<div class="page-head">
    ${back && html`<a class="back" href=${back[0]} data-link><${Icon} name="left" />${back[1]}</a>`}
    <div class="page-title">
      <div class="page-words">
        <h1 tabindex="-1" class=${words.length > 70 ? "long" : ""}>${title}</h1>
        ${sub && html`<div class="page-sub">${sub}</div>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </div>
  </div>`;
}
