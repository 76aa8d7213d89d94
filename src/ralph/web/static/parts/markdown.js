// The only module that inserts HTML into the page. The HTML comes from the API, where web/markdown.py renders it
// without raw HTML. The content security policy blocks scripts in any case.
import { html } from "../lib.js";

/** Safe HTML from the server, as a block of text. */
export function Html({ html: made, class: name = "" }) {
  if (!made) return null;
  return html`<div class="prose ${name}" dangerouslySetInnerHTML=${{ __html: made }}></div>`;
}

/** A pattern to highlight a word. Latin words match where a word begins, short ones only as a whole or with an s. */
function pattern(word) {
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (!/^[\p{Script=Latin}\d]+$/u.test(word)) return escaped;
  return `(?<![\\p{L}\\d])${escaped}${word.length < 4 ? "s?(?![\\p{L}\\d])" : ""}`;
}

/** Text with highlighted words, as elements and never as HTML. */
export function Marked({ text, words }) {
  const wanted = words.filter((word) => word.length > 1);
  if (!wanted.length) return text;
  const pieces = text.split(new RegExp(`(${wanted.map(pattern).join("|")})`, "giu"));
  return pieces.map((piece, at) => (at % 2 ? html`<mark>${piece}</mark>` : piece));
}
