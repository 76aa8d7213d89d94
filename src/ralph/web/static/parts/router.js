// Routing: a table of paths and pages, the current route as a signal, and links that do not reload the page. The
// query is part of the route, so that a view can be reloaded and shared.
import { signal } from "../lib.js";

/** Path patterns, in the order in which they are tried. `:id` matches one segment. */
const TABLE = [
  ["/", "dashboard"],
  ["/memory", "memory"],
  ["/memory/:id", "record"],
  ["/review", "review"],
  ["/insights", "review"],
  ["/sessions", "sessions"],
  ["/sessions/:id", "session"],
  ["/runs", "runs"],
  ["/runs/:id", "run"],
  ["/compare", "compare"],
  ["/connections", "connections"],
  ["/hooks", "connections"],
  ["/tasks", "tasks"],
  ["/tasks/:id", "task"],
  ["/context", "context"],
  ["/graph", "graph"],
];

/** The page and the parameters for a path, or null. */
export function match(path) {
  const pieces = path.replace(/(.)\/+$/, "$1").split("/");
  for (const [pattern, page] of TABLE) {
    const wanted = pattern.split("/");
    if (wanted.length !== pieces.length) continue;
    const params = {};
    const fits = wanted.every((piece, at) => {
      if (!piece.startsWith(":")) return piece === pieces[at];
      try {
        params[piece.slice(1)] = decodeURIComponent(pieces[at]);
      } catch {
        return false;
      }
      return pieces[at] !== "";
    });
    if (fits) return { page, params };
  }
  return null;
}

function here() {
  const { pathname, search } = window.location;
  return { path: pathname, query: new URLSearchParams(search), ...(match(pathname) ?? { page: "", params: {} }) };
}

/** The current route: `{path, page, params, query}`. */
export const route = signal(here());

/** The element that gets the focus on the next page, its search field or its main part. */
export const focusTarget = { search: false };

/** Navigates to a path with its query. */
export function go(address, { replace = false, search = false } = {}) {
  focusTarget.search = search;
  const target = new URL(address, window.location.href);
  if (!replace) {
    cancelRestore();
    rememberScroll();
  }
  const samePage = target.pathname === window.location.pathname;
  window.history[replace ? "replaceState" : "pushState"]({}, "", target.pathname + target.search);
  route.value = here();
  if (!samePage) window.scrollTo(0, 0);
}

/** Sets query parameters without a new history entry. null or "" removes one, and a list sets several values. */
export function setQuery(changes, { push = false } = {}) {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const words = query.toString();
  go(window.location.pathname + (words ? `?${words}` : ""), { replace: !push });
}

function rememberScroll() {
  window.history.replaceState({ ...window.history.state, scroll: window.scrollY }, "");
}

const HANDS = ["wheel", "touchmove", "keydown", "pointerdown"];
const TIMEOUT = 10_000;
let cancelRestore = () => {};

/** Restores the scroll position that the page had when it was left. Rows may arrive late, so this is repeated whenever
 * the page grows, until the person scrolls, types or leaves. */
function restoreScroll() {
  cancelRestore();
  const wanted = window.history.state?.scroll;
  if (!wanted) return;
  const grown = new ResizeObserver(() => window.scrollTo(0, wanted));
  const tooLate = setTimeout(() => cancelRestore(), TIMEOUT);
  cancelRestore = () => {
    grown.disconnect();
    clearTimeout(tooLate);
    for (const hand of HANDS) window.removeEventListener(hand, cancelRestore, true);
    cancelRestore = () => {};
  };
  for (const hand of HANDS) window.addEventListener(hand, cancelRestore, true);
  grown.observe(document.body);
}

/** Starts listening. app.js calls this once. */
export function startRouter() {
  if (route.value.query.has("token")) setQuery({ token: null });
  window.history.scrollRestoration = "manual";
  window.addEventListener("popstate", () => {
    route.value = here();
    requestAnimationFrame(restoreScroll);
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[data-link]");
    if (!link || link.target) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
}
