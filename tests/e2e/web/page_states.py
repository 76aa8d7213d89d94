"""Every page in each state that a person brings it into: a dialog, a panel, a list of choices."""

from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.e2e.web.explorer import Reader, Site
from tests.e2e.web.shop import LOADING, Shop, loaded, painted

Step = Callable[[Page], None]


DIALOG = "dialog[open]"


def _press(name: str, then: str) -> Step:
    """Press a button, and wait for what it brings."""

    def step(page: Page) -> None:
        page.get_by_role("button", name=name).first.click()
        page.locator(then).first.wait_for()

    return step


def _help(page: Page) -> None:
    page.keyboard.press("?")
    page.locator(DIALOG).wait_for()


def _more(page: Page) -> None:
    if page.locator(".bottom-bar").is_visible():
        page.get_by_role("button", name="More").click()
        page.locator(DIALOG).wait_for()


def _filters(page: Page) -> None:
    if page.get_by_role("button", name="Filters").is_visible():
        page.get_by_role("button", name="Filters").click()
        page.locator(DIALOG).wait_for()


def _typed(page: Page) -> None:
    page.get_by_role("combobox", name="Find a node").fill("auth")
    page.get_by_role("option").first.wait_for()


def _opened(page: Page) -> None:
    for summary in page.locator("main summary").all():
        if summary.is_visible() and not summary.evaluate("summary => summary.parentElement.open"):
            summary.click()


def _all_settings(page: Page) -> None:
    page.get_by_role("button", name="All ").last.click()
    page.get_by_text("memories.enabled").wait_for()


def _nothing(page: Page) -> None:
    """As it opens."""


STATES: dict[str, tuple[str, Step]] = {
    "dashboard": ("/", _nothing),
    "dashboard-opened": ("/", _opened),
    "help": ("/", _help),
    "more": ("/", _more),
    "memory": ("/memory", _nothing),
    "memory-search": ("/memory?q=redis", _press("More of", ".row-detail [role=tab]")),
    "memory-filters": ("/memory", _filters),
    "memory-add": ("/memory", _press("Add a memory", DIALOG)),
    "record": ("/memory/{keys}", _nothing),
    "record-markdown": ("/memory/{markdown}", _nothing),
    "record-hostile": ("/memory/{hostile}", _nothing),
    "record-history": ("/memory/{keys}", _press("Show git history", ".commits")),
    "record-edit": ("/memory/{keys}", _press("Edit", DIALOG)),
    "record-missing": ("/memory/mem-0-0000", _nothing),
    "review": ("/review", _nothing),
    "review-all": ("/review?status=all", _nothing),
    "sessions": ("/sessions", _nothing),
    "sessions-by-task": ("/sessions?view=tasks", _nothing),
    "session": ("/sessions/{session}", _nothing),
    "session-given": ("/sessions/{session}?view=given", _nothing),
    "session-summary": ("/sessions/{session}?view=summary", _nothing),
    "chat": ("/sessions/{chat}", _opened),
    "runs": ("/runs", _nothing),
    "run": ("/runs/{run}", _nothing),
    "run-opened": ("/runs/{run}", _opened),
    "tasks": ("/tasks", _nothing),
    "task": ("/tasks/{task}", _nothing),
    "task-progress": ("/tasks/{done}", _nothing),
    "context": ("/context", _nothing),
    "context-prompt": ("/context?prompt=Which+key+signs+a+JWT%3F", _nothing),
    "context-start": ("/context?event=SessionStart", _opened),
    "graph": ("/graph", _nothing),
    "graph-find": ("/graph", _typed),
    "graph-path": ("/graph?all=1&a={keys}&b={env}", _nothing),
    "compare": ("/compare?a={run}&b={other}", _nothing),
    "connections": ("/connections", _all_settings),
    "graph-node": ("/graph?node={keys}", _nothing),
    "graph-nodes": ("/graph?all=1&view=nodes", _nothing),
    "graph-edges": ("/graph?view=edges", _nothing),
    "nowhere": ("/nowhere", _nothing),
}
"""Each state by its name: its address, and what brings it about."""


def ids_of_pages(site: Site) -> dict[str, str]:
    """Return what the addresses of `STATES` are filled with."""
    shop = Shop(site)
    return {
        "keys": shop.memory("The JWT signing key comes from"),
        "env": shop.memory("The JWT signing key is read from"),
        "markdown": shop.memory("Release notes"),
        "hostile": shop.memory("The page title <script>"),
        "session": shop.session("The refresh tokens"),
        "chat": shop.session("Begin with the address"),
        "run": shop.run("Round sums in the cart"),
        "other": shop.run("Number invoices without gaps"),
        "task": shop.task("Checkout in one page"),
        "done": shop.task("Round sums in the cart"),
    }


def brought(reader: Reader, ids: dict[str, str], name: str) -> Page:
    """A page in one of its states."""
    path, step = STATES[name]
    page = loaded(reader, path.format(**ids))
    step(page)
    painted(page)  # what is still on its way says so by now
    expect(page.locator(LOADING)).to_have_count(0)
    return page
