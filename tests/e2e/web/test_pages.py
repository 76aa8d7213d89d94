"""Every page opens from the way about and shows what the sample holds; an empty project says what to do.

Content is named as a person reads it, so that a page which shows ids instead of titles fails. The empty project is a
fresh `ralph init`: each page has a sentence, and a command where one helps. Errors of the server are its sentences.
"""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, Site
from tests.e2e.web.shop import Shop, loaded

pytestmark = pytest.mark.e2e

PLACES = {
    "Dashboard": (
        "/",
        ("Search orders by name", "Begin with the address form.", "Number invoices without gaps"),
    ),
    "Memory": ("/memory", ("Sums of prices",)),
    "Review": ("/review", ("Proposed", "Accepted", "Memories to check")),
    "Sessions": ("/sessions", ("How is VAT computed on an invoice?", "plan mode", "agent mode")),
    "Runs": ("/runs", ("Round sums in the cart", "Number invoices without gaps")),
    "Tasks": ("/tasks", ("Checkout in one page", "Import the rest of the SOAP orders")),
    "Context": ("/context", ("Type a prompt",)),
    "Graph": ("/graph", ("Find a node", "Path between two nodes")),
    "Connections": ("/connections", ("Clients", "memories.budget", "ralph.yml:3")),
}
"""The pages of the rail: their addresses, and what is read on each."""
COMMANDS = {
    "/": "ralph install",
    "/memory": "ralph install",
    "/sessions": "ralph install",
    "/sessions?view=tasks": "ralph session chat",
    "/runs": "ralph loop start",
    "/tasks": "ralph task add",
    "/context": "ralph context",
    "/context?event=SessionStart": "ralph memory add",
    "/graph": "ralph memory add",
    "/connections": "ralph install",
}
"""What an empty project tells one to do on each page."""


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site)


def one_head(page: Page) -> None:
    """There is one heading of the whole, and the window is called by it."""
    expect(page.locator("h1")).to_have_count(1)
    expect(page).to_have_title(f"{page.locator('h1').inner_text()} · Ralph")


class TestTheWayAbout:
    def test_each_page_opens_from_the_rail_with_its_heading_and_content(
        self, reader: OpenReader
    ) -> None:
        page = loaded(reader(), "/tasks")
        rail = page.get_by_role("navigation", name="Pages", exact=True)
        for name, (path, content) in PLACES.items():
            rail.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(
                "Context preview" if name == "Context" else name
            )
            assert page.evaluate("location.pathname") == path
            for words in content:
                expect(page.locator("main").get_by_text(words, exact=True).first).to_be_visible()
            expect(page.locator("nav.places [aria-current=page]")).to_have_text(name)
            one_head(page)

    def test_on_a_narrow_screen_the_bar_at_the_bottom_leads_everywhere(
        self, reader: OpenReader
    ) -> None:
        page = loaded(reader(width=360, height=740), "/")
        for name in PLACES:
            bar = page.locator(".bottom-bar")
            if not bar.get_by_role("link", name=name, exact=True).count():
                bar.get_by_role("button", name="More").click()
            bar_or_dialog = page.locator(".bottom-bar, dialog[open]").last
            bar_or_dialog.get_by_role("link", name=name, exact=True).click()
            expect(page.locator("dialog[open]")).to_have_count(0)
            expect(page.get_by_role("heading", level=1)).to_have_text(
                "Context preview" if name == "Context" else name
            )

    def test_two_keys_lead_to_a_page_and_the_window_goes_back(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/")
        for key, head in (("m", "Memory"), ("g", "Graph"), ("t", "Tasks"), ("d", "Dashboard")):
            page.keyboard.press("g")
            page.keyboard.press(key)
            expect(page.get_by_role("heading", level=1)).to_have_text(head)
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")

    def test_an_address_that_is_none_says_so_and_leads_back(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/no/such/page")
        expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
        page.get_by_role("link", name="Go to the dashboard").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Dashboard")


class TestTheDashboard:
    def test_tasks_are_filtered_by_state_and_sorted(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), "/")
        tasks = page.get_by_role("list", name="Tasks").get_by_role("link")
        expect(tasks).to_have_count(shop.get("/api/tasks")["total"])
        page.get_by_role("button", name="failed").click()
        expect(tasks).to_have_count(2)
        expect(page.locator("ul[aria-label=Tasks] .state")).to_have_text(
            ["✕ failed"] * 2, use_inner_text=True
        )
        page.get_by_role("button", name="failed").click()
        page.get_by_label("Sort by").select_option("title")
        titles = page.locator("ul[aria-label=Tasks] .entry-title")
        every = sorted(
            (str(each["title"]) for each in shop.get("/api/tasks")["items"]), key=str.casefold
        )
        expect(titles).to_have_text([*every])

    def test_each_plot_has_its_numbers_as_a_table(self, reader: OpenReader, shop: Shop) -> None:
        tokens = shop.get("/api/dashboard")["tokens"]
        page = loaded(reader(), "/")
        plot = page.locator("figure.plot").first
        plot.locator("canvas").wait_for()
        plot.get_by_text("The numbers as a table").click()
        newest = plot.locator("tbody tr").first.locator("th, td").all_inner_texts()
        assert newest == [
            tokens["days"][-1],
            f"{tokens['given'][-1]:,}",
            f"{tokens['used'][-1]:,}",
        ]
        expect(plot.locator("tbody tr")).to_have_count(len(tokens["days"]))
        assert "days from" in (plot.locator("[role=img]").get_attribute("aria-label") or "")

    def test_sessions_and_what_was_learned_come_before_tasks_and_cost(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        week, waiting = shop.get("/api/dashboard")["week"], shop.get("/api/review")
        page = loaded(reader(), "/")
        expect(page.locator(".board h2")).to_have_text(
            [
                "This week",
                "Recent sessions",
                "Learned",
                "Needs your review",
                "Tasks",
                "Context over time",
                "Memory health",
                "Recent runs",
            ]
        )
        headline = page.locator(".week-words")
        expect(headline).to_contain_text(f"In {week['sessions']} sessions, Ralph gave your agents")
        expect(headline).to_contain_text(f"{week['memories_given']} times")
        expect(headline).to_contain_text(f"They used it {week['referenced']} times.")
        expect(page.locator(".next-step").get_by_role("link")).to_have_text("Review 1 proposal")
        review = page.get_by_role("region", name="Needs your review")
        expect(review.get_by_role("listitem")).to_have_count(min(3, waiting["total"]))
        page.get_by_role("link", name=f"Review all {waiting['total']}").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Review")

    def test_nothing_used_is_not_the_headline_and_has_a_next_step(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        board = shop.get("/api/dashboard")
        board["week"]["referenced"] = 0
        board["learning"]["waiting"] = 0
        window = reader()
        window.page.route("**/api/dashboard", lambda route: route.fulfill(json=board))
        page = loaded(window, "/")
        expect(page.locator(".week-words")).not_to_contain_text("used")
        page.get_by_role("link", name="See what a prompt is given").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Context preview")

    def test_features_that_are_not_in_use_have_no_card(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        board = shop.get("/api/dashboard")
        board["tasks"] = {"items": [], "by_state": {}, "notes": []}
        board["runs"] = []
        window = reader()
        window.page.route("**/api/dashboard", lambda route: route.fulfill(json=board))
        heads = loaded(window, "/").locator(".board h2")
        expect(heads.filter(has_text="Learned")).to_have_count(1)
        assert not {"Tasks", "Running now", "Recent runs"} & {*heads.all_inner_texts()}

    def test_memory_health_is_four_numbers(self, reader: OpenReader, shop: Shop) -> None:
        counts = shop.get("/api/review")["counts"] | shop.get("/api/secrets")
        page = loaded(reader(), "/")
        for key, name in (
            ("citation", "stale"),
            ("unused", "unused"),
            ("duplicate", "duplicates"),
            ("secrets", "secrets"),
        ):
            number = page.locator(".health > div", has_text=name).locator("dd")
            expect(number).to_have_text(str(counts.get(key, 0)))
        page.locator(".health a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Review")

    @pytest.mark.parametrize(("days", "plots"), [(2, 0), (3, 2)], ids=["two-days", "three-days"])
    def test_there_are_plots_from_three_days_on(
        self, reader: OpenReader, shop: Shop, days: int, plots: int
    ) -> None:
        board = shop.get("/api/dashboard")
        names = [f"2026-03-0{day}" for day in range(1, days + 1)]
        board["tokens"] = {
            "days": names,
            "given": [40] * days,
            "used": [10] * days,
            "rate": [0.25] * days,
        }
        window = reader()
        window.page.route("**/api/dashboard", lambda route: route.fulfill(json=board))
        page = loaded(window, "/")
        expect(page.locator("figure.plot")).to_have_count(plots)


def test_connections_show_response_times_and_all_settings(reader: OpenReader) -> None:
    page = loaded(reader(), "/connections")
    expect(page.get_by_role("row", name="Prompt")).to_contain_text(" ms")
    settings = page.get_by_role("region", name="Table of settings").locator("tbody tr")
    own = settings.count()
    page.get_by_role("button", name="All ").last.click()
    expect(settings.filter(has_text="context.window")).to_contain_text("default")
    assert settings.count() > own


class TestTasks:
    def test_the_list_is_searched_and_filtered_and_the_address_holds_the_question(
        self, reader: OpenReader
    ) -> None:
        page = loaded(reader(), "/tasks")
        page.get_by_label("Search tasks").fill("invoice")
        expect(page.get_by_role("row")).to_have_count(2)
        page.get_by_role("button", name="failed").click()
        expect(page.get_by_role("row")).to_have_count(1)
        assert page.evaluate("location.search") == "?q=invoice&state=failed"
        page.reload()
        expect(page.get_by_role("row")).to_have_count(1)
        page.get_by_label("Search tasks").fill("nothing like it")
        expect(page.get_by_text("No tasks match")).to_be_visible()

    def test_one_task_has_its_stories_parts_chats_and_log(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/tasks")
        page.get_by_text("Checkout in one page").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Checkout in one page")
        expect(page.get_by_text("1 of 3 passed")).to_be_visible()
        for words in (
            "Pay with a saved card",
            "Works without JavaScript",
            "Mail the invoice",
            "plan mode",
            "agent mode",
        ):
            expect(page.locator("main").get_by_text(words, exact=True)).to_be_visible()
        page.get_by_role("link", name="Number invoices without gaps").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Number invoices without gaps")
        expect(page.get_by_text("no database").first).to_be_visible()

    def test_progress_is_shown_without_ralphs_own_marks(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        page = loaded(reader(), f"/tasks/{shop.task('Round sums in the cart')}")
        progress = page.locator(".progress")
        expect(progress).to_contain_text("Sums of prices are rounded once")
        assert "[//]" not in progress.inner_text()
        assert "Outcome: retried" in progress.inner_text().split("\n")


def test_each_page_of_an_empty_project_shows_a_command_that_its_button_copies(
    reader: OpenReader, empty: Site
) -> None:
    window = reader(empty)
    for path, words in COMMANDS.items():
        page = loaded(window, path)
        expect(page.locator("main .command code", has_text=words).first).to_be_visible()
        assert page.locator("main .empty-title, main .setup-title").first.inner_text()
        one_head(page)
    expect(loaded(window, "/review").locator("main")).to_contain_text("Nothing to review")
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = loaded(window, "/tasks")
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator(".command [role=status]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == 'ralph task add "what should be done"'


class TestErrors:
    def test_what_is_not_there_is_a_sentence(self, reader: OpenReader) -> None:
        window = reader()
        window.excused.append("Failed to load resource")
        for path, sentence in (
            ("/tasks/t-000000", "Task not found: t-000000"),
            ("/sessions/nobody", "Session not found: nobody"),
            ("/runs/run-00000000", "Run not found: run-00000000"),
            ("/memory/mem-0-0000", "Record not found: mem-0-0000"),
            ("/graph?as_of=soon", "'soon' is not a date or time"),
        ):
            page = loaded(window, path)
            expect(page.locator("main")).to_contain_text(sentence)
            expect(page.locator("h1")).to_have_count(1)

    def test_an_error_has_its_hint_and_can_be_tried_again(self, reader: OpenReader) -> None:
        window = reader()
        window.excused.append("status of 409")
        said = {
            "error": {
                "message": "the index is busy",
                "hint": "wait until the other command has ended",
            }
        }
        answers = iter([json.dumps(said)])

        def once(route: Route) -> None:
            told = next(answers, None)
            if told is None:
                route.continue_()
            else:
                route.fulfill(status=409, content_type="application/json", body=told)

        window.page.route("**/api/dashboard", once)
        page = window.go("/")
        failure = page.get_by_role("alert")
        expect(failure).to_contain_text("The index is busy")
        expect(failure).to_contain_text("Wait until the other command has ended")
        failure.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("Search orders by name")).to_be_visible()
        expect(failure).to_have_count(0)

    def test_a_server_that_has_ended_is_said(
        self, browser: Browser, project: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        with Site(project, tmp_path_factory.mktemp("home")) as brief:
            window = Reader(browser, brief)
            page = loaded(window, "/tasks")
        try:
            expect(page.locator(".line")).to_have_text("Not connected")
            page.get_by_label("Search tasks").fill("invoice")
            expect(page.get_by_role("alert")).to_contain_text("The server does not respond.")
            expect(page.get_by_role("alert")).to_contain_text("ralph web")
        finally:
            window.close()
