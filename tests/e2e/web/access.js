/**
 * What a page must be for everybody, looked at from within the page; the value is a list of what is wrong.
 *
 * Written for these pages and no others: it knows the elements and roles that they use, and calls anything else
 * unknown. Each rule is one function that gives sentences. Colours are read through a canvas, so that every syntax of
 * a colour is understood. `test_access.py` runs it on every page, light and dark, wide and narrow.
 */
() => {
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [role=tab], [role=option], [role=combobox], [tabindex]";
  const ROLES = new Set(("alert button combobox dialog grid gridcell group img list listbox listitem main navigation none note option " +
    "presentation progressbar radio radiogroup region row search separator status switch tab tablist tabpanel").split(" "));
  const WITHIN = { tab: "tablist", option: "listbox", row: "grid", gridcell: "row" };
  const VALUES = {
    "aria-expanded": ["true", "false"],
    "aria-pressed": ["true", "false", "mixed"],
    "aria-selected": ["true", "false"],
    "aria-hidden": ["true", "false"],
    "aria-disabled": ["true", "false"],
    "aria-busy": ["true", "false"],
    "aria-live": ["polite", "assertive", "off"],
    "aria-current": ["page", "true", "false", "step", "date", "time", "location"],
    "aria-haspopup": ["dialog", "listbox", "menu", "true", "false"],
    "aria-autocomplete": ["list", "none", "inline", "both"],
  };
  const POINTING = ["aria-labelledby", "aria-describedby", "aria-controls", "aria-activedescendant", "aria-owns"];
  const LEAST = 24;

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const words = (text) => (text ?? "").replace(/\s+/g, " ").trim();

  /** Where something is, in a few words. */
  function where(element) {
    const own = `${element.tagName.toLowerCase()}${element.classList.length ? `.${[...element.classList].join(".")}` : ""}`;
    return `${own} "${words(element.textContent || element.getAttribute("aria-label")).slice(0, 40)}"`;
  }

  const dialog = document.querySelector("dialog[open]");

  /** Whether it is drawn and, while a dialog is open, within that: the rest cannot be reached then. */
  function seen(element) {
    if (dialog && !dialog.contains(element)) return false;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: false })) return false;
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  }

  /** Whether it is there for readers alone. */
  function unseen(element) {
    return Boolean(element.closest(".visually-hidden")) || (element.matches(".skip") && document.activeElement !== element);
  }

  const hidden = (element) => Boolean(element.closest("[aria-hidden=true]"));

  // --- names -----------------------------------------------------------------------------------

  function textOf(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.getAttribute("aria-hidden") === "true" || node.hidden) return "";
    if (node.hasAttribute("aria-label")) return node.getAttribute("aria-label");
    if (node.tagName === "IMG") return node.alt;
    return [...node.childNodes].map(textOf).join(" ");
  }

  function nameOf(element) {
    const by = element.getAttribute("aria-labelledby");
    if (by) return words(by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" "));
    const said = words(element.getAttribute("aria-label"));
    if (said) return said;
    if (element.labels?.length) return words([...element.labels].map(textOf).join(" "));
    if (["INPUT", "SELECT", "TEXTAREA"].includes(element.tagName)) return "";
    return words(textOf(element));
  }

  function* names() {
    for (const control of all(CONTROLS).filter(seen)) {
      if (control.getAttribute("tabindex") === "-1" && !control.matches("a, button, input, select, textarea, [role]")) continue;
      if (!nameOf(control)) yield `${where(control)} has no name`;
    }
    for (const region of all("[role=img], [role=grid], [role=group], [role=tablist], [role=listbox], [role=region], dialog, nav").filter(seen)) {
      if (!nameOf(region)) yield `${where(region)} has no name`;
    }
    for (const image of all("img").filter(seen)) if (!image.hasAttribute("alt")) yield `${where(image)} has no alt`;
    for (const drawing of all("svg, canvas").filter(seen)) {
      if (!hidden(drawing) && !drawing.closest("[role=img]")) yield `${where(drawing)} is neither hidden from readers nor named`;
    }
  }

  // --- structure -------------------------------------------------------------------------------

  function* page() {
    if (!document.documentElement.lang) yield "the page has no language";
    if (!words(document.title)) yield "the page has no title";
    if (all("main").length !== 1) yield `the page has ${all("main").length} main parts`;
    if (all("h1").length !== 1) yield `the page has ${all("h1").length} h1`;
    if (/user-scalable\s*=\s*no|maximum-scale/.test(document.querySelector("meta[name=viewport]")?.content ?? "")) {
      yield "the page forbids to come nearer";
    }
    const ids = all("[id]").map((element) => element.id);
    for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) yield `the id ${id} is there twice`;
  }

  function* headings() {
    let before = dialog ? 1 : 0;
    for (const heading of all("h1, h2, h3, h4, h5, h6").filter(seen)) {
      const level = Number(heading.tagName[1]);
      if (!words(heading.textContent)) yield `${where(heading)} is empty`;
      if (before && level > before + 1) yield `${where(heading)} follows a heading of level ${before}`;
      before = level;
    }
  }

  function* lists() {
    for (const list of all("ul, ol")) {
      for (const child of list.children) {
        if (child.tagName !== "LI" && child.getAttribute("role") !== "option") yield `${where(child)} is in a list and no item`;
      }
    }
    for (const item of all("li")) if (!item.parentElement.matches("ul, ol")) yield `${where(item)} is an item without a list`;
    for (const list of all("dl")) {
      for (const child of list.children) if (!child.matches("dt, dd, div")) yield `${where(child)} is in a dl and neither term nor text`;
    }
    for (const table of all("table").filter(seen)) if (!table.querySelector("th")) yield `${where(table)} has no headings`;
    for (const heading of all("thead th, tbody th").filter(seen)) {
      if (!heading.hasAttribute("scope") && !heading.closest(".prose")) yield `${where(heading)} does not say what it heads`;
    }
    for (const inner of all("a a, a button, button a, button button, summary a, summary button, label a, label button")) {
      yield `${where(inner)} is a control in another one`;
    }
  }

  function* roles() {
    for (const element of all("[role]")) {
      const role = element.getAttribute("role");
      if (!ROLES.has(role)) yield `${where(element)} has the role ${role}, which none of our parts has`;
      if (WITHIN[role] && !element.parentElement.closest(`[role=${WITHIN[role]}]`)) yield `${where(element)} is a ${role} outside of a ${WITHIN[role]}`;
    }
    for (const [name, allowed] of Object.entries(VALUES)) {
      for (const element of all(`[${name}]`)) {
        if (!allowed.includes(element.getAttribute(name))) yield `${where(element)} has ${name}=${element.getAttribute(name)}`;
      }
    }
    for (const name of POINTING) {
      for (const element of all(`[${name}]`)) {
        const lost = element.getAttribute(name).split(/\s+/).filter((id) => !document.getElementById(id));
        if (lost.length) yield `${where(element)} has ${name} of ${lost.join(" ")}, which is not there`;
      }
    }
    for (const label of all("label[for]")) if (!document.getElementById(label.htmlFor)) yield `${where(label)} labels nothing`;
    for (const element of all("[tabindex]")) if (element.tabIndex > 0) yield `${where(element)} has a positive tabindex`;
    for (const element of all("[aria-hidden=true]")) {
      if (all("a[href], button, input, select, textarea, [tabindex='0']", element).length) yield `${where(element)} is hidden from readers and has controls`;
    }
  }

  // --- colours ---------------------------------------------------------------------------------

  const dot = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();

  /** Any colour as [red, green, blue, alpha], the last from 0 to 1. */
  function rgba(colour) {
    if (!known.has(colour)) {
      dot.clearRect(0, 0, 1, 1);
      dot.fillStyle = colour;
      dot.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = dot.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }

  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3]));

  /** What is behind an element, down to the canvas of the page. */
  function behind(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    const ground = getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [0, 0, 0] : [255, 255, 255];
    return layers.reverse().reduce((under, layer) => over(layer, under), ground);
  }

  function light(colour) {
    const [red, green, blue] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function contrast(one, other) {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  }

  /** How much of an element is there, with all that it stands in. */
  function solid(element) {
    let share = 1;
    for (let at = element; at; at = at.parentElement) share *= Number(getComputedStyle(at).opacity);
    return share;
  }

  function needed(style) {
    const size = parseFloat(style.fontSize);
    return size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  }

  function* legible(element, style, colour) {
    const ground = behind(element);
    const [red, green, blue, alpha] = rgba(colour);
    const ink = over([red, green, blue, alpha * solid(element)], ground);
    const found = contrast(ink, ground);
    if (found + 0.005 < needed(style)) yield `${where(element)} has a contrast of ${found.toFixed(2)}, ${needed(style)} is needed`;
  }

  function* colours() {
    const done = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!words(walker.currentNode.data) || done.has(element)) continue;
      done.add(element);
      if (element.matches("script, style, option, noscript") || element.closest("svg, [disabled]")) continue;
      if (!seen(element) || unseen(element)) continue;
      yield* legible(element, getComputedStyle(element), getComputedStyle(element).color);
    }
    for (const field of all("input:not([type=checkbox]):not([type=radio]):not([type=range]), select, textarea").filter(seen)) {
      if (field.disabled) continue;
      const style = getComputedStyle(field);
      yield* legible(field, style, style.color);
      if (field.placeholder) yield* legible(field, style, getComputedStyle(field, "::placeholder").color);
      // The box of a search field may be drawn by what is around it.
      const framed = [field, field.parentElement].some((box) => {
        const edge = getComputedStyle(box);
        const around = behind(box.parentElement);
        return parseFloat(edge.borderTopWidth) >= 1 && contrast(over(rgba(edge.borderTopColor), around), around) >= 3;
      });
      if (!framed) yield `${where(field)} has an edge that is hard to see`;
    }
  }

  // --- sizes, motion ---------------------------------------------------------------------------

  /** A link within a sentence is as high as its line. */
  function inSentence(element) {
    if (!element.matches("a, button") || !getComputedStyle(element).display.startsWith("inline")) return false;
    const around = element.closest("p, li, td, dd, h3, h4, span:not(:only-child)") ?? element.parentElement;
    return words(around.textContent).length > words(element.textContent).length + 1 || Boolean(element.closest(".prose, .path-words"));
  }

  function target(control) {
    const label = control.matches("[type=checkbox], [type=radio]") && control.closest("label");
    return (label || control).getBoundingClientRect();
  }

  function* sizes() {
    const root = document.documentElement;
    if (root.scrollWidth > window.innerWidth) yield `the page is ${root.scrollWidth} px wide in a window of ${window.innerWidth}`;
    const controls = all("a[href], button, input, select, textarea, summary, [role=tab], [role=option]");
    for (const control of controls.filter((one) => seen(one) && !unseen(one) && !hidden(one))) {
      const box = target(control);
      if ((box.width + 0.5 >= LEAST && box.height + 0.5 >= LEAST) || inSentence(control)) continue;
      yield `${where(control)} is ${Math.round(box.width)} by ${Math.round(box.height)} px, ${LEAST} are needed`;
    }
  }

  function* motion() {
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const element of all("body *")) {
      const style = getComputedStyle(element);
      if (style.animationName !== "none") yield `${where(element)} moves though motion is not wanted`;
      if (style.transitionDuration.split(",").some((time) => parseFloat(time) > 0)) yield `${where(element)} has a transition though motion is not wanted`;
    }
  }

  const RULES = { names, page, headings, lists, roles, colours, sizes, motion };
  return Object.entries(RULES).flatMap(([rule, look]) => [...new Set(look())].map((found) => `${rule}: ${found}`));
}
