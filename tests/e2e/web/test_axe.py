"""axe-core finds nothing on any page, light and dark, wide and narrow.

axe is fetched from npm like the clients, pinned, and runs in the real browser. `test_access.py` checks what axe does not
know: sizes, motion, and the keyboard.
"""

import os
from typing import Any, Literal

import pytest
from playwright.sync_api import Page
from tests.e2e import install_clients
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Look, Site
from tests.e2e.web.page_states import STATES, brought
from tests.e2e.web.shop import loaded, painted

pytestmark = pytest.mark.e2e

WIDTHS = {"wide": Look(1440, 900), "narrow": Look(390, 844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATHS = (
    "/",
    "/memory",
    "/review",
    "/sessions",
    "/context",
    "/graph",
    "/tasks",
    "/runs",
    "/connections",
)
RUN = """() => axe.run(document, {
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}).then(({violations}) => violations)"""


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    try:
        script = install_clients.ensure(install_clients.AXE)
    except install_clients.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))
    return script.read_text(encoding="utf-8")


def _describe(violation: dict[str, Any]) -> str:
    places = "; ".join(node["html"][:160] for node in violation["nodes"][:3])
    return f"{violation['impact']} {violation['id']}: {violation['help']} ({places})"


def _findings(page: Page) -> list[str]:
    return [_describe(each) for each in page.evaluate(RUN)]


def _check_themes(page: Page, axe: str) -> None:
    """Check a page in both themes, and that it is not wider than its window."""
    page.evaluate(axe)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        painted(page)
        assert _findings(page) == [], theme
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{overflow} px in {theme}"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", STATES)
def test_axe_finds_nothing(
    reader: OpenReader, page_ids: dict[str, str], axe: str, name: str, width: str
) -> None:
    look = WIDTHS[width]
    window = reader(width=look.width, height=look.height)
    window.excused.append("404 (Not Found)")  # the page of something that does not exist
    _check_themes(brought(window, page_ids, name), axe)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_in_an_empty_project(
    reader: OpenReader, empty: Site, axe: str, path: str, width: str
) -> None:
    look = WIDTHS[width]
    _check_themes(loaded(reader(empty, width=look.width, height=look.height), path), axe)
