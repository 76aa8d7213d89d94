"""Every page, for everybody: what `access.js` asks of it, in light and dark, wide and narrow, and the keyboard alone.

Pages are looked at as they open and in the states that a person brings them into: a dialog, a panel, a list of
choices. With each look a screenshot is kept if wanted. Then the keyboard walks: it presses Tab until it is round, and
must meet whatever can be met, see where it is at each stop, and come back to its beginning. A page is opened once for
each width: it is opened in one theme, and the system turns to the other one, as it does in the evening.
`RALPH_E2E_README=1` makes the two pictures of the README anew.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import PROJECT, Look, Reader, Site, keep
from tests.e2e.web.page_states import DIALOG, STATES, brought
from tests.e2e.web.shop import Shop, loaded, painted
from tests.support import sample

pytestmark = pytest.mark.e2e

WIDE = (Look(1280, 800, dark=True), Look(1280, 800))
NARROW = (Look(360, 740), Look(360, 740, dark=True))
"""Each width in both themes; the keyboard walks in the second one."""
RULES = (Path(__file__).parent / "access.js").read_text(encoding="utf-8")
PICTURES = ("explorer", "graph")
IMAGES = PROJECT / "docs" / "images"
STOP = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const again = Boolean(at.met);
  at.met = true;
  // The rows of a long list are made anew when they come back into sight.
  const row = at.closest("[aria-rowindex]");
  if (row) (window.metRows ??= new Set()).add(row.getAttribute("aria-rowindex") + at.className);
  // A row of a list, or the label of a box, may show the focus of the element within it.
  const active = document.getElementById(at.getAttribute("aria-activedescendant") ?? "")?.firstElementChild;
  const shows = [at, active, at.closest("label"), at.parentElement].filter(Boolean).some((box) => {
    const style = getComputedStyle(box);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    return outlined || style.boxShadow !== "none";
  });
  const box = at.getBoundingClientRect();
  const inSight = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const what = `${at.tagName} ${at.className} ${(at.innerText || at.ariaLabel || "").slice(0, 40)}`;
  return { again, shows, inSight, what };
}"""
"""The stop of the keyboard: whether it was met before, whether it can be seen to be there."""
UNMET = """() => {
  const root = document.querySelector("dialog[open]") ?? document;
  const stops = [...root.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const group = (radio) => root.querySelectorAll(`input[type=radio][name="${CSS.escape(radio.name)}"]`);
  return stops.filter((stop) => {
    if (stop.met || stop.tabIndex < 0 || stop.disabled) return false;
    if (!stop.checkVisibility({ visibilityProperty: true })) return false;
    const row = stop.closest("[aria-rowindex]");
    if (row && window.metRows?.has(row.getAttribute("aria-rowindex") + stop.className)) return false;
    return stop.type !== "radio" || ![...group(stop)].some((radio) => radio.met);
  }).map((stop) => `${stop.tagName} ${stop.className} ${(stop.innerText || stop.ariaLabel || "").slice(0, 40)}`);
}"""
MOST_STOPS = 400

WALKED = [
    name
    for name in STATES
    if name not in ("dashboard-opened", "context-start", "run-opened", "record-missing")
]


def looked_at(page: Page, name: str, look: Look) -> list[str]:
    """What is wrong with a page in one of the themes."""
    page.emulate_media(color_scheme=look.scheme, reduced_motion="reduce")
    painted(page)
    keep(page, f"{name}-{look.scheme}-{look.width}")
    return [f"{look.scheme}: {sentence}" for sentence in page.evaluate(RULES)]


def walked(page: Page) -> list[str]:
    """What is wrong for somebody who has the keyboard alone."""
    if not page.locator(DIALOG).count():
        page.evaluate("document.activeElement?.blur()")
    unseen: list[str] = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None:
            continue
        if stop["again"]:
            break
        if not (stop["shows"] and stop["inSight"]):
            unseen.append(f"the focus is not seen on {stop['what']}")
    else:
        return [*unseen, f"after {MOST_STOPS} stops the keyboard is not round"]
    return [*unseen, *(f"the keyboard does not come to {what}" for what in page.evaluate(UNMET))]


def _looks() -> Iterator[object]:
    """Yield each state with one width, wide and narrow in turn; the other width is left to the soak tests."""
    for number, name in enumerate(STATES):
        for wide in (True, False):
            marks = () if wide == (number % 2 == 0) else (pytest.mark.soak,)
            yield pytest.param(name, wide, marks=marks, id=f"{name}-{'wide' if wide else 'narrow'}")


@pytest.mark.parametrize(("name", "wide"), list(_looks()))
def test_a_page_is_for_everybody_and_for_the_keyboard_alone(
    reader: OpenReader, page_ids: dict[str, str], name: str, wide: bool
) -> None:
    first, then = WIDE if wide else NARROW
    window = reader(width=first.width, height=first.height, dark=first.dark)
    window.excused.append("404 (Not Found)")  # that something is not there is no trouble here
    page = brought(window, page_ids, name)
    wrong = [*looked_at(page, name, first), *looked_at(page, name, then)]
    if name in WALKED:
        wrong += walked(page)
    assert wrong == []


def test_the_first_stop_skips_to_the_content(reader: OpenReader) -> None:
    page = loaded(reader(), "/tasks")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search tasks")).to_be_focused()


def test_a_page_that_is_gone_to_has_the_focus_in_its_content(reader: OpenReader) -> None:
    page = loaded(reader(), "/")
    page.get_by_role("link", name="Graph").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Graph")
    expect(page.locator("main")).to_be_focused()


def test_the_theme_follows_the_system_until_somebody_chooses(reader: OpenReader) -> None:
    page = loaded(reader(dark=True), "/")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Light colours").click()
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()
    light = page.evaluate(paper)
    assert light != dark
    page.reload()
    page.locator("main h1").wait_for()
    assert page.evaluate(paper) == light
    page.keyboard.press("t")
    page.wait_for_function(f"(dark) => {paper} === dark", arg=dark)


def test_motion_is_there_only_for_those_who_want_it(reader: OpenReader) -> None:
    window = reader()
    window.page.route("**/api/tasks*", lambda route: None)
    for wanted in (True, False):
        window.page.emulate_media(reduced_motion="no-preference" if wanted else "reduce")
        bar = window.go("/tasks").locator(".skeleton").first
        bar.wait_for()
        assert (bar.evaluate("bar => getComputedStyle(bar).animationName") != "none") is wanted


class TestPicturesOfTheReadme:
    @pytest.mark.skipif(
        os.environ.get("RALPH_E2E_README") != "1", reason="only with RALPH_E2E_README=1"
    )
    def test_they_are_made_anew(self, browser: Browser, tmp_path: Path) -> None:
        IMAGES.mkdir(exist_ok=True)
        root = tmp_path / "harbor-shop"
        sample.make(root)
        with Site(root, tmp_path / "home") as site:
            window = Reader(browser, site, Look(height=800))
            page = loaded(window, "/memory?q=tests+hang+redis")
            page.get_by_role("button", name="More of").first.click()
            page.get_by_role("tab", name="Full").click()
            page.mouse.move(0, 0)
            page.screenshot(path=IMAGES / "explorer.png")
            page = loaded(window, f"/graph?around={Shop(site).memory('Prices are floats')}")
            page.screenshot(path=IMAGES / "graph.png")
            window.close()

    @pytest.mark.parametrize("name", PICTURES)
    def test_they_are_there_and_small(self, name: str) -> None:
        held = (IMAGES / f"{name}.png").read_bytes()
        assert held[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", held[16:24]) == (1280, 800)
        assert len(held) < 300_000
