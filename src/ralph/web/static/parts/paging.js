// A virtual list of rows from the server. Pages are requested when they are scrolled to, and old rows stay until new
// ones have arrived.
import { html, useEffect, useRef } from "../lib.js";
import { get } from "./api.js";
import { Failure, Loading } from "./placeholders.js";
import { rows, VirtualList } from "./virtual_list.js";
import { onEvent } from "./events.js";

/**
 * @param {string} path the path to request
 * @param {object} params the query; if it changes, the list starts again
 * @param {{on?: string[], pick?: (data: any) => {items: any[], total: number}, size?: number}} options
 * @returns the result of `rows` in virtual_list.js
 */
export function useRows(path, params, { on = [], pick = (data) => data, size = 100 } = {}) {
  const list = useRef(null);
  const ask = ({ offset, limit, signal }) =>
    get(path, { ...params, offset, limit }, { signal }).then((data) => ({ ...data, ...pick(data) }));
  list.current ??= rows(ask, { size });
  useEffect(() => {
    list.current.reset(ask);
  }, [JSON.stringify([path, params])]);
  useEffect(() => onEvent("changed", ({ what }) => what.some((noun) => on.includes(noun)) && list.current.refresh()), [on.join(" ")]);
  return list.current;
}

/**
 * The list, or a placeholder that explains why there is none.
 * @param {{list: any, empty: any, label: string, rowHeight: number, render: (row: any) => any, onOpen: (row: any) => void,
 *   detail?: (row: any) => any}} props
 */
export function Paged({ list, empty, label, rowHeight, render, onOpen, detail }) {
  // Reading the version renders the list again when a page has arrived.
  const version = list.version.value;
  const failed = list.error.value && html`<${Failure} error=${list.error.value} retry=${() => list.refresh()} />`;
  if (list.answer.value === null) return failed || html`<${Loading} lines=${6} what=${label} />`;
  if (list.count.value === 0) return html`${failed}${empty}`;
  return html`${failed}<${VirtualList} count=${list.count.value} rowHeight=${rowHeight} get=${list.get} render=${render}
      onOpen=${onOpen} label=${label} version=${version} detail=${detail} />`;
}
