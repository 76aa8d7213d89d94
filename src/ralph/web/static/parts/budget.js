// The budget bar, which shows the share of each item that is given. Segments have the number of their item in the list
// below, so that they do not differ by colour alone.
import { html, useEffect, useRef } from "../lib.js";
import { hueOf, number } from "./format.js";

function sentence({ used, budget, items }) {
  const share = budget ? Math.round((used / budget) * 100) : 0;
  return `${number(used)} of ${number(budget)} tokens used, ${share} percent, by ${items.length} ${items.length === 1 ? "item" : "items"}.`;
}

const LENS = 0.25;

/**
 * The bar. If little of the budget is used, a second bar shows that part enlarged.
 * @param {{budget: number, cap?: number, used: number, items: {order: number, id: string, type: string,
 *   title: string, tokens: number}[], chosen: string|null, onChoose: (id: string) => void}} props
 */
export function Budget({ budget, cap, used, items, chosen, onChoose }) {
  const whole = Math.max(budget || 0, used, 1);
  const free = Math.max(0, whole - used);
  const enlarged = items.length > 1 && used / whole < LENS;
  const segments = (of) => items.map((item) =>
    html`<${Segment} key=${item.id + item.order} item=${item} whole=${of} chosen=${chosen === item.id} onChoose=${onChoose} />`);
  return html`<div class="budget">
    <div class="budget-bar ${enlarged ? "is-thin" : ""}" role="img" aria-label=${sentence({ used, budget, items })}>
      ${enlarged ? html`<${Part} class="budget-used" share=${used / whole} text="" />` : segments(whole)}
      ${free > 0 && html`<${Part} class="budget-free" share=${free / whole} text="" />`}
      ${cap > 0 && cap < whole && html`<${Mark} at=${cap / whole} />`}
    </div>
    <p class="budget-words">
      <span><b class="num">${number(used)}</b> of <b class="num">${number(budget)}</b> tokens</span>
      <span class="quiet">${free > 0
          ? `${number(free)} free` : "nothing free"}${cap > 0 && cap < whole ? `, at most ${number(cap)} can be used here` : ""}</span>
    </p>
    ${enlarged && html`<p class="budget-lens">Used budget, enlarged</p>
      <div class="budget-bar" role="img" aria-label="Used budget by item; the list below shows the same items.">
        ${segments(Math.max(used, 1))}</div>`}
  </div>`;
}

function Segment({ item, whole, chosen, onChoose }) {
  return html`<${Part}
    class="budget-part hue-${hueOf(item.type)} ${chosen ? "is-chosen" : ""}"
    share=${item.tokens / whole}
    text=${String(item.order)}
    title=${`${item.order}. ${item.title || item.id}: ${number(item.tokens)} tokens`}
    onClick=${() => onChoose(item.id)}
  />`;
}

/** A segment of the bar. Its width is set through the CSSOM, because the page's policy forbids style attributes. */
function Part({ class: name, share, text, title, onClick }) {
  const box = useRef(null);
  useEffect(() => box.current.style.setProperty("flex-grow", String(share * 1000)), [share]);
  return html`<span ref=${box} class=${name} title=${title} onClick=${onClick}>${share > 0.016 ? text : ""}</span>`;
}

function Mark({ at }) {
  const box = useRef(null);
  useEffect(() => box.current.style.setProperty("left", `${at * 100}%`), [at]);
  return html`<span ref=${box} class="budget-mark"></span>`;
}
