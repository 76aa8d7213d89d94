"""The context preview: what a prompt would bring, in its order and why, and a bar that adds up.

The page is held against the API's answer to the same question. Looking records nothing: what Ralph writes down of
injections, sessions and runs is the same afterwards, byte for byte.
"""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Site
from tests.e2e.web.shop import Shop, in_words, kept, loaded

pytestmark = pytest.mark.e2e

PROMPT = "Which key signs a JWT? Look at src/auth/keys.ts"


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site)


def preview(page: Page, told: dict[str, Any]) -> Locator:
    """The preview of this very answer."""
    shown = page.locator(
        f".preview[data-items='{len(told['items'])}'][data-used='{told['used']}']:not(.is-busy)"
    )
    shown.wait_for()
    return shown


def test_typing_a_prompt_shows_what_it_would_bring_in_its_order(
    reader: OpenReader, shop: Shop
) -> None:
    told = shop.post("/api/context", prompt=PROMPT)
    assert told["items"]
    page = loaded(reader(), "/context")
    page.get_by_label("Prompt").press_sequentially(PROMPT)
    shown = preview(page, told)
    assert shown.locator(".item-title").all_inner_texts() == [
        each["title"] for each in told["items"]
    ]
    assert shown.locator(".item-order").all_inner_texts() == [
        str(each["order"]) for each in told["items"]
    ]
    for place, each in enumerate(told["items"]):
        item = shown.locator(".item").nth(place)
        expect(item.locator(".item-tokens")).to_have_text(f"{each['tokens']} tokens")
        assert item.locator(".reason").all_inner_texts() == [in_words(why) for why in each["why"]]
    expect(page.locator("[aria-live=polite]").first).to_contain_text(f"{len(told['items'])} items")


def test_the_exact_text_and_the_address_belong_to_the_prompt(
    reader: OpenReader, shop: Shop
) -> None:
    answer = shop.post("/api/context", prompt=PROMPT)
    page = loaded(reader(), "/context")
    page.get_by_label("Prompt").fill(PROMPT)
    preview(page, answer)
    told = answer["left_out"]
    assert told
    reasons = page.locator(".left")
    expect(reasons).to_have_count(len({each["why"] for each in told}))
    expect(reasons.locator("a")).to_have_count(len(told))
    page.get_by_text(f"Full text for the agent ({answer['tokens']:,} tokens)").click()
    assert page.locator(".exact pre").inner_text().strip() == answer["text"].strip()
    page.reload()
    preview(page, answer)
    expect(page.get_by_label("Prompt")).to_have_value(PROMPT)


def test_the_bar_adds_up_to_what_the_server_says_and_a_preview_records_nothing(
    reader: OpenReader, site: Site, shop: Shop
) -> None:
    before = kept(site.root)
    assert "injections.jsonl" in before
    page = loaded(reader(), "/context")
    page.get_by_label("Prompt").fill(PROMPT)
    for event in ("UserPromptSubmit", "SessionStart"):
        told = shop.post("/api/context", prompt=PROMPT, event=event)
        assert sum(each["tokens"] for each in told["items"]) == told["used"]
        page.get_by_role("combobox", name="Given").select_option(event)
        shown = preview(page, told)
        expect(shown.locator(".budget-words")).to_contain_text(
            f"{told['used']:,} of {told['budget']:,} tokens"
        )
        parts = shown.locator(".budget-bar").last.locator(".budget-part")
        for _ in range(5):  # the page may draw the bar again in between
            expect(parts).to_have_count(len(told["items"]))
            grown = parts.evaluate_all(
                "parts => parts.map(part => Number(getComputedStyle(part).flexGrow))"
            )
            if len(grown) == len(told["items"]):
                break
        for share, each in zip(grown, told["items"], strict=True):
            assert share / sum(grown) == pytest.approx(each["tokens"] / told["used"], abs=0.001)
        bar = shown.locator(".budget-bar").first.get_attribute("aria-label") or ""
        assert f"{told['used']:,} of {told['budget']:,} tokens used" in bar
    assert kept(site.root) == before


def test_what_was_left_out_is_closed_on_a_phone(reader: OpenReader, shop: Shop) -> None:
    page = loaded(reader(width=360, height=740), "/context")
    page.get_by_label("Prompt").fill(PROMPT)
    closed = page.locator("details.left-out")
    expect(closed.locator(".left").first).to_be_hidden()
    closed.locator("summary").click()
    expect(closed.locator(".left").first).to_be_visible()


def test_a_segment_shows_its_item(reader: OpenReader, shop: Shop) -> None:
    page = loaded(reader(), "/context?event=SessionStart")
    part = page.locator(".budget-part").nth(3)
    part.click()
    expect(page.locator(".item.is-chosen .item-order")).to_have_text("4")
    expect(page.locator(".item.is-chosen")).to_be_in_viewport()
