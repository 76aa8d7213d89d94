// The libraries that the pages use. All other modules import them from here. Preact does not add "px" to numbers in
// `style`.
import htm from "./vendor/htm.js";
import { showInvisibleIn } from "./parts/invisible.js";
import { h, options } from "./vendor/preact.js";

export { Component, Fragment, createContext, createPortal, h, render } from "./vendor/preact.js";
export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/hooks.js";
export {
  batch,
  computed,
  effect,
  signal,
  untracked,
  useComputed,
  useSignal,
  useSignalEffect,
} from "./vendor/signals.js";

/** A tagged template that creates elements: html`<p class=${name}>...</p>`. */
export const html = htm.bind(h);

// Every text of a page shows its invisible characters. Values of fields are properties, and stay as they are.
const createdBefore = options.vnode;
options.vnode = (node) => {
  if (typeof node.type === "string" && node.props.children !== undefined) {
    node.props.children = showInvisibleIn(node.props.children);
  }
  createdBefore?.(node);
};
