// The only place that puts HTML into the page: the `html` fields of the API, rendered by web/api.py without raw
// HTML. The content security policy blocks scripts in any case.
import { html } from "../lib.js";

/** Safe HTML of the server, as a block of text. */
export function Html({ html: made, class: name = "" }) {
  if (!made) return null;
  return html`<div class="prose ${name}" dangerouslySetInnerHTML=${{ __html: made }}></div>`;
}

/** Where a word is marked: a Latin one where a word begins, a short one only as the whole word (or with an s). */
function pattern(word) {
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (!/^[\p{Script=Latin}\d]+$/u.test(word)) return escaped;
  return `(?<![\\p{L}\\d])${escaped}${word.length < 4 ? "s?(?![\\p{L}\\d])" : ""}`;
}

/** A text in which each of the words is marked, as elements (never as HTML). */
export function Marked({ text, words }) {
  const wanted = words.filter((word) => word.length > 1);
  if (!wanted.length) return text;
  const pieces = text.split(new RegExp(`(${wanted.map(pattern).join("|")})`, "giu"));
  return pieces.map((piece, at) => (at % 2 ? html`<mark>${piece}</mark>` : piece));
}
