// A unified diff with line numbers. Each line has a sign and a colour.
import { html } from "../lib.js";

/** One entry per line: `{sign, text, before, after}`. Hunk headers have the sign "@". */
export function linesOf(text) {
  const lines = [];
  let before = 0;
  let after = 0;
  let inside = false;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/.exec(line);
    if (hunk) {
      [before, after, inside] = [Number(hunk[1]), Number(hunk[2]), true];
      lines.push({ sign: "@", text: hunk[3].trim() });
    } else if (!inside) continue;
    else if (line.startsWith("+")) lines.push({ sign: "+", text: line.slice(1), after: after++ });
    else if (line.startsWith("-")) lines.push({ sign: "-", text: line.slice(1), before: before++ });
    else if (line.startsWith("\\")) lines.push({ sign: "@", text: line.slice(2) });
    else if (/^(diff |index |--- |\+\+\+ )/.test(line)) inside = false;
    else lines.push({ sign: " ", text: line.slice(1), before: before++, after: after++ });
  }
  return lines;
}

const CLASSES = { "+": "diff-plus", "-": "diff-minus", "@": "diff-gap", " ": "" };
const SPOKEN = { "+": "added: ", "-": "removed: " };

/** A unified diff with `name` above it. */
export function Diff({ text, name = "" }) {
  const lines = linesOf(text ?? "");
  const plus = lines.filter((line) => line.sign === "+").length;
  const minus = lines.filter((line) => line.sign === "-").length;
  return html`<figure class="diff">
    ${name &&
    html`<figcaption><span class="file">${name}</span>
      <span class="diff-sums num">
        <span class="diff-sum-plus">+${plus}</span>${" "}<span class="diff-sum-minus">−${minus}</span>
      </span>
    </figcaption>`}
    ${lines.length
      ? html`<div class="diff-lines" tabindex="0" role="group" aria-label="Changes${name && ` in ${name}`}">
          <div class="diff-inner">
            ${lines.map(
              (line, at) => html`<div class="diff-line ${CLASSES[line.sign]}" key=${at}>
                <span class="diff-number num" aria-hidden="true">${line.sign === "@" ? "⋯" : (line.after ?? line.before)}</span>
                <span class="diff-sign" aria-hidden="true">${line.sign === "@" ? "" : line.sign}</span>
                <span class="diff-text"><span class="visually-hidden">${SPOKEN[line.sign]}</span>${line.text}</span>
              </div>`,
            )}
          </div>
        </div>`
      : html`<p class="quiet">Nothing changes.</p>`}
  </figure>`;
}
