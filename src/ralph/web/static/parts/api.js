// Requests to the server, with JSON in both directions. Every failure is an error with a message and a hint.
import { useEffect, useRef, useState } from "../lib.js";
import { onEvent } from "./events.js";

/** A failed request. `status` is 0 if there was no response, and `override` is the field that overrides a refusal. */
export class RequestError extends Error {
  constructor(message, hint = "", status = 0, override = "") {
    super(message);
    this.name = "Failed";
    this.hint = hint;
    this.status = status;
    this.override = override;
  }
}

/** `{q: "a", type: ["x", "y"], tag: ""}` -> `q=a&type=x&type=y`. Empty values are left out. */
export function queryOf(params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") query.append(name, String(one));
    }
  }
  return query.toString();
}

/** Sends a GET request. `path` begins with /api. Throws RequestError, or AbortError if the request was aborted. */
export function get(path, params, { signal } = {}) {
  const query = queryOf(params);
  return ask(query ? `${path}?${query}` : path, { signal });
}

/** Sends JSON in a POST request. Returns and throws as `get` does. */
export function post(path, body, { signal } = {}) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The server does not respond.", "It may have been stopped. Start it again with `ralph web`");
  }
  let value;
  try {
    value = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(`The server's response is not JSON (status ${answer.status}).`, "", answer.status);
  }
  const { message = answer.statusText, hint, override } = value?.error ?? {};
  if (!answer.ok) throw new RequestError(message, hint, answer.status, override);
  return value;
}

/** Whether an error only means that the request was aborted. */
export const isAbort = (error) => error?.name === "AbortError";

/**
 * Hook: the response for a path. It is requested again when path or params change, or when a live event reports a
 * change to something in `on` ("records", "tasks", "sessions", "runs", "insights"). The old value stays until the new
 * one has arrived, so nothing jumps, unless the path has changed. A `null` path requests nothing.
 * @returns {{value: any, error: RequestError|null, loading: boolean, reload: () => void}}
 */
export function useGet(path, params = {}, { on = [] } = {}) {
  const [state, setState] = useState({ path, value: undefined, error: null, loading: Boolean(path) });
  const [turn, setTurn] = useState(0);
  const query = queryOf(params);
  // One request at a time. A reload during a request is sent after it.
  const flight = useRef({ busy: false, again: false }).current;
  const reload = useRef(() => {
    if (flight.busy) flight.again = true;
    else setTurn((before) => before + 1);
  }).current;

  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    [flight.busy, flight.again] = [true, false];
    setState((before) => (before.path === path ? { ...before, loading: true } : { path, error: null, loading: true }));
    const settle = (change) => {
      if (stop.signal.aborted) return;
      flight.busy = false;
      setState(change);
      if (flight.again) reload();
    };
    get(query ? `${path}?${query}` : path, {}, { signal: stop.signal }).then(
      (value) => settle({ path, value, error: null, loading: false }),
      (error) => isAbort(error) || settle((before) => ({ path, value: before.value, error, loading: false })),
    );
    return () => stop.abort();
  }, [path, query, turn]);

  useEffect(
    () => onEvent("changed", ({ what }) => what.some((one) => on.includes(one)) && reload()),
    [on.join(" ")],
  );
  const mine = state.path === path ? state : { value: undefined, error: null, loading: Boolean(path) };
  return { value: mine.value, error: mine.error, loading: mine.loading, reload };
}
