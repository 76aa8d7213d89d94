"""A project that has recorded sessions and kept nothing yet: its proposals are decided with one click, and undone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.e2e.web.changing import everything
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import keep
from tests.e2e.web.shop import loaded
from tests.support.proposals import propose_from
from tests.support.situations import TEACHING

from ralph.core import paths
from ralph.learning import inbox, review
from ralph.memory import reading

pytestmark = pytest.mark.e2e

BUILD = TEACHING["a build that the tests need"]
SERVICE = TEACHING["a service that was not up"]
ERROR = "Cannot find module '../dist/parser.js'"
FEW_STOPS = 40
"""Tab reaches everything on the page within so many stops."""
SIMILAR = "Run `npm run build` before `npm test`, because ../dist/parser.js is generated."


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two sessions, two proposals and no memories."""
    root = tmp_path_factory.mktemp("recorded") / "shop"
    (root / ".ralph").mkdir(parents=True)
    propose_from(root, BUILD, "host-1")
    propose_from(root, SERVICE, "host-2")
    return root


@pytest.fixture(autouse=True)
def _unchanged(project: Path) -> Iterator[None]:
    """Restore the files after each test, so that every test starts with two proposals."""
    before = everything(project)
    yield
    for name in everything(project).keys() - before.keys():
        paths.source_path(project, name).unlink()
    for name, content in before.items():
        paths.source_path(project, name).write_bytes(content)


def texts(root: Path) -> list[str]:
    return [stored.record.text for stored in reading.list_entries(root)]


def test_the_memory_page_without_memories_offers_what_was_learned(
    reader: OpenReader, project: Path
) -> None:
    page = loaded(reader(), "/memory")
    expect(page.locator(".recorded-title")).to_contain_text("2 sessions with 6 steps")
    proposals = page.get_by_role("list", name="Proposals").locator("> li")
    expect(proposals).to_have_count(2)
    card = proposals.filter(has_text=ERROR)
    expect(card.locator(".quotes li")).to_contain_text([ERROR, "npm run build", "npm test"])
    expect(page.locator(".entries .entry")).to_have_count(2)
    keep(page, "memory-recorded")
    card.get_by_role("button", name="Accept").click()
    expect(page.locator("article.hit")).to_contain_text([ERROR])
    assert len(texts(project)) == 1
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(proposals).to_have_count(2)
    assert texts(project) == []


def test_proposals_are_edited_merged_and_rejected_on_the_review_page(
    reader: OpenReader, project: Path
) -> None:
    page = loaded(reader(), "/review")
    section = page.get_by_role("region", name="Proposals")
    cards = section.locator(".insight")
    expect(cards).to_have_count(2)
    keep(page, "review-proposals")
    build = cards.filter(has_text=ERROR)
    build.get_by_role("button", name="Reject").click()
    expect(cards).to_have_count(1)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(cards).to_have_count(2)

    cards.filter(has_text="5432").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Text").fill(SIMILAR)
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(cards).to_have_count(1)
    assert texts(project) == [SIMILAR]

    build.get_by_role("button", name="Merge").click()
    text = dialog.get_by_role("textbox")
    assert text.input_value().startswith(f"{SIMILAR}\n`npm test` failed")
    text.fill(f"{SIMILAR} It is not committed.")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("button", name="Merge", exact=True).click()
    expect(section).to_have_count(0)
    assert texts(project) == [f"{SIMILAR} It is not committed."]


def test_proposals_are_decided_with_the_keyboard_alone(reader: OpenReader, project: Path) -> None:
    page = loaded(reader(), "/")
    page.keyboard.press("g")
    page.keyboard.press("v")
    cards = page.get_by_role("region", name="Proposals").locator(".insight")
    expect(cards).to_have_count(2)
    first = cards.first.get_by_role("button", name="Accept")
    for _ in range(FEW_STOPS):
        page.keyboard.press("Tab")
        if first.evaluate("button => button === document.activeElement"):
            break
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(cards).to_have_count(1)
    expect(cards.first.get_by_role("button", name="Accept")).to_be_focused()
    for _ in range(FEW_STOPS):
        if cards.first.get_by_role("button", name="Reject").evaluate(
            "button => button === document.activeElement"
        ):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(cards).to_have_count(0)
    expect(page.locator("main")).to_be_focused()
    assert len(texts(project)) == 1


def test_the_pages_say_what_was_learned_and_from_what(reader: OpenReader, project: Path) -> None:
    [build, _] = [item.id for item in inbox.items(project) if item.kind == inbox.PROPOSAL]
    learned = review.accept(project, build).record
    page = loaded(reader(), "/")
    section = page.get_by_role("region", name="Learned")
    expect(section).to_contain_text("1 memory added this week")
    expect(section.locator(".waiting-list a")).to_contain_text([ERROR])
    expect(page.get_by_role("region", name="Needs your review")).to_contain_text("5432")
    keep(page, "dashboard-learned")
    page = loaded(reader(), f"/memory/{learned.id}")
    card = page.locator(".card", has=page.get_by_role("heading", name="Learned from"))
    expect(card.get_by_role("link")).to_have_count(3)
    keep(page, "record-learned-from")
    card.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Bash: ")
