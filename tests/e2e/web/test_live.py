"""What happens elsewhere shows by itself: a loop that runs, a memory that somebody adds in a shell.

The loop is the app's own with an agent that waits for the test (`sample_live`), so that every step is seen before the
next one is made. No page is loaded again: each window counts its loads.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.clients import PLAIN
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, keep
from tests.e2e.web.shop import loaded
from tests.support import sample
from tests.support.sample import HOME
from tests.support.sample_live import Live

pytestmark = pytest.mark.e2e

GOAL = "Show the price per kilogram"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this file's own, since things happen in it."""
    return sample.copied(tmp_path_factory.mktemp("project") / "shop").root


@pytest.fixture
def live(project: Path) -> Iterator[Live]:
    """A run that waits for its first step; it is ended in any case."""
    under_way = Live(project, GOAL).start()
    yield under_way
    under_way.stop()


def watched(window: Reader, path: str) -> Page:
    """A page that hears of changes already; whether it was loaded again can be told afterwards."""
    page = loaded(window, path)
    expect(page.locator(".line")).to_have_text("Live")
    page.evaluate("window.loadedOnce = true")
    return page


def ralph(root: Path, *words: str) -> str:
    """A command in a shell, as somebody else gives it."""
    env = {**PLAIN, "HOME": str(root / HOME)}
    whole = [sys.executable, "-m", "ralph", "--root", str(root), *words]
    return subprocess.run(
        whole, env=env, cwd=root, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def test_a_loop_is_followed_on_the_dashboard_and_on_its_own_page(
    reader: OpenReader, live: Live
) -> None:
    board, own = watched(reader(), "/"), watched(reader(), f"/runs/{live.id}")
    card = board.locator(f".live[data-run={live.id}]")
    expect(card).to_contain_text(GOAL)
    expect(own.locator("h1")).to_have_text(GOAL)
    expect(own.locator(".head-states")).to_contain_text("running")
    expect(own.locator("#iteration-1")).to_have_attribute("data-outcome", "running")

    live.advance("Read src/cart/total.ts.")
    expect(own.locator("#iteration-1")).to_contain_text("Read src/cart/total.ts.")
    expect(own.locator("#iteration-1")).not_to_have_attribute("data-outcome", "running")
    expect(own.locator("#iteration-2")).to_have_attribute("data-outcome", "running")
    expect(card).to_have_attribute("data-iteration", "2")
    spoken = board.locator(".running-spoken")
    expect(spoken).to_contain_text("iteration 2")
    keep(board, "dashboard-live")

    live.advance("The page shows it.", write={"src/price.ts": "// by the kilogram\n"}, done=True)
    live.stop()
    expect(card).to_have_count(0)
    expect(spoken).to_have_text("No run is active.")
    expect(board.locator(".entries").get_by_role("link", name=live.id)).to_be_visible()
    expect(own.locator(".head-states")).to_contain_text("success")
    expect(own.locator(".iteration")).to_have_count(2)
    expect(own.locator("#iteration-2")).to_have_attribute("data-outcome", "done")
    expect(own.locator("#iteration-2")).to_contain_text("1 file changed")
    assert all(page.evaluate("window.loadedOnce") for page in (board, own))


def test_the_list_of_runs_hears_of_a_new_one(reader: OpenReader, live: Live) -> None:
    page = watched(reader(), "/runs")
    row = page.get_by_role("row", name=live.id)
    expect(row).to_contain_text("running")
    live.stop()
    expect(row).not_to_contain_text("running")
    assert page.evaluate("window.loadedOnce")


def test_a_memory_that_somebody_adds_in_a_shell_appears_in_the_explorer(
    reader: OpenReader, project: Path
) -> None:
    page = watched(reader(), "/memory?q=quokka")
    expect(page.get_by_role("row")).to_have_count(0)
    ralph(project, "memory", "add", "The quokka service answers on port 7117.", "-t", "context")
    expect(page.get_by_role("row")).to_have_count(1)
    expect(page.get_by_role("row")).to_contain_text("answers on port 7117")
    assert page.evaluate("window.loadedOnce")


def test_a_task_that_somebody_adds_in_a_shell_appears_in_the_lists(
    reader: OpenReader, project: Path
) -> None:
    board, tasks = watched(reader(), "/"), watched(reader(), "/tasks")
    ralph(project, "task", "add", "Feed the quokka")
    expect(board.get_by_role("link", name="Feed the quokka")).to_be_visible()
    expect(tasks.get_by_role("row", name="Feed the quokka")).to_be_visible()
    assert all(page.evaluate("window.loadedOnce") for page in (board, tasks))
