// Long lists. Only the visible rows and a few around them are rendered.
//
// The list has the height of all its rows, and visible rows are positioned in it. An expanded row is measured, and
// the rows after it move. For assistive technology the list is a grid with `aria-rowcount` and
// `aria-activedescendant`.
import { html, signal, useEffect, useId, useLayoutEffect, useReducer, useRef } from "../lib.js";
import { isAbort } from "./api.js";
import { bind } from "./shortcuts.js";

const MOST = 150;
const AROUND = 6;
const mounted = new Set();
let current = null;

/**
 * Rows that are loaded from the server page by page.
 * @param {(ask: {offset: number, limit: number, signal: AbortSignal}) => Promise<{items: any[], total: number}>} load
 * @returns `count`, `error`, `loading`, `version` (signals), `answer` (signal: the newest first page), `get(i)`,
 *   `refresh()` (repeats the request without moving anything) and `reset(load)` (starts another request; the old rows
 *   stay until the new first page has arrived, and the newest request wins).
 */
export function rows(load, { size = 50 } = {}) {
  let pages = new Map();
  let waiting = new Map();
  let stop = new AbortController();
  let ask = load;
  let wanted = new Set([0]);
  let again = false;
  const count = signal(0);
  const error = signal(null);
  const loading = signal(false);
  const version = signal(0);
  const answer = signal(null);

  const fetchPage = (page, abort) => ask({ offset: page * size, limit: size, signal: abort.signal });

  async function more(page) {
    const mine = stop;
    waiting.set(page, true);
    try {
      const got = await fetchPage(page, mine);
      if (mine !== stop) return;
      pages.set(page, got.items);
      count.value = got.total;
      version.value++;
    } catch (failed) {
      if (mine === stop && !isAbort(failed)) error.value = failed;
    }
  }

  async function begin(list) {
    stop.abort();
    const mine = (stop = new AbortController());
    loading.value = true;
    again = false;
    try {
      const got = await Promise.all(list.map((page) => fetchPage(page, mine)));
      if (mine !== stop) return;
      pages = new Map(list.map((page, at) => [page, got[at].items]));
      waiting = new Map();
      count.value = got[0].total;
      answer.value = got[0];
      error.value = null;
    } catch (failed) {
      if (mine !== stop || isAbort(failed)) return;
      error.value = failed;
    }
    loading.value = false;
    version.value++;
    if (again) refresh();
  }

  // If the same request is under way, wait for it first. Two at a time would only be slower.
  function refresh() {
    if (loading.peek()) again = true;
    else begin([...wanted].filter((page) => page * size < Math.max(1, count.peek())).sort((a, b) => a - b));
  }

  return {
    count,
    error,
    loading,
    version,
    answer,
    get(i) {
      const page = Math.floor(i / size);
      const found = pages.get(page);
      if (!found && !waiting.has(page) && !loading.peek()) queueMicrotask(() => waiting.has(page) || more(page));
      if (wanted.size > 4) wanted = new Set([0]);
      wanted.add(page);
      return found?.[i % size];
    },
    refresh,
    reset(other) {
      if (other) ask = other;
      wanted = new Set([0]);
      return begin([0]);
    },
  };
}

/** The offset of each row, from the fixed row height and the extra height of expanded rows. */
function places(rowHeight, extras) {
  const opened = [...extras].sort((a, b) => a[0] - b[0]);
  const top = (i) => opened.reduce((sum, [at, extra]) => (at < i ? sum + extra : sum), i * rowHeight);
  const at = (y) => {
    let low = Math.max(0, Math.floor(y / rowHeight));
    while (low > 0 && top(low) > y) low--;
    return low;
  };
  return { top, at };
}

/**
 * A long list.
 * @param {{count: number, rowHeight: number, get: (i: number) => any, render: (row: any, i: number) => any,
 *   onOpen?: (row: any, i: number) => void, label: string, detail?: (row: any, i: number) => any,
 *   handle?: {current: any}, version?: any}} props
 *   `get` returns undefined for a row that has not been loaded. `detail` returns the content below an expanded row,
 *   or null. `handle.current` is set to `{focus(), active()}`. Enter or a click calls `onOpen`.
 */
export function VirtualList({ count, rowHeight, get, render, onOpen, label, detail, handle, class: name = "" }) {
  const box = useRef(null);
  const id = useId();
  const extras = useRef(new Map()).current;
  const state = useRef({ first: 0, last: 0, active: -1 }).current;
  const drawn = useRef({ render: null, rows: null }).current;
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  const place = places(rowHeight, extras);
  const latest = useRef({});
  latest.current = { count, get, onOpen, place, rowHeight };
  if (state.active >= count) state.active = count - 1;

  const look = useRef(() => {
    if (!box.current) return;
    const { count: all, place: where } = latest.current;
    const edge = box.current.getBoundingClientRect();
    const first = Math.max(0, where.at(Math.max(0, -edge.top)) - AROUND);
    const seen = where.at(Math.max(0, window.innerHeight - edge.top)) + AROUND;
    const last = Math.min(all - 1, seen, first + MOST);
    if (first !== state.first || last !== state.last) {
      [state.first, state.last] = [first, last];
      redraw();
    }
  }).current;

  const act = useRef({
    move(to) {
      const { count: all, place: where, rowHeight: high } = latest.current;
      if (!all || !box.current) return;
      state.active = Math.max(0, Math.min(all - 1, to));
      box.current.focus({ preventScroll: true });
      const top = box.current.getBoundingClientRect().top + where.top(state.active);
      const head = document.querySelector(".sticky-head")?.getBoundingClientRect().bottom ?? 0;
      const foot = window.innerHeight - (document.querySelector(".bottom-bar")?.offsetHeight ?? 0);
      if (top < head) window.scrollBy(0, top - head - 8);
      else if (top + high > foot) window.scrollBy(0, top + high - foot + 8);
      look();
      redraw();
    },
    open(i) {
      const row = latest.current.get(i);
      if (row !== undefined) latest.current.onOpen?.(row, i);
    },
  }).current;

  // Not after every render: this forces a layout, and a render caused by scrolling has just been measured.
  useLayoutEffect(look, [count, rowHeight, place.top(count)]);
  useEffect(() => {
    let asked = 0;
    const soon = () => {
      asked ||= requestAnimationFrame(() => {
        asked = 0;
        look();
      });
    };
    document.addEventListener("scroll", soon, { capture: true, passive: true });
    window.addEventListener("resize", soon);
    mounted.add(box);
    current ??= box;
    const mine = () => (current === box && box.current ? undefined : false);
    const unbind = bind({
      j: () => mine() ?? act.move(state.active + 1),
      k: () => mine() ?? act.move(state.active - 1),
      Enter: () => mine() ?? (state.active < 0 ? false : act.open(state.active)),
    });
    if (handle) handle.current = { focus: () => act.move(Math.max(0, state.active)), active: () => state.active };
    return () => {
      document.removeEventListener("scroll", soon, { capture: true });
      window.removeEventListener("resize", soon);
      unbind();
      mounted.delete(box);
      if (handle) handle.current = null;
      if (current === box) current = [...mounted][0] ?? null;
    };
  }, []);

  const onKeyDown = (event) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(window.innerHeight / rowHeight) - 2);
    const to = {
      ArrowDown: state.active + 1,
      ArrowUp: state.active - 1,
      Home: 0,
      End: count - 1,
      PageDown: state.active + page,
      PageUp: state.active - page,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    act.move(to);
  };

  // Tab must make the position visible, so the first row is activated if none is active.
  const onFocusIn = (event) => {
    current = box;
    if (event.target !== box.current || state.active >= 0 || !box.current.matches(":focus-visible")) return;
    state.active = state.first + Math.min(AROUND, state.first);
    redraw();
  };

  // Scrolling alone renders no row again, because Preact skips an element that is the same object as before.
  if (drawn.render !== render) [drawn.render, drawn.rows] = [render, new Map()];
  const draw = (row, i) => {
    const before = drawn.rows.get(i);
    if (before?.row === row) return before.element;
    if (drawn.rows.size > 4 * MOST) drawn.rows.clear();
    const element = render(row, i);
    drawn.rows.set(i, { row, element });
    return element;
  };
  const shown = [];
  for (let i = state.first; i <= Math.min(state.last, count - 1); i++) shown.push(i);
  // The active row keeps its place among the others. As the last one, it would send Tab from the end to the beginning.
  if (state.active > state.last) shown.push(state.active);
  else if (state.active >= 0 && state.active < state.first) shown.unshift(state.active);
  const total = place.top(count);

  return html`<div
    ref=${box}
    id=${id}
    class="rows ${name}"
    role="grid"
    tabindex="0"
    aria-label=${label}
    aria-rowcount=${count}
    aria-activedescendant=${state.active >= 0 ? `${id}-${state.active}` : undefined}
    style=${{ height: `${total}px` }}
    onKeyDown=${onKeyDown}
    onFocusIn=${onFocusIn}
  >
    ${shown.map((i) => {
      const row = get(i);
      return html`<${Row} key=${i} i=${i} id="${id}-${i}" active=${i === state.active} top=${place.top(i)} high=${rowHeight}
        extras=${extras} moved=${redraw} below=${row === undefined ? null : (detail?.(row, i) ?? null)}
        onClick=${(event) => {
          if (event.target.closest("a, button, input, summary, .row-detail") || window.getSelection().toString()) return;
          state.active = i;
          act.open(i);
          redraw();
        }}>
        ${row === undefined ? html`<div class="skeleton row-skeleton" aria-hidden="true"></div>` : draw(row, i)}
      <//>`;
    })}
  </div>`;
}

function Row({ i, id, active, top, high, extras, moved, below, onClick, children }) {
  const under = useRef(null);
  useLayoutEffect(() => {
    if (!below) {
      if (extras.delete(i)) moved();
      return undefined;
    }
    const measure = () => {
      const height = under.current?.offsetHeight ?? 0;
      if (extras.get(i) !== height) {
        extras.set(i, height);
        moved();
      }
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(under.current);
    return () => watch.disconnect();
  }, [Boolean(below), i]);
  return html`<div id=${id} class="row ${active ? "row-active" : ""}" role="row" aria-rowindex=${i + 1}
    aria-selected=${active ? "true" : "false"} style=${{ transform: `translateY(${top}px)` }} onClick=${onClick}>
    <div role="gridcell" class="row-cell" style=${{ height: `${high}px` }}>${children}</div>
    ${below && html`<div role="gridcell" class="row-detail" ref=${under}>${below}</div>`}
  </div>`;
}
