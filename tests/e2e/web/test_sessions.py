"""Sessions, sub-chats, runs and what sets two of them apart, as a person reads them.

What was injected and used is held against the API; the rest is named by what the sample's people and agents said.
"""

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Site
from tests.e2e.web.shop import Shop, loaded

pytestmark = pytest.mark.e2e

POSTGRES = "Postgres is slow at night."
TOKENS = "The refresh tokens of src/auth/session.ts"


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site)


class TestSessions:
    def test_the_list_is_searched_and_narrowed_to_a_task(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        page = loaded(reader(), "/sessions")
        expect(page.get_by_role("row")).to_have_count(shop.get("/api/sessions")["total"])
        page.get_by_label("Search sessions").fill("VAT")
        expect(page.get_by_role("row")).to_have_count(1)
        page.get_by_label("Search sessions").fill("")
        page.get_by_label("Task", exact=True).select_option(label="Checkout in one page")
        expect(page.get_by_role("row")).to_have_count(2)
        expect(page.get_by_text("2 sessions")).to_be_visible()

    def test_sub_chats_stand_below_their_task_with_their_modes(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/sessions")
        page.get_by_role("tab", name="By task").click()
        group = page.locator(".group", has_text="Checkout in one page")
        expect(group.locator(".entry")).to_have_count(2)
        expect(group.locator(".entry", has_text="How would you split")).to_contain_text("plan mode")
        expect(group.locator(".entry", has_text="Begin with the address")).to_contain_text(
            "agent mode"
        )

    def test_a_timeline_tells_what_happened_in_its_order(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        session = shop.session(POSTGRES)
        told = shop.get(f"/api/sessions/{session}")["timeline"]
        page = loaded(reader(), f"/sessions/{session}")
        expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
        grid = page.get_by_role("grid", name="Timeline")
        expect(grid).to_have_attribute("aria-rowcount", str(told["total"]))
        expect(grid.get_by_role("row").nth(4).locator(".moment-text")).to_have_text(
            'column "legacy_id" cannot be dropped in one release'
        )
        expect(grid.get_by_role("row").nth(4)).to_contain_text("error")
        expect(grid.locator(".row-skeleton")).to_have_count(0)
        prompt = grid.locator("[aria-rowindex='1'] .given-here li")
        expect(prompt).to_contain_text([each["title"] for each in told["items"][0]["given"]])
        expect(page.locator(".timeline > .given-here")).to_contain_text(
            f"{len(told['before'])} items given at the start"
        )
        assert session not in page.locator("main").inner_text()
        shown = grid.locator(".moment-at").all_inner_texts()
        assert shown == sorted(shown)
        grid.focus()
        page.keyboard.press("End")
        expect(grid.locator(f"[aria-rowindex='{told['total']}']")).to_contain_text(
            "twenty connections"
        )
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(
            "with more than twenty Postgres slows down"
        )

    def test_what_was_injected_says_what_was_used(self, reader: OpenReader, shop: Shop) -> None:
        session = shop.session(TOKENS)
        told = shop.get(f"/api/sessions/{session}")["given"]
        used = [each for each in told if each["used"]]
        assert 0 < len(used) < len(told)
        page = loaded(reader(), f"/sessions/{session}")
        expect(page.locator(".points")).to_contain_text(f"{len(used)} of {len(told)}")
        page.get_by_role("tab", name="Given").click()
        rows = page.get_by_role("region", name="Table of what the agent was given").locator(
            "tbody tr"
        )
        expect(rows).to_have_count(len(told))
        shown = [
            row.split("\t")[0].replace("`", "") for row in rows.all_inner_texts()
        ]  # code has no backticks
        assert shown == [each["title"].replace("`", "") for each in told]
        expect(rows.locator(".state-used")).to_have_count(len(used))
        expect(
            rows.filter(has_text=used[0]["title"].replace("`", "")).locator(".state-used")
        ).to_be_visible()

    def test_a_summary_is_a_list_of_facts(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), f"/sessions/{shop.session(TOKENS)}?view=summary")
        lines = page.get_by_role("tabpanel").inner_text().split("\n")
        for beginning in (
            "Goal: The refresh tokens",
            "Changed: src/auth/session.ts",
            "Passed: npm test",
        ):
            assert any(line.startswith(beginning) for line in lines), lines


class TestChats:
    def test_a_plan_is_read_message_by_message(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), f"/sessions/{shop.session('How would you split')}")
        expect(page.locator(".head-states .mode")).to_have_text("plan mode")
        turns = page.locator(".turn")
        expect(turns).to_have_count(4)
        assert [each.lower() for each in page.locator(".turn-head b").all_inner_texts()] == [
            "user",
            "assistant",
        ] * 2
        expect(turns.nth(1).locator("ol li")).to_have_text(["address", "payment", "review"])
        expect(turns.nth(3).locator("strong")).to_have_text("each step is a form")
        expect(page.locator(".tool")).to_have_count(0)

    def test_an_agent_shows_the_tools_it_used(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), f"/sessions/{shop.session('Begin with the address')}")
        expect(page.locator(".head-states .mode")).to_have_text("agent mode")
        tool = page.locator(".tool").first
        expect(tool).to_contain_text("apply_patch")
        tool.locator("summary").click()
        expect(tool.locator("pre")).to_have_text("src/checkout.ts")
        expect(page.locator(".points a")).to_have_attribute(
            "href", f"/tasks/{shop.task('Checkout in one page')}"
        )


class TestRuns:
    def test_two_runs_are_compared_side_by_side_also_on_a_phone(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        one, other = shop.run("Round sums in the cart"), shop.run("Number invoices without gaps")
        page = loaded(reader(), f"/runs/{one}")
        page.get_by_role("link", name="Compare", exact=True).click()
        page.get_by_label("Second").select_option(other)
        rows = page.locator("table.compare tbody tr")
        expect(rows.filter(has_text="Status").get_by_role("cell")).to_contain_text(
            ["success", "failed"]
        )
        most = max(len(shop.get(f"/api/runs/{each}")["iterations"]) for each in (one, other))
        expect(rows.locator("th", has_text=re.compile(r"^Iteration \d"))).to_have_count(most)
        narrow = loaded(reader(width=360, height=740), f"/compare?a={one}&b={other}")
        narrow.locator("table.compare").wait_for()
        assert narrow.evaluate("document.documentElement.scrollWidth") == 360

    def test_iterations_tell_their_outcome_checks_and_what_changed(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        page = loaded(reader(), f"/runs/{shop.run('Round sums in the cart')}")
        expect(page.locator(".iteration")).to_have_count(3)
        outcomes = [each.get_attribute("data-outcome") for each in page.locator(".iteration").all()]
        assert outcomes == ["done", "retried", "blocked"]
        last, second = page.locator("#iteration-3"), page.locator("#iteration-2")
        expect(last).to_contain_text("2 of 2 checks passed")
        expect(second.locator(".checks pre")).to_have_text("ended with 1 instead of 0")
        second.get_by_text("1 file changed").click()
        expect(second.locator(".files")).to_have_text("src/cart/total.ts")

    def test_a_prompt_is_shown_with_what_changed_since_the_one_before(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        run = shop.run("Round sums in the cart")
        told = shop.get(f"/api/runs/{run}/prompts/2")
        page = loaded(reader(), f"/runs/{run}")
        asked = page.locator("#iteration-2 details", has_text="Prompt snapshot")
        asked.locator("summary").first.click()
        expect(asked).to_contain_text(f"{told['tokens']:,} tokens")
        added = [
            line[1:] for line in told["diff"].splitlines() if line[:1] == "+" and line[:3] != "+++"
        ]
        expect(asked.locator(".diff-plus .diff-text")).to_have_count(len(added))
        shown = asked.locator(".diff-plus .diff-text").all_inner_texts()
        assert [line.removeprefix("added:").strip() for line in shown] == [
            line.strip() for line in added
        ]
        asked.get_by_role("tab", name="Full prompt").click()
        assert asked.locator("pre.prompt").inner_text().strip() == told["text"].strip()
