"""What a reader needs to trust the pages: where a record stands, a way out of a field, both sides of a comparison, a
disk that says no, and pages that stay quick while the server looks at ten thousand records."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, Site, keep
from tests.e2e.web.shop import Shop
from tests.support import sample

pytestmark = pytest.mark.e2e

LONGEST_TASK = 200.0
"""Milliseconds."""
RECORDS = 10_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this file's own: some tests change it."""
    return sample.copied(tmp_path_factory.mktemp("open") / "shop").root


@pytest.fixture(scope="module")
def shop(site: Site) -> Shop:
    return Shop(site)


def hit(page: Page, words: str) -> Locator:
    return page.locator("article.hit", has_text=words)


class TestStanding:
    def test_a_superseded_memory_is_below_what_took_its_place_and_leads_to_it(
        self, reader: OpenReader
    ) -> None:
        page = reader().go("/memory?q=JWT+signing+key")
        old, new = hit(page, "is read from JWT_KEY"), hit(page, "comes from keys.current()")
        expect(old.get_by_role("link", name="superseded")).to_be_visible()
        expect(new.locator(".badge")).to_have_count(0)
        texts = page.locator("article.hit .hit-title").all_inner_texts()
        places = [
            next(at for at, text in enumerate(texts) if words in text)
            for words in ("keys.current", "JWT_KEY")
        ]
        assert places[0] < places[1]
        keep(page, "explorer-superseded")
        old.get_by_role("link", name="superseded").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("comes from keys.current()")

    def test_an_opened_hit_and_the_records_page_say_what_took_its_place(
        self, reader: OpenReader
    ) -> None:
        page = reader().go("/memory?q=JWT+signing+key")
        hit(page, "is read from JWT_KEY").get_by_role("button", name="More of").click()
        told = page.locator(".hit-detail .past-notice")
        expect(told).to_contain_text("Superseded by")
        expect(told.get_by_role("link")).to_be_visible()
        expect(page.locator(".hit-detail .why")).not_to_contain_text("superseded")
        hit(page, "is read from JWT_KEY").locator(".hit-title").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("JWT_KEY")
        notice = page.locator("main > .past-notice, main .past-notice").first
        expect(notice).to_contain_text("Agents receive that memory instead.")
        notice.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("comes from keys.current()")
        expect(page.locator(".past-notice")).to_have_count(0)

    def test_what_has_no_page_is_no_link(self, reader: OpenReader) -> None:
        page = reader().go("/memory/know-stock-is-taken-last")
        links = page.locator(".card", has=page.get_by_role("heading", name="Links", exact=True))
        expect(links).to_contain_text("How checkout works")
        expect(links.get_by_role("link")).to_have_count(0)
        expect(page.locator("a[href='/memory/know-how-checkout-works']").first).to_be_visible()

    def test_a_stale_record_says_what_is_gone(self, reader: OpenReader) -> None:
        page = reader().go("/memory?q=old+supplier+orders")
        expect(hit(page, "soap.ts").first.get_by_text("stale", exact=True)).to_be_visible()
        hit(page, "soap.ts").first.locator(".hit-title").click()
        expect(page.locator(".past-notice")).to_have_text("Cited file is gone: src/legacy/soap.ts.")

    def test_an_archived_record_says_so(self, reader: OpenReader) -> None:
        page = reader().go("/memory?status=archived")
        first = page.locator("article.hit").first
        expect(first.get_by_text("archived", exact=True)).to_be_visible()
        first.locator(".hit-title").click()
        expect(page.locator(".past-notice")).to_contain_text("Archived: it stays in its file")


class TestLeavingAField:
    def test_esc_clears_the_search_and_then_leads_to_the_list(self, reader: OpenReader) -> None:
        page = reader().go("/memory")
        expect(page.locator("[role=row]").first).to_be_visible()
        page.keyboard.press("/")
        field = page.get_by_role("searchbox")
        expect(field).to_be_focused()
        page.keyboard.type("redis")
        expect(page.locator(".summary [role=status]")).to_contain_text("for “redis”")
        page.keyboard.press("Escape")
        expect(field).to_have_value("")
        expect(field).to_be_focused()
        expect(page.locator(".summary [role=status]")).not_to_contain_text("for “")
        page.keyboard.press("Escape")
        expect(page.get_by_role("grid")).to_be_focused()
        expect(page.locator(".row-active")).to_have_attribute("aria-rowindex", "1")
        page.keyboard.press("j")
        expect(page.locator(".row-active")).to_have_attribute("aria-rowindex", "2")
        page.keyboard.press("k")
        expect(page.locator(".row-active")).to_have_attribute("aria-rowindex", "1")

    @pytest.mark.parametrize("path", ["/tasks", "/sessions"])
    def test_esc_leads_out_of_the_other_lists_searches_too(
        self, reader: OpenReader, path: str
    ) -> None:
        page = reader().go(path)
        expect(page.locator("[role=row]").first).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("a")
        field = page.get_by_role("searchbox")
        page.keyboard.press("Escape")
        expect(field).to_have_value("")
        expect(field).to_be_focused()
        expect(page.locator("[role=row]").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(field).not_to_be_focused()
        page.keyboard.press("j")
        expect(page.locator(".row-active")).to_have_count(1)

    def test_esc_leaves_a_prompt_and_takes_nothing_of_it(self, reader: OpenReader) -> None:
        page = reader().go("/context")
        page.keyboard.press("/")
        field = page.get_by_label("Prompt")
        expect(field).to_be_focused()
        page.keyboard.type("why do the tests hang")
        page.keyboard.press("Escape")
        expect(field).to_have_value("why do the tests hang")
        expect(page.locator("main")).to_be_focused()

    def test_esc_closes_the_offers_of_the_graphs_search_before_it_leaves(
        self, reader: OpenReader
    ) -> None:
        page = reader().go("/graph")
        page.locator(".force[data-settled=true]").wait_for()
        page.keyboard.press("/")
        field = page.get_by_role("combobox", name="Find a node")
        page.keyboard.type("re")
        expect(field).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("Escape")
        expect(field).to_have_attribute("aria-expanded", "false")
        expect(field).to_be_focused()
        page.keyboard.press("Escape")
        expect(field).not_to_be_focused()


class TestTheDisk:
    @pytest.fixture
    def locked(self, project: Path) -> Iterator[Path]:
        path = project / ".agent" / "memories.md"
        path.chmod(0o444)
        yield path
        path.chmod(0o644)

    def test_a_read_only_file_is_a_sentence_and_the_text_is_kept(
        self, reader: OpenReader, locked: Path
    ) -> None:
        before = locked.read_bytes()
        window = reader()
        window.excused.append("status of 403")
        page = window.go("/memory")
        page.get_by_role("button", name="Add a memory").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Text").fill("The quokka waits.")
        dialog.get_by_role("button", name="Preview").click()
        failure = dialog.get_by_role("alert")
        expect(failure).to_contain_text("memories.md")
        expect(failure).to_contain_text(
            "Nothing was changed. Make the file and its folder writable, and try again."
        )
        expect(dialog.get_by_label("Text")).to_have_value("The quokka waits.")
        keep(page, "disk-read-only")
        assert locked.read_bytes() == before
        locked.chmod(0o644)
        dialog.get_by_role("button", name="Preview").click()
        expect(dialog.locator(".diff")).to_be_visible()

    def test_a_secret_is_insisted_on_with_a_box_and_no_option_is_named(
        self, reader: OpenReader
    ) -> None:
        window = reader()
        window.excused.append("status of 400")
        page = window.go("/memory")
        page.get_by_role("button", name="Add a memory").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Text").fill(
            "The token is ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ."
        )
        dialog.get_by_role("button", name="Preview").click()
        expect(dialog.get_by_role("alert")).to_contain_text("looks like a secret")
        assert not re.search(r"--[a-z]", dialog.inner_text())
        dialog.get_by_label("save anyway").check()
        dialog.get_by_role("button", name="Preview").click()
        expect(dialog.locator(".diff")).to_be_visible()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ralph web` on a project with ten thousand memories."""
    root = tmp_path_factory.mktemp("large") / "shop"
    root.mkdir()
    sample.make(root, RECORDS)
    with Site(root, tmp_path_factory.mktemp("home")) as running:
        yield running


def worked(events: list[dict[str, Any]]) -> float:
    """The most milliseconds that the page's thread worked in one of its tasks."""
    named = [event for event in events if event.get("name") == "thread_name"]
    main = {
        (event["pid"], event["tid"]) for event in named if event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event
        for event in events
        if "RunTask" in event["name"] and (event["pid"], event["tid"]) in main
    ]
    assert tasks, "the browser tells of no task"
    return float(max(event.get("tdur", 0) for event in tasks)) / 1000


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
@pytest.mark.soak
def test_the_layout_of_a_large_graph_is_no_long_task(
    browser: Browser, large: Site, motion: Any
) -> None:
    window = Reader(browser, large)
    page = window.page
    page.emulate_media(reduced_motion=motion)
    window.go("/memory")
    expect(page.locator("[role=row]").first).to_be_visible()
    browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    page.keyboard.press("g")
    page.keyboard.press("g")
    picture = page.locator(".force[data-settled=true]")
    picture.wait_for()
    longest = worked(json.loads(browser.stop_tracing())["traceEvents"])
    assert picture.get_attribute("data-nodes") == "400"
    print(f"\nlongest task of the graph's layout ({motion}): {longest:.0f} ms of work")  # noqa: T201  (for people)
    assert longest < LONGEST_TASK
    assert window.troubles == []
    window.close()
