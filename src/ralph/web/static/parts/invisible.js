// Makes invisible characters visible, as core/invisible.py does in the terminal.
const INVISIBLE =
  /[\u00ad\u034f\u061c\u115f\u1160\u3164\uffa0\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\ufe00-\ufe0f\ufeff\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
const EVERY = new RegExp(INVISIBLE, "gu");
const JOINERS = "\u200c\u200d\ufe0e\ufe0f"; // emoji and several scripts need them after a letter or symbol

/** "a\u202eb" -> "a<U+202E>b". */
export function showInvisible(text) {
  if (!INVISIBLE.test(text)) return text;
  return text.replace(EVERY, (character, at) => {
    const before = Array.from(text.slice(Math.max(0, at - 2), at)).pop() ?? "";
    if (JOINERS.includes(character) && before > "\x7f" && !INVISIBLE.test(before)) return character;
    return `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

/** The children of an element, with invisible characters made visible in every text. */
export function showInvisibleIn(children) {
  if (typeof children === "string") return showInvisible(children);
  return Array.isArray(children) ? children.map(showInvisibleIn) : children;
}
