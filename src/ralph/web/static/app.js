// Entry point: renders the shell and the page for the address. Pages are loaded when they are first visited. If a
// page fails to load or render, it shows an error, and everything else keeps working.
import { html, render, useEffect, useErrorBoundary, useState } from "./lib.js";
import { Empty, Failure, Loading } from "./parts/placeholders.js";
import { startKeys } from "./parts/shortcuts.js";
import { focusTarget, route, startRouter } from "./parts/router.js";
import { PageHead, Shell } from "./parts/shell.js";

const loaded = new Map();

async function load(name, again) {
  if (!loaded.has(name)) {
    // Browsers remember that a module has failed, so it is requested again under another address.
    loaded.set(name, (await import(`./pages/${name}.js${again ? `?${again}` : ""}`)).Page);
  }
  return loaded.get(name);
}

function Current() {
  const { page, params, query, path } = route.value;
  const [state, setState] = useState({ page: "", Page: null, error: null });
  const [turn, setTurn] = useState(0);
  const [broken, mend] = useErrorBoundary((error) => console.error(error));

  useEffect(() => {
    if (!page) return undefined;
    let wanted = true;
    mend?.();
    load(page, turn).then(
      (Page) => wanted && setState({ page, Page, error: null }),
      (error) => wanted && (console.error(error), setState({ page, Page: null, error })),
    );
    return () => (wanted = false);
  }, [page, turn]);

  useEffect(() => {
    if (page && state.page !== page) return; // the page is not drawn yet
    if (Current.path !== undefined && Current.path !== path) {
      // Focus the main part. Its heading is rendered again when the response arrives, and would lose the focus.
      const field = focusTarget.search ? document.querySelector("[data-search]") : null;
      focusTarget.search = false;
      (field ?? document.getElementById("main")).focus({ preventScroll: true });
    }
    Current.path = path;
  }, [path, state.page]);

  if (!page) {
    return html`<${PageHead} title="Page not found" />
      <${Empty} title="There is no page at this address" text=${path}
        action=${html`<a class="button" href="/" data-link>Go to the dashboard</a>`} />`;
  }
  if (broken) {
    const error = { message: "This page could not be displayed.", hint: `${broken.message}. Please report this.` };
    const again = () => (mend(), setTurn(turn + 1));
    return html`<${PageHead} title="Something went wrong" /><${Failure} error=${error} retry=${again} />`;
  }
  if (state.page === page && state.error) {
    const hint = "The server may have been stopped or replaced by another version. Start it with `ralph web`";
    const error = { message: `This page's file (pages/${page}.js) could not be loaded.`, hint };
    return html`<${PageHead} title="This page did not load" />
      <${Failure} error=${error} retry=${() => setTurn(turn + 1)} />`;
  }
  if (state.page !== page) return html`<${Loading} lines=${5} what="the page" />`;
  return html`<${state.Page} key=${path} params=${params} query=${query} />`;
}

startRouter();
startKeys();
render(html`<${Shell}><${Current} /><//>`, document.getElementById("app"));
