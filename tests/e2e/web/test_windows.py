"""A window that a test gave back is as good as a new one: the next test sees nothing of what the last one did in it."""

import pytest
from playwright.sync_api import expect
from tests.e2e.web.explorer import Look, Site, Windows
from tests.e2e.web.shop import loaded, painted

pytestmark = pytest.mark.e2e

ABOUT = """() => ({
  theme: document.documentElement.dataset.theme ?? "system",
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  still: matchMedia("(prefers-reduced-motion: reduce)").matches,
  kept: localStorage.length + sessionStorage.length,
  under: document.querySelectorAll(":hover").length,
  scrolled: scrollY,
})"""


def test_nothing_is_left_of_what_was_done_in_a_window(windows: Windows, site: Site) -> None:
    window = windows.lend(site, Look())
    page = loaded(window, "/tasks")
    new = page.evaluate(ABOUT)
    assert (new["kept"], new["under"], new["scrolled"]) == (0, 0, 0)
    window.excused.append("ERR_FAILED")
    page.route("**/api/tasks*", lambda route: route.abort())
    page.emulate_media(color_scheme="dark", reduced_motion="no-preference")
    painted(page)
    page.keyboard.press("t")
    page.get_by_role("link", name="Memory").first.click()
    page.mouse.move(640, 400)
    page.evaluate("() => (sessionStorage.setItem('one', 'two'), scrollTo(0, 200))")
    changed = page.evaluate(ABOUT)
    assert (changed["theme"], changed["dark"], changed["still"], changed["kept"]) == (
        "light",
        True,
        False,
        2,
    )
    assert changed["under"] > 0

    assert windows.take_back() == []
    again = windows.lend(site, Look())

    assert again is window
    assert again.excused == []
    assert loaded(again, "/tasks").evaluate(ABOUT) == new
    expect(page.get_by_role("row").first).to_be_visible()
    assert windows.take_back() == []


def test_troubles_are_told_once_and_a_window_is_lent_to_one_at_a_time(
    windows: Windows, site: Site
) -> None:
    one, other = windows.lend(site, Look()), windows.lend(site, Look())
    assert one is not other
    one.page.goto(f"{site.origin}/static/icon.svg")
    one.page.evaluate("() => console.error('a trouble')")
    other.page.goto(f"{site.origin}/static/icon.svg")
    assert windows.take_back() == ["console error: a trouble"]
    assert windows.take_back() == []
    assert windows.lend(site, Look(width=360)) not in (one, other)
    assert windows.take_back() == []
