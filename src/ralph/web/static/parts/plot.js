// A plot over days, drawn by uPlot on a canvas. The library is loaded with the first plot. A table has the same
// numbers.
import { html, useEffect, useRef, useState } from "../lib.js";
import { colour, shown } from "./theme.js";
import { number } from "./format.js";

let library = null;

/** Loads the library and its style sheet once. */
function load() {
  library ??= Promise.all([import("../vendor/uplot.js"), rules()]).then(([module]) => module.default);
  return library;
}

function rules() {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = "/static/vendor/uplot.css";
  return new Promise((done) => {
    link.onload = link.onerror = done;
    document.head.append(link);
  });
}

const DAY = 86400;

function seconds(day) {
  return Date.parse(`${day.slice(0, 10)}T00:00:00Z`) / 1000;
}

function dayWord(stamp) {
  return new Date(stamp * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

function axes(say, width) {
  const axis = {
    stroke: colour("--plot-text"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--plot-grid"), width: 1 },
    ticks: { show: false },
  };
  return [
    { ...axis, grid: { show: false }, size: 28, space: Math.max(56, width / 8),
      incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * DAY), values: (_, stamps) => stamps.map(dayWord) },
    { ...axis, size: 52, space: 28, values: (_, values) => values.map((value) => say(value)) },
  ];
}

function drawn(Plotter, series) {
  return series.map((one) => {
    const tint = colour(one.colour);
    const bars = one.bars ? { paths: Plotter.paths.bars({ size: [0.7, 28], align: 0 }), fill: colour("--plot-fill") } : {};
    return {
      label: one.label,
      stroke: tint,
      width: one.bars ? 1 : 2,
      dash: one.dash,
      spanGaps: true,
      points: { show: !one.bars, size: 6, fill: tint, stroke: tint },
      ...bars,
    };
  });
}

function options(Plotter, host, { stamps, series, say, height, top }) {
  const width = host.clientWidth;
  // The range is computed from the data, because uPlot uses a thousand days for a single point.
  const range = [stamps[0] - DAY / 2, stamps[stamps.length - 1] + DAY / 2];
  return {
    width,
    height,
    tzDate: (stamp) => Plotter.tzDate(new Date(stamp * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
    padding: [12, 12, 0, 0],
    scales: {
      x: { time: true, range: () => range },
      y: { range: (_, low, high) => [0, top ?? Math.max(1, (high ?? 1) * 1.1)] },
    },
    hooks: { setScale: [({ scales: { x } }, key) => key === "x" && (host.dataset.days = Math.round((x.max - x.min) / DAY))] },
    series: [{}, ...drawn(Plotter, series)],
    axes: axes(say, width),
  };
}

function Legend({ series, days, at, say }) {
  return html`<p class="plot-legend">
    ${series.map(
      (one) => html`<span key=${one.label} class="plot-key">
        <span class="plot-mark ${one.bars ? "is-bars" : one.dash ? "is-dashed" : ""}" aria-hidden="true"></span>
        ${one.label}${at !== null && html`<b class="num">${say(one.values[at])}</b>`}
      </span>`,
    )}
    <span class="plot-day">${at !== null ? dayWord(seconds(days[at])) : ""}</span>
  </p>`;
}

/** The plot's numbers as a table, newest first, for screen readers and for exact values. */
function Numbers({ title, days, series, say }) {
  const rows = days.map((day, at) => at).reverse();
  return html`<details class="plot-table">
    <summary>The numbers as a table</summary>
    <div class="scroller" tabindex="0" role="region" aria-label=${`${title}, as a table`}>
      <table>
        <thead>
          <tr><th scope="col">Day</th>${series.map((one) => html`<th key=${one.label} scope="col" class="num">${one.label}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map(
            (at) => html`<tr key=${days[at]}>
              <th scope="row">${days[at].slice(0, 10)}</th>
              ${series.map((one) => html`<td key=${one.label} class="num">${say(one.values[at])}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

/**
 * A plot with its legend and its table.
 * @param {{title: string, days: string[], series: {label: string, values: (number|null)[], colour: string,
 *   bars?: boolean, dash?: number[]}[], say?: (n: number|null) => string, height?: number, top?: number}} props
 */
export function Plot({ title, days, series, say = formatCount, height = 168, top }) {
  const box = useRef(null);
  const [at, setAt] = useState(null);
  useEffect(() => {
    const host = box.current;
    let plot = null;
    let gone = false;
    const make = (Plotter) => {
      const stamps = days.map(seconds);
      plot = new Plotter(options(Plotter, host, { stamps, series, say, height, top }),
        [stamps, ...series.map((one) => one.values)], host);
      plot.over.addEventListener("mouseleave", () => setAt(null));
      plot.over.addEventListener("mousemove", () => setAt(plot.cursor.idx ?? null));
    };
    // The page may be gone before this effect is cleaned up.
    const sizes = new ResizeObserver(() => {
      if (host.isConnected && plot.width !== host.clientWidth) plot.setSize({ width: host.clientWidth, height });
    });
    load().then((Plotter) => {
      if (gone || !host.isConnected) return;
      make(Plotter);
      sizes.observe(host);
    });
    return () => {
      gone = true;
      sizes.disconnect();
      plot?.destroy();
    };
  }, [JSON.stringify([days, series.map((one) => one.values)]), shown.value]);
  return html`<figure class="plot">
    <${Legend} series=${series} days=${days} at=${at} say=${say} />
    <div class="plot-canvas" ref=${box} role="img" aria-label=${sentence(title, days, series, say)}></div>
    <${Numbers} title=${title} days=${days} series=${series} say=${say} />
  </figure>`;
}

function sentence(title, days, series, say) {
  const last = days.length - 1;
  if (last < 0) return title;
  const now = series.map((one) => `${one.label} ${say(one.values[last])}`).join(", ");
  if (last === 0) return `${title} on ${days[0].slice(0, 10)}: ${now}.`;
  return `${title}, ${days.length} days from ${days[0].slice(0, 10)} to ${days[last].slice(0, 10)}; on the last day ${now}.`;
}

function formatCount(value) {
  return value === null || value === undefined ? "none" : number(value);
}
