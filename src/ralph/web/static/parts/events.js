// One EventSource for the whole site. `connected` is shown in the header.
import { signal } from "../lib.js";

/** "live", "waiting" (the line is broken) or "off" (nobody listens yet). */
export const connected = signal("off");

const NAMES = ["run", "changed"];
const listeners = new Map(NAMES.map((name) => [name, new Set()]));
let source = null;

/** Calls `fn(data)` for each event of that name ("run" or "changed"); gives back a function that ends it. */
export function onEvent(name, fn) {
  listeners.get(name).add(fn);
  if (!source) open();
  return () => listeners.get(name).delete(fn);
}

/** Tells the listeners of what this window has just done itself, without waiting for the server to notice it. */
export function announce(name, data) {
  for (const fn of [...listeners.get(name)]) {
    try {
      fn(data);
    } catch (error) {
      console.error(error); // one listener that fails is no reason for the others not to hear
    }
  }
}

function open() {
  source = new EventSource("/api/events");
  source.onopen = () => (connected.value = "live");
  source.onerror = () => {
    connected.value = "waiting";
    // A refused answer closes it for good; then it is asked again, seldom.
    if (source.readyState === EventSource.CLOSED) setTimeout(open, 10000);
  };
  for (const name of NAMES) {
    source.addEventListener(name, (event) => announce(name, JSON.parse(event.data)));
  }
}
