/**
 * The theme's colours for canvases, which know no custom properties and no light-dark().
 *
 * A hidden element is given the property as its colour, and what the browser makes of it is read back.
 */
let probe = null;

/** The colour that a custom property has now, as rgb(). */
export function ink(name) {
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
