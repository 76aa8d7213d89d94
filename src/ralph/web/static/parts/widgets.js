// Small components that pages share: sections, states, facts, tabs, choices and switches. States never differ by colour
// alone. Each has a word and an icon.
import { html, useId, useRef } from "../lib.js";

const STATE_ICONS = {
  done: "✓", success: "✓", passed: "✓", accepted: "✓", used: "✓",
  failed: "✕", gone: "✕", crashed: "✕", rejected: "✕",
  unchecked: "○", blocked: "◼", retried: "↻", interrupted: "⏸", stopped: "◼",
  running: "▶", in_progress: "▶", pending: "○", ready: "●", open: "▶", ended: "✓", archived: "–", proposed: "○",
};

/** A state in words: `in_progress` becomes "in progress". */
export function stateLabel(state) {
  return String(state ?? "").replaceAll("_", " ") || "unknown";
}

/** A state with its icon. */
export function State({ state }) {
  return html`<span class="state state-${state || "unknown"}">
    ${STATE_ICONS[state] && html`<span class="state-sign" aria-hidden="true">${STATE_ICONS[state]}</span>`}${stateLabel(state)}</span>`;
}

/** The mode of a chat. In "plan" mode the agent cannot write files. */
export function Mode({ mode }) {
  if (!mode) return null;
  const title = mode === "plan" ? "Plan mode: the agent could read but not write" : "Agent mode: the agent could write";
  return html`<span class="mode mode-${mode}" title=${title}>${mode} mode</span>`;
}

/** A section of a page with a heading. */
export function Section({ title, aside, id, class: name = "", children }) {
  const own = useId();
  return html`<section class="section ${name}" aria-labelledby=${id ?? own}>
    <header class="section-head"><h2 id=${id ?? own}>${title}</h2>${aside && html`<div class="section-aside">${aside}</div>`}</header>
    ${children}
  </section>`;
}

/** Names and values. Pairs without a value are left out. */
export function Facts({ of }) {
  const known = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return html`<dl class="points">
    ${known.map(([name, value]) => html`<div key=${name} class="point"><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/**
 * Tabs. `chosen` is one of the keys, and only its panel is rendered.
 * @param {{tabs: {key: string, label: string, count?: number}[], chosen: string, onChoose: (key: string) => void,
 *   label: string, aside?: any, children: any}} props
 */
export function Tabs({ tabs, chosen, onChoose, label, aside, children }) {
  const own = useId();
  const list = useRef(null);
  const at = Math.max(0, tabs.findIndex((tab) => tab.key === chosen));
  const move = (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    onChoose(tabs[next].key);
    list.current.children[next].focus();
  };
  return html`<div class="panes">
    <div class="pane-tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
      ${tabs.map(
        (tab, index) => html`<button key=${tab.key} type="button" role="tab" class="pane-tab" id=${`${own}-${tab.key}`}
          aria-selected=${index === at ? "true" : "false"} aria-controls=${`${own}-panel`} tabindex=${index === at ? 0 : -1}
          onClick=${() => onChoose(tab.key)}>
          ${tab.label}${tab.count !== undefined && html`<span class="pane-count num">${tab.count}</span>`}
        </button>`,
      )}
    </div>
    ${aside && html`<p class="pane-aside">${aside}</p>`}
    <div class="pane" role="tabpanel" id=${`${own}-panel`} aria-labelledby=${`${own}-${tabs[at]?.key}`} tabindex="0">${children}</div>
  </div>`;
}

/** Long text as it is. It scrolls, so the keyboard must reach it, and it needs a name. */
export function Code({ text, label, look = "" }) {
  return html`<pre class="code ${look}" tabindex="0" role="group" aria-label=${label}>${text}</pre>`;
}

/** A drop-down list with a label. */
export function Choice({ label, value, options, onChange, name }) {
  const own = useId();
  return html`<div class="field">
    <label for=${own}>${label}</label>
    <select id=${own} name=${name} value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, word]) => html`<option key=${key} value=${key} selected=${key === value}>${word}</option>`)}
    </select>
  </div>`;
}

/** A text field with a label. */
export function TextInput({ label, value, onInput, type = "text", placeholder, list, search = false }) {
  const own = useId();
  return html`<div class="field">
    <label for=${own}>${label}</label>
    <input id=${own} type=${type} value=${value} placeholder=${placeholder} list=${list} autocomplete="off" spellcheck="false"
      data-search=${search || undefined} onInput=${(event) => onInput(event.currentTarget.value)} />
  </div>`;
}

/** Independent switches with counts, for filters by state or type. */
export function Switches({ label, options, on, onToggle }) {
  return html`<div class="switches" role="group" aria-label=${label}>
    ${options.map(
      (option) => html`<button key=${option.key} type="button" class="switch ${option.class ?? ""}"
        aria-pressed=${on.has(option.key) ? "true" : "false"}
        onClick=${() => onToggle(option.key)}>${option.sign}${option.label}<span class="num">${option.count}</span></button>`,
    )}
  </div>`;
}

/** The seconds between two times, or since the first one if the second is missing. */
export function secondsBetween(from, until) {
  const start = Date.parse(from);
  return Number.isNaN(start) ? null : Math.max(0, ((until ? Date.parse(until) : Date.now()) - start) / 1000);
}

/** A copy of a set with one member added or removed. */
export function toggled(set, member) {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}
