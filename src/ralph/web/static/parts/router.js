// Addresses: a table from path to page, the current route as a signal, and links without reload. The query is part of
// the route, so that a view can be reloaded and shared.
import { signal } from "../lib.js";

/** Path patterns, in order; `:id` takes one piece. */
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
  ["/hooks", "hooks"],
  ["/tasks", "tasks"],
  ["/tasks/:id", "task"],
  ["/context", "context"],
  ["/graph", "graph"],
];

/** The page's name and its parameters for a path, or null. */
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

/** Where the person is: `{path, page, params, query}`. */
export const route = signal(here());

/** Where the focus goes on the next page: to its search field, or to its main part. */
export const focusTarget = { search: false };

/** Goes to a path of the site, with its query. */
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

/** Sets some of the query's values (null or "" takes one away, a list gives several), without a new history entry. */
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

/** To where the page was scrolled when it was left: its rows may come late, so again whenever it has grown, until
 * the person does something or leaves. */
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

/** Starts listening; called once by app.js. */
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
