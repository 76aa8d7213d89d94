"""The way back to a long list: to the same place, however late its rows come, and never against the person's hand.

The list's answer is held by the test until the page has been drawn without it, so a slow machine is no surprise here.
"""

import pytest
from playwright.sync_api import Page, Route, expect
from tests.e2e.web.conftest import OpenReader

pytestmark = pytest.mark.e2e

PLACE = 900
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
AT = "(place) => Math.abs(window.scrollY - place) < 2"


def left_far_down(page: Page) -> list[Route]:
    """The list left at PLACE for a record that is loaded again, and gone back to; its answer is held."""
    expect(page.get_by_role("grid", name="Memories").get_by_role("row").first).to_be_visible()
    page.evaluate("(place) => window.scrollTo(0, place)", PLACE)
    page.wait_for_function(AT, arg=PLACE)
    page.evaluate("() => document.querySelector('.row .hit-title').click()")
    expect(page.get_by_role("heading", name="Facts")).to_be_visible()
    page.reload()  # what the list had in memory is gone with it
    expect(page.get_by_role("heading", name="Facts")).to_be_visible()
    held: list[Route] = []
    page.route("**/api/records?*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the function, a builtin cannot be marked
    with page.expect_request("**/api/records?*"):
        page.go_back()
    page.evaluate(DRAWN)
    return held


def let_go(page: Page, held: list[Route]) -> None:
    for route in held:
        route.continue_()
    page.unroute("**/api/records?*")


def test_rows_that_come_late_still_lead_back_to_the_place(reader: OpenReader) -> None:
    page = reader().go("/memory?family=observation")
    held = left_far_down(page)
    assert page.evaluate("window.scrollY") < PLACE, "without its rows the page is too short"
    let_go(page, held)
    page.wait_for_function(AT, arg=PLACE)


def test_a_hand_on_the_page_ends_the_way_back(reader: OpenReader) -> None:
    page = reader().go("/memory?family=observation")
    held = left_far_down(page)
    page.mouse.move(800, 600)
    page.mouse.wheel(0, 10)
    page.evaluate(DRAWN)
    let_go(page, held)
    expect(page.get_by_role("grid", name="Memories").get_by_role("row").nth(3)).to_be_visible()
    page.evaluate(DRAWN)
    assert page.evaluate("window.scrollY") < PLACE
