// A modal dialog, based on the browser's <dialog>. It traps the focus, Esc closes it, and the focus returns afterwards.
import { html, useEffect, useId, useRef } from "../lib.js";
import { Icon } from "./icons.js";

/** Keeps the focus in its field when a button is pressed. Losing it could move the button away from the pointer. */
const keepFocus = (event) => event.preventDefault();

/**
 * @param {{title: any, onClose: () => (boolean|void), children: any, footer?: any, wide?: boolean, side?: boolean}} props
 *   `side` makes it a drawer.
 */
export function Dialog({ title, onClose, children, footer, wide = false, side = false }) {
  const box = useRef(null);
  const id = useId();
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    const first = box.current.querySelector("[data-first]");
    first?.focus();
    return () => {
      if (before?.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return html`<dialog
    ref=${box}
    class="dialog ${wide ? "dialog-wide" : ""} ${side ? "dialog-side" : ""}"
    aria-labelledby=${id}
    onCancel=${(event) => {
      event.preventDefault();
      close.current();
    }}
    onClick=${(event) => {
      // A click outside closes the dialog, unless it only ends there, as when text is selected.
      if (event.target === box.current && event.detail === 1 && !window.getSelection().toString()) close.current();
    }}
  >
    <div class="dialog-inner">
      <header class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick=${() => close.current()}>
          <${Icon} name="close" />
        </button>
      </header>
      <div class="dialog-body">${children}</div>
      ${footer && html`<footer class="dialog-foot" onMouseDown=${keepFocus}>${footer}</footer>`}
    </div>
  </dialog>`;
}
