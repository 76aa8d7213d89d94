// The time slider, which shows the graph as of the end of a day. One step is a day, and the right end is now.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { useDebounced } from "./hooks.js";

const DAY = 86400000;

function dayOf(iso) {
  return Math.floor(Date.parse(`${String(iso).slice(0, 10)}T00:00:00Z`) / DAY);
}

function isoOf(day) {
  return new Date(day * DAY).toISOString().slice(0, 10);
}

function words(day) {
  return new Date(day * DAY).toLocaleDateString("en-GB",
    { weekday: "short", day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
}

/** @param {{from: string, until: string, value: string, onChange: (day: string) => void}} props */
export function TimeSlider({ from, until, value, onChange }) {
  const own = useId();
  const first = dayOf(from);
  const last = dayOf(until);
  const known = Number.isFinite(first) && Number.isFinite(last) && last > first;
  const [at, setAt] = useState(value ? dayOf(value) : last);
  const calm = useDebounced(at, 160);
  const sent = useRef(value);
  useEffect(() => {
    if (!value) setAt(last);
  }, [last]);
  // Ignore values that the slider itself has sent. They arrive late, when it may have moved on already.
  useEffect(() => {
    if (value !== sent.current) setAt(value ? dayOf(value) : last);
    sent.current = value;
  }, [value]);
  useEffect(() => {
    if (!known || calm !== at) return;
    sent.current = calm >= last ? "" : isoOf(calm);
    onChange(sent.current);
  }, [calm]);
  const label = !known ? "now" : at >= last ? "now" : words(at);
  return html`<div class="field slider">
    <label for=${own}>As of</label>
    <div class="slider-line">
      <input id=${own} type="range" name="as_of" min=${known ? first : 0} max=${known ? last : 1} step="1"
        value=${known ? at : 1} disabled=${!known}
        aria-valuetext=${label} onInput=${(event) => setAt(Number(event.currentTarget.value))} />
      <output for=${own} class="num slider-day">${label}</output>
    </div>
  </div>`;
}
