// One EventSource for the whole site. `connected` is shown in the header.
import { signal } from "../lib.js";

/** "live", "waiting" (the connection is broken) or "off" (there are no listeners yet). */
export const connected = signal("off");

const NAMES = ["run", "changed"];
const listeners = new Map(NAMES.map((name) => [name, new Set()]));
let source = null;

/** Calls `fn(data)` for each event with this name ("run" or "changed"). Returns a function that unsubscribes. */
export function onEvent(name, fn) {
  listeners.get(name).add(fn);
  if (!source) open();
  return () => listeners.get(name).delete(fn);
}

/** Notifies listeners of a change made in this window, without waiting for the server to notice it. */
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
    // A refused connection is closed permanently, so it is reopened from here at long intervals.
    if (source.readyState === EventSource.CLOSED) setTimeout(open, 10000);
  };
  for (const name of NAMES) {
    source.addEventListener(name, (event) => announce(name, JSON.parse(event.data)));
  }
}
