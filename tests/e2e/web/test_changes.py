"""Every change in the pages: its diff first, then exactly that on the disk, then every byte as it was.

The person at it is `Change` (`changing.py`), which compares what the browser was told with what it drew and with the
files. The fixture `shop` gives each test the project, and looks at the end that all of its bytes are back.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.e2e.web.changing import Change, everything
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, keep
from tests.e2e.web.shop import loaded
from tests.support import sample
from tests.support.page_texts import ORDER
from tests.support.sample import Sample

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.memory import memory
from ralph.memory.author import BY_AGENT

pytestmark = pytest.mark.e2e

MEMORIES = ".agent/memories.md"
SECRET = "The deploy key is ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ, for all stages."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return sample.copied(tmp_path_factory.mktemp("project") / "shop")


@pytest.fixture(scope="module")
def project(made: Sample) -> Path:
    """The project of the site in this file, of which the tests know the ids."""
    return made.root


@pytest.fixture
def shop(made: Sample) -> Iterator[Sample]:
    """The project, which a test leaves as it found it, to the byte."""
    before = everything(made.root)
    yield made
    after = everything(made.root)
    for name in after.keys() - before.keys():
        paths.source_path(made.root, name).unlink()
    for name, said in before.items():
        if after.get(name) != said:  # so that one test that fails does not make the next ones fail
            paths.source_path(made.root, name).write_bytes(said)
    assert sorted(after) == sorted(before)
    assert [name for name in after if after[name] != before[name]] == []


@pytest.fixture
def window(reader: OpenReader) -> Reader:
    return reader()


def at(window: Reader, shop: Sample, name: str) -> Change:
    """A memory's page."""
    page = window.go(f"/memory/{shop.memories[name]}")
    page.get_by_role("heading", name="Facts").wait_for()
    return Change(page, shop.root)


# --- one by one ---------------------------------------------------------------------------------


def test_an_edit_shows_its_diff_is_written_and_taken_back(window: Reader, shop: Sample) -> None:
    change = at(window, shop, "vat")
    page = change.page
    page.get_by_role("button", name="Edit").click()
    text = change.dialog.get_by_label("Text")
    expect(text).to_be_focused()
    expect(text).to_have_value(re.compile("VAT is computed per line"))
    text.fill("VAT is computed per line.\n\n- 세금은 줄마다\n- `round()` at the end")
    change.dialog.get_by_label("Type", exact=True).select_option("fix")
    wanted = change.see()
    assert list(wanted) == [MEMORIES]
    assert MEMORIES in change.plan["summary"]
    keep(page, "edit-diff")
    change.apply("Save", wanted)
    expect(page.locator("main")).to_contain_text("세금은 줄마다")
    expect(page.locator(".page-sub .kind")).to_have_text("fix")
    change.undo()
    expect(page.locator("main")).to_contain_text("because the tax office checks each line")
    expect(page.locator(".page-sub .kind")).to_have_text("decision")


def test_tags_are_changed_with_completion(window: Reader, shop: Sample) -> None:
    change = at(window, shop, "jwt")
    page = change.page
    page.get_by_role("button", name="Tags").click()
    field = change.dialog.get_by_role("combobox", name="Tags")
    expect(field).to_be_focused()
    field.press_sequentially("mon")
    expect(change.dialog.get_by_role("option", name="money")).to_be_visible()
    field.press("ArrowDown")
    field.press("Enter")
    field.press_sequentially("brand-new,")
    change.dialog.get_by_role("button", name="Remove the tag jwt").click()
    change.apply("Save", change.see())
    expect(page.locator(".facts-tags .chip")).to_have_text(
        ["auth", "security", "money", "brand-new"]
    )
    change.undo()
    expect(page.locator(".facts-tags .chip")).to_have_text(["auth", "jwt", "security"])


def test_an_archived_record_is_not_listed_until_it_is_unarchived(
    window: Reader, shop: Sample
) -> None:
    path = shop.root / MEMORIES
    original = path.read_bytes()
    change = at(window, shop, "flags")
    page = change.page
    change.apply("Archive", change.looked(page.get_by_role("button", name="Archive", exact=True)))
    expect(page.locator(".page-sub .badge")).to_contain_text("archived")
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
    window.go("/memory?q=feature+flags+read+once")
    expect(page.locator(".results")).to_contain_text(
        ".ralph/global-patterns.md"
    )  # the same words elsewhere
    expect(page.locator(f".results a[href='/memory/{shop.memories['flags']}']")).to_have_count(0)
    change = at(window, shop, "flags")
    change.apply("Unarchive", change.looked(page.get_by_role("button", name="Unarchive")))
    expect(page.get_by_role("button", name="Archive", exact=True)).to_be_visible()
    expect(page.locator(".page-sub .badge")).to_have_count(0)
    change.undo()
    expect(page.get_by_role("button", name="Unarchive")).to_be_visible()
    path.write_bytes(original)


def test_what_is_deleted_is_out_of_its_file_and_comes_back(window: Reader, shop: Sample) -> None:
    change = at(window, shop, "redis")
    page = change.page
    change.apply("Delete", change.looked(page.get_by_role("button", name="Delete")))
    expect(page.get_by_role("heading", name="Memory", level=1)).to_be_visible()
    assert shop.memories["redis"] not in (shop.root / MEMORIES).read_text(encoding="utf-8")
    change.undo()
    at(window, shop, "redis")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Tests hang when Redis is down")


@pytest.mark.parametrize(
    ("to", "file"),
    [
        ("AGENTS.md", "AGENTS.md"),
        pytest.param("CLAUDE.md", "CLAUDE.md", marks=pytest.mark.soak),
        pytest.param("Patterns", ".ralph/global-patterns.md", marks=pytest.mark.soak),
    ],
)
def test_a_memory_is_promoted_to_where_every_agent_reads_it(
    window: Reader, shop: Sample, to: str, file: str
) -> None:
    change = at(window, shop, "vat")
    change.page.get_by_role("button", name="Promote").click()
    change.dialog.get_by_role("radio", name=to).check()
    change.dialog.get_by_label("Replacement text").fill(
        "VAT is computed per line, never per invoice."
    )
    wanted = change.see()
    assert file in wanted
    change.apply("Promote", wanted)
    assert "VAT is computed per line, never per invoice." in (shop.root / file).read_text(
        encoding="utf-8"
    )
    change.undo()


def test_a_guardrail_and_a_knowledge_page_change_in_their_own_files(
    window: Reader, shop: Sample
) -> None:
    change = at(window, shop, "main")
    change.page.get_by_role("button", name="Edit").click()
    change.dialog.get_by_label("Text").fill("Never push to main.")
    wanted = change.see()
    assert list(wanted) == [".ralph/guardrails.md"]
    change.apply("Save", wanted)
    change.undo()

    page = window.go("/memory/know-how-checkout-works")
    page.get_by_role("button", name="Edit").click()
    change.dialog.get_by_label("Title", exact=True).fill("How checkout really works")
    change.dialog.get_by_label("Text").fill(
        "A cart becomes an order.\n\nSee [[Payments and receipts]]."
    )
    wanted = change.see()
    assert all("knowledge" in name for name in wanted)
    change.apply("Save", wanted)
    change.undo()
    expect(page.get_by_role("heading", level=1)).to_have_text("How checkout works")


def test_an_insight_is_accepted_and_rejected_and_promoted(window: Reader, shop: Sample) -> None:
    page = loaded(window, "/review")
    change = Change(page, shop.root)
    insights = page.get_by_role("region", name="From tasks")
    listed = insights.locator(".insight")
    card = listed.first
    link = card.locator(".insight-title a").get_attribute("href")
    mine = insights.locator(".insight", has=page.locator(f"a[href='{link}']"))
    waiting = listed.count()
    for button, words, state in (
        ("Accept", "Accept", "Accepted"),
        ("Reject", "Reject", "Rejected"),
    ):
        change.apply(words, change.looked(card.get_by_role("button", name=button)))
        answer = page.evaluate(
            "() => fetch('/api/insights?status=proposed').then((answer) => answer.text())"
        )
        expect(listed, answer).to_have_count(waiting - 1)
        page.get_by_role("button", name=state, exact=True).click()
        expect(mine).to_have_count(1)
        change.undo()
        expect(mine).to_have_count(0)
        page.get_by_role("button", name="Proposed", exact=True).click()
        expect(listed).to_have_count(waiting)
    card.get_by_role("button", name="Promote").click()
    change.dialog.get_by_role("radio", name="Memory").check()
    change.dialog.get_by_label("Replacement text").fill(
        "What the task has taught us, in a sentence of our own."
    )
    change.see()
    names = [each["name"] for each in change.plan["files"]]
    assert MEMORIES in names
    change.dialog.get_by_role("button", name="Promote", exact=True).click()
    expect(page.locator(".toasts")).to_contain_text("Promoted")
    assert "a sentence of our own" in (shop.root / MEMORIES).read_text(encoding="utf-8")
    change.undo()


def test_a_held_memory_is_listed_with_its_decisions_and_accepted(
    window: Reader, shop: Sample
) -> None:
    with pytest.raises(Refused):
        memory.add(shop.root, ORDER, context=BY_AGENT)
    page = loaded(window, "/review")
    change = Change(page, shop.root)
    held = page.get_by_role("region", name="Held memories")
    expect(held).to_contain_text(ORDER)
    expect(held.locator("dl.decisions dt")).to_have_text(["Accept", "Reject"])
    change.looked(held.get_by_role("button", name="Accept"))
    change.dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(held).to_have_count(0)
    assert ORDER in (shop.root / MEMORIES).read_text(encoding="utf-8")
    page.locator(".toasts").get_by_role("button", name="Undo").click()
    expect(held).to_contain_text(ORDER)
    change.looked(held.get_by_role("button", name="Reject"))
    change.dialog.get_by_role("button", name="Reject", exact=True).click()
    expect(held).to_have_count(0)
    assert ORDER not in (shop.root / MEMORIES).read_text(encoding="utf-8")
    paths.held_memories(shop.root).unlink()


def test_a_change_is_made_with_the_keyboard_alone(window: Reader, shop: Sample) -> None:
    change = at(window, shop, "dates")
    page = change.page

    def to(button: str) -> None:
        wanted = page.get_by_role("button", name=button, exact=True)
        for _ in range(40):
            page.keyboard.press("Tab")
            if wanted.evaluate("(one) => one === document.activeElement"):
                return
        raise AssertionError(f"Tab does not come to {button}")

    to("Edit")
    page.keyboard.press("Enter")
    expect(change.dialog.get_by_label("Text")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" Always.")
    to("Preview")
    page.keyboard.press("Enter")
    expect(change.dialog.locator(".diff-plus").first).to_contain_text("time zone. Always.")
    to("Save")
    page.keyboard.press("Enter")
    expect(change.dialog).to_have_count(0)
    expect(page.locator("main")).to_contain_text("time zone. Always.")
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_focused()
    to("Undo")
    page.keyboard.press("Enter")
    expect(page.locator("main")).not_to_contain_text("Always.")


# --- adding -------------------------------------------------------------------------------------

_ID = re.compile(r"(mem|sign|gr|guard|know)-\d{6,}-[0-9a-f]{4}|(at|updated)=[-0-9T:.]+Z")


def test_a_memory_is_added_and_taken_back(window: Reader, shop: Sample) -> None:
    page = window.go("/memory")
    change = Change(page, shop.root)
    page.get_by_role("button", name="Add a memory").click()
    change.dialog.get_by_label("Text").fill(
        "결제는 재고보다 먼저: payment comes first. <private>my own note</private>"
    )
    change.dialog.get_by_label("Type", exact=True).select_option("decision")
    change.dialog.get_by_role("combobox", name="Tags").fill("payments")
    wanted = change.see()
    expect(change.dialog).to_contain_text("private")
    expect(change.dialog).not_to_contain_text("my own note")
    change.dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Added mem-")
    expect(page.get_by_role("heading", level=1)).to_contain_text("결제는 재고보다 먼저")
    expect(page.locator(".facts-tags .chip")).to_have_text(["payments"])
    now = (shop.root / MEMORIES).read_text(encoding="utf-8")
    assert _ID.sub("ID", now) == _ID.sub("ID", wanted[MEMORIES])
    window.excused.append("status of 404")
    change.undo()
    expect(page.get_by_role("heading", level=1)).to_have_text("Memory not found")


@pytest.mark.parametrize(
    ("what", "where"), [("Guardrail", ".ralph/guardrails.md"), ("Knowledge", "knowledge/")]
)
def test_what_is_added_goes_where_the_person_said(
    window: Reader, shop: Sample, what: str, where: str
) -> None:
    page = window.go("/memory")
    change = Change(page, shop.root)
    page.get_by_role("button", name="Add a memory").click()
    change.dialog.get_by_role("radio", name=what).check()
    if what == "Knowledge":
        change.dialog.get_by_label("Title", exact=True).fill("How parcels leave")
    change.dialog.get_by_label("Text").fill("Parcels leave at four; the courier does not wait.")
    if what == "Knowledge":
        window.excused.append("status of 400")
        change.dialog.get_by_role("button", name="Preview").click()
        expect(change.dialog.get_by_role("alert")).to_contain_text(
            "without a tag would never be found"
        )
        change.dialog.get_by_role("combobox", name="Tags").press_sequentially("parcels")
    change.see()
    names = [each["name"] for each in change.plan["files"]]
    assert len(names) == 1
    assert where in names[0]
    change.dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".toast")).to_contain_text(names[0])
    expect(page.locator("main")).to_contain_text("the courier does not wait")
    window.excused.append("status of 404")
    change.undo()


# --- what must not happen -----------------------------------------------------------------------


def test_nothing_is_written_before_somebody_says_yes(window: Reader, shop: Sample) -> None:
    change = at(window, shop, "dates")
    before = everything(shop.root)
    for button in ("Archive", "Delete"):
        change.looked(change.page.get_by_role("button", name=button))
        assert everything(shop.root) == before
        change.dialog.get_by_role("button", name="Cancel").click()
    assert everything(shop.root) == before


def test_a_file_that_somebody_changed_since_the_diff_is_not_written_over(
    window: Reader, shop: Sample
) -> None:
    window.excused.append("status of 409")
    path = shop.root / MEMORIES
    original = path.read_bytes()
    change = at(window, shop, "vat")
    page = change.page
    page.get_by_role("button", name="Edit").click()
    change.dialog.get_by_label("Text").fill("VAT: mine.")
    change.see()
    theirs = original.replace(b"Dates are stored in UTC", b"Dates are stored in Zulu time")
    assert theirs != original
    path.write_bytes(theirs)
    change.dialog.get_by_role("button", name="Save", exact=True).click()
    alert = change.dialog.get_by_role("alert")
    expect(alert).to_contain_text(MEMORIES)
    expect(alert).to_contain_text("changed")
    keep(page, "conflict")
    assert path.read_bytes() == theirs
    wanted = change.looked(change.dialog.get_by_role("button", name="Preview again"))
    assert "Zulu" in wanted[MEMORIES]
    change.apply("Save", wanted)
    assert b"Zulu" in path.read_bytes()
    change.undo()
    assert path.read_bytes() == theirs
    path.write_bytes(original)


def test_a_change_is_not_taken_back_over_what_somebody_wrote_since(
    window: Reader, shop: Sample
) -> None:
    window.excused.append("status of 409")
    path = shop.root / MEMORIES
    original = path.read_bytes()
    change = at(window, shop, "vat")
    page = change.page
    page.get_by_role("button", name="Edit").click()
    change.dialog.get_by_label("Text").fill("VAT: mine.")
    change.apply("Save", change.see())
    theirs = path.read_bytes().replace(b"VAT: mine.", b"VAT: theirs.")
    path.write_bytes(theirs)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast-failed")).to_contain_text(MEMORIES)
    assert path.read_bytes() == theirs
    path.write_bytes(original)


def test_a_secret_is_refused_with_a_sentence_and_the_text_stays(
    window: Reader, shop: Sample
) -> None:
    window.excused.append("status of 400")
    page = window.go("/memory")
    before = everything(shop.root)
    change = Change(page, shop.root)
    page.get_by_role("button", name="Add a memory").click()
    change.dialog.get_by_label("Text").fill(SECRET)
    change.dialog.get_by_role("button", name="Preview").click()
    expect(change.dialog.get_by_role("alert")).to_contain_text("secret")
    expect(change.dialog.get_by_role("alert")).not_to_contain_text("q7Rk2mXc9Lw4Tz8VbN3e")
    expect(change.dialog.get_by_label("Text")).to_have_value(SECRET)
    keep(page, "secret-refused")
    assert everything(shop.root) == before
    change.dialog.get_by_label("save anyway").check()
    wanted = change.see()
    assert SECRET in wanted[MEMORIES]
    assert everything(shop.root) == before
    page.keyboard.press("Escape")
    expect(page.locator(".toast")).to_contain_text("Your draft is kept")
    page.get_by_role("button", name="Add a memory").click()
    expect(change.dialog.get_by_label("Text")).to_have_value(SECRET)
    change.dialog.get_by_role("button", name="Discard").click()
    expect(change.dialog.get_by_label("Text")).to_have_value("")


def test_typed_text_outlives_a_change_of_the_record_by_somebody_else(
    window: Reader, shop: Sample
) -> None:
    path = shop.root / MEMORIES
    original = path.read_bytes()
    change = at(window, shop, "vat")
    page = change.page
    expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    text = change.dialog.get_by_label("Text")
    text.fill("Half a sentence that I am still")
    path.write_bytes(original.replace(b"VAT is computed per line", b"VAT is reckoned per line"))
    expect(change.dialog).to_contain_text("changed in its file after you opened this")
    expect(text).to_have_value("Half a sentence that I am still")
    expect(text).to_be_focused()
    wanted = change.see()
    assert "VAT is reckoned" not in wanted[MEMORIES]
    expect(change.dialog.locator(".diff-minus").first).to_contain_text("VAT is reckoned per line")
    change.apply("Save", wanted)
    change.undo()
    assert b"VAT is reckoned" in path.read_bytes()
    path.write_bytes(original)
