"""Ten thousand records: the page stays light, scrolls without a hitch, and comes quickly.

What the issue asks for is measured inside the page, where nothing of the test's own traffic counts: how many rows are
in the page at any moment, how long the longest task was while it scrolled from the top to the bottom (the best of
three, since other programs run on the same machine), when the first content was painted, and how many bytes came. The
figures are printed and kept beside the screenshots.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import ARTEFACTS, PROJECT, Reader, Site, keep
from tests.web import sample

pytestmark = pytest.mark.e2e

RECORDS = 10_000
MOST_ROWS = 200
LONGEST_TASK = 200.0
"""Milliseconds."""
FIRST_PAGE = 150_000
"""Bytes, as they go over the wire."""
TRIES = 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with ten thousand memories."""
    root = tmp_path_factory.mktemp("project")
    sample.make(root, RECORDS)
    return root


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Any]]:
    """What was measured; kept with the screenshots, for whoever wants to know."""
    found: dict[str, Any] = {}
    yield found
    folder = Path(os.environ.get(ARTEFACTS) or PROJECT / ".e2e" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    said = json.dumps(found, indent=2, sort_keys=True)
    (folder / "lists.json").write_text(f"{said}\n", encoding="utf-8", newline="")
    print(f"\n{said}")  # noqa: T201  (the figures are for people)


_SCROLL = """async (step) => {
  const grid = document.querySelector("[role=grid]");
  let rows = 0;
  const count = () => (rows = Math.max(rows, grid.querySelectorAll("[role=row]").length));
  const watch = new MutationObserver(count);
  watch.observe(grid, {childList: true, subtree: true});
  const tasks = [];
  const slow = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)));
  slow.observe({type: "longtask"});
  const frame = () => new Promise(requestAnimationFrame);
  window.scrollTo(0, 0);
  await frame();
  const began = performance.now();
  let frames = 0;
  for (let y = 0; y < document.documentElement.scrollHeight; y += step) {
    window.scrollTo(0, y);
    await frame();
    count();
    frames++;
  }
  const took = performance.now() - began;
  await new Promise((done) => setTimeout(done));
  tasks.push(...slow.takeRecords().map((one) => one.duration));
  slow.disconnect();
  watch.disconnect();
  return {rows, frames, took, tasks};
}"""


def scrolled(page: Page, step: int) -> dict[str, Any]:
    found = page.evaluate(_SCROLL, step)
    assert isinstance(found, dict)
    return found


def last_row(page: Page) -> None:
    """The end of the list is drawn, with its words."""
    total = page.get_by_role("grid").get_attribute("aria-rowcount")
    row = page.locator(f"[role=row][aria-rowindex='{total}']")
    expect(row).to_be_in_viewport()
    expect(row.locator(".hit-title")).not_to_be_empty()


def test_a_list_of_ten_thousand_scrolls_without_a_hitch_and_stays_small(
    reader: OpenReader, figures: dict[str, Any]
) -> None:
    page = reader().go("/memory")
    expect(page.locator("[role=row]").first).to_be_visible()
    assert int(page.get_by_role("grid").get_attribute("aria-rowcount") or 0) > RECORDS
    tries = []
    for _ in range(TRIES):
        found = scrolled(page, 2000)
        last_row(page)
        assert 0 < found["rows"] <= MOST_ROWS
        tries.append(found)
        if max(found["tasks"], default=0.0) <= LONGEST_TASK:
            break
    keep(page, "list-end")
    longest = [max(found["tasks"], default=0.0) for found in tries]
    figures["scrolling"] = {
        "rows in the page at most": max(found["rows"] for found in tries),
        "longest task, ms, each try": longest,
        "frames": tries[-1]["frames"],
        "ms a frame": round(tries[-1]["took"] / tries[-1]["frames"], 1),
    }
    assert min(longest) <= LONGEST_TASK


def test_jumping_about_draws_the_rows_that_are_in_sight(reader: OpenReader) -> None:
    page = reader().go("/memory")
    expect(page.locator("[role=row]").first).to_be_visible()
    total = int(page.get_by_role("grid").get_attribute("aria-rowcount") or 0)
    for share in (0.5, 0.93, 0.07, 1.0, 0.3):
        page.evaluate("(share) => window.scrollTo(0, share * document.documentElement.scrollHeight)", share)
        inside = page.locator("[role=row]:not(:has(.row-skeleton))").filter(visible=True)
        expect(inside.nth(3)).to_be_visible()
        places = [int(each.get_attribute("aria-rowindex") or 0) for each in inside.all()[:3]]
        assert abs(places[0] / total - share) < 0.02
        assert page.locator("[role=row]").count() <= MOST_ROWS
    page.keyboard.press("j")
    page.keyboard.press("End")
    last_row(page)
    page.keyboard.press("Home")
    expect(page.locator("[role=row][aria-rowindex='1']")).to_be_in_viewport()


def test_opened_rows_do_not_make_the_page_heavy(reader: OpenReader) -> None:
    page = reader().go("/memory?q=invoice")
    expect(page.locator("[role=row]").first).to_be_visible()
    for _ in range(12):
        page.keyboard.press("j")
        page.keyboard.press("e")
    expect(page.locator(".row-active .layers")).to_be_visible()
    found = scrolled(page, 2000)
    assert found["rows"] <= MOST_ROWS


def test_typing_among_ten_thousand_finds_at_once(reader: OpenReader, figures: dict[str, Any]) -> None:
    page = reader().go("/memory")
    expect(page.locator("[role=row]").first).to_be_visible()
    page.keyboard.press("/")
    for word in ("voucher", "voucher currency", "voucher currency needs"):
        page.get_by_role("searchbox").press_sequentially(word.split()[-1])
        expect(page.locator(".summary [role=status]")).to_contain_text(f"for “{word}”")
        expect(page.locator("[role=row] mark").first).to_be_visible()
        page.get_by_role("searchbox").press(" ")
    told = page.evaluate("fetch('/api/records?q=voucher+currency+needs&limit=100').then((answer) => answer.json())")
    figures["search"] = {"server, ms": told["took_ms"], "found": told["total"]}
    assert page.locator("[role=row]").count() <= MOST_ROWS


@pytest.mark.parametrize("path", ["/", "/memory"])
def test_the_first_page_is_small_and_painted_soon(
    browser: Browser, site: Site, figures: dict[str, Any], path: str
) -> None:
    window = Reader(browser, site)
    page = window.page
    line = window.context.new_cdp_session(page)
    line.send("Network.enable")
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    packed: set[str] = set()

    def answered(event: dict[str, Any]) -> None:
        names[event["requestId"]] = event["response"]["url"]
        headers = {name.lower(): value for name, value in event["response"]["headers"].items()}
        if headers.get("content-encoding") == "gzip":
            packed.add(event["response"]["url"].removeprefix(site.origin))

    line.on("Network.responseReceived", answered)
    line.on(
        "Network.loadingFinished",
        lambda event: sizes.__setitem__(names.get(event["requestId"], ""), int(event["encodedDataLength"])),
    )
    window.go(path)
    page.wait_for_function("() => !document.querySelector('main .loading')")
    page.wait_for_load_state("load")
    painted = page.evaluate(
        """() => new Promise((done) => new PerformanceObserver((list, me) => {
          const one = list.getEntriesByName("first-contentful-paint")[0];
          if (one) (me.disconnect(), done(one.startTime));
        }).observe({type: "paint", buffered: true}))"""
    )
    own = {name.removeprefix(site.origin): size for name, size in sizes.items() if name.startswith(site.origin)}
    assert "/static/app.js" in own
    assert {"/static/app.js", "/static/style/base.css", "/static/vendor/preact.js"} <= packed
    figures[f"first page {path}"] = {
        "first contentful paint, ms": round(painted),
        "bytes": sum(own.values()),
        "requests": len(own),
        "heaviest": sorted(own.items(), key=lambda pair: -pair[1])[:5],
    }
    assert painted > 0
    assert sum(own.values()) < FIRST_PAGE
    assert window.troubles == []
    window.close()
