"""The Memory Explorer as a person uses it: by typing, by choosing, and with the keyboard alone.

What the page shows is compared with what the API says at the same moment, so that no number stands here. Answers are
held back by the test where their order matters.
"""

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Error, Locator, Page, Route, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Reader, Site, keep
from tests.e2e.web.shop import Shop, in_words, painted

pytestmark = pytest.mark.e2e


@pytest.fixture
def window(reader: OpenReader) -> Reader:
    return reader()


def told(page: Page, path: str = "/api/records", **params: object) -> Any:
    """What the API says to this window; of records, about memories that are not only proposed unless told otherwise."""
    params = (
        {"family": "memory", "status": ("active", "raw"), **params}
        if path == "/api/records"
        else params
    )
    return page.evaluate(
        "(path) => fetch(path).then((answer) => answer.json())", f"{path}?{urlencode(params, True)}"
    )


def search(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search the memory")


def said(page: Page) -> Locator:
    """The line that says how many there are."""
    return page.locator(".summary [role=status]")


def hits(page: Page) -> Locator:
    return page.get_by_role("grid", name="Memories").get_by_role("row")


def active(page: Page) -> Locator:
    return page.locator(".row-active")


def asks(page: Page, **wanted: list[str]) -> None:
    """The address comes to ask just this; the browser tells of it a moment after the page has changed it."""
    page.wait_for_url(lambda address: parse_qs(urlsplit(address).query) == wanted)


def records(total: int) -> str:
    return f"{total:,} memor{'y' if total == 1 else 'ies'}"


# --- search -------------------------------------------------------------------------------------


def test_everything_is_there_before_a_word_is_typed(window: Reader) -> None:
    page = window.go("/memory")
    memories, everything = told(page), told(page, family=[], status=[])
    proposed = told(page, status="proposed")["items"]
    assert proposed
    assert not {row["id"] for row in proposed} & {
        row["id"] for row in told(page, limit=500)["items"]
    }
    expect(said(page)).to_contain_text(records(memories["total"]))
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(memories["total"]))
    expect(hits(page).first).to_contain_text(memories["items"][0]["source"])
    titles = page.get_by_role("complementary", name="Filters").locator("legend:visible")
    expect(titles).to_have_text(["Type", "Tag", "Age"])
    page.locator(".facets-more summary").click()
    expect(titles).to_have_text(["Type", "Tag", "Age", "Status"])
    keep(page, "explorer")
    page.get_by_role("switch", name="Include activity").click()
    expect(said(page)).to_contain_text(f"{everything['total']:,} results")
    asks(page, activity=["1"])


def test_the_list_follows_while_somebody_types(window: Reader) -> None:
    page = window.go("/memory")
    asked: list[str] = []
    page.on(
        "request",
        lambda request: asked.append(request.url) if "/api/records?" in request.url else None,
    )
    field = search(page)
    for word, more in (("redis", " tests"), ("redis tests", " hang")):
        field.press_sequentially(word if not field.input_value() else "")
        expect(said(page)).to_contain_text(f"for “{word}”")
        expect(hits(page).first.locator("mark").first).to_be_visible()
        field.press_sequentially(more)
    expect(said(page)).to_contain_text("for “redis tests hang”")
    expect(hits(page).first).to_contain_text("Redis")
    asks(page, q=["redis tests hang"])
    found = told(page, q="redis tests hang")
    expect(said(page)).to_contain_text(records(found["total"]))
    assert len(asked) < len("redis tests hang"), "not every key asks the server"
    field.press("Escape")
    expect(field).to_have_value("")
    expect(said(page)).not_to_contain_text("for “")
    asks(page)


def test_the_newest_answer_wins_whatever_order_answers_come_in(window: Reader) -> None:
    page = window.go("/memory")
    held: list[Route] = []
    page.route("**/api/records?*q=redis&*", lambda route: held.append(route))  # noqa: PLW0108  (Playwright marks it)
    # The page gives up what it no longer waits for; one that cannot be given up must not win either.
    page.evaluate(
        """() => {
          const real = window.fetch;
          window.answers = [];
          window.fetch = (address, how) => {
            const answer = real(address, {...how, signal: undefined});
            window.answers.push(answer.then((one) => one.clone().text()));
            return answer;
          };
        }"""
    )
    with page.expect_request(lambda request: "q=redis&" in request.url):
        search(page).press_sequentially("redis")
    search(page).fill("VAT invoice")
    expect(said(page)).to_contain_text("for “VAT invoice”")
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")
    first = hits(page).first.inner_text()
    with page.expect_response(lambda answer: "q=redis&" in answer.url):
        for route in held:
            route.continue_()
    page.evaluate("() => Promise.all(window.answers).then(() => true)")
    painted(page)
    expect(said(page)).to_contain_text("for “VAT invoice”")
    expect(hits(page).first).to_have_text(first, use_inner_text=True)
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")


def test_a_search_that_is_given_up_is_aborted(window: Reader) -> None:
    page = window.go("/memory")
    page.route("**/api/records?*q=redis&*", lambda _: None)
    with page.expect_event("requestfailed", lambda request: "q=redis&" in request.url):
        with page.expect_request(lambda request: "q=redis&" in request.url):
            search(page).press_sequentially("redis")
        search(page).press_sequentially(" tests")
    expect(said(page)).to_contain_text("for “redis tests”")


def test_words_that_nothing_has_lead_to_a_way_out(window: Reader) -> None:
    page = window.go("/memory?q=zzzyqx&type=fix")
    expect(page.locator(".empty")).to_contain_text("No results")
    page.get_by_role("button", name="Show all memories").click()
    expect(said(page)).to_contain_text(records(told(page)["total"]))


def test_a_server_that_fails_is_a_sentence_and_can_be_asked_again(window: Reader) -> None:
    window.excused.append("ERR_FAILED")
    page = window.go("/memory")
    page.route("**/api/records?*q=redis*", lambda route: route.abort())
    search(page).fill("redis")
    expect(page.get_by_role("alert")).to_contain_text("The server does not respond")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(said(page)).to_contain_text("for “redis”")


# --- facets -------------------------------------------------------------------------------------


def facet(page: Page, name: str) -> Locator:
    return page.get_by_role("complementary", name="Filters").get_by_role(
        "group", name=name, exact=True
    )


def test_facets_count_what_choosing_them_shows_and_stand_in_the_address(window: Reader) -> None:
    page = window.go("/memory")
    counts = dict(told(page)["facets"]["type"])
    kinds = facet(page, "Type")
    for kind in ("decision", "pattern"):
        row = kinds.locator("label", has_text=kind)
        expect(row.locator(".facet-count")).to_have_text(str(counts[kind]))
    kinds.get_by_text("decision", exact=True).click()
    expect(said(page)).to_contain_text(records(counts["decision"]))
    asks(page, type=["decision"])
    kinds.get_by_text("pattern", exact=True).click()
    expect(said(page)).to_contain_text(records(counts["decision"] + counts["pattern"]))
    asks(page, type=["decision", "pattern"])

    tags = dict(told(page, type=["decision", "pattern"])["facets"]["tag"])
    facet(page, "Tag").get_by_text("auth", exact=True).click()
    expect(said(page)).to_contain_text(records(tags["auth"]))
    asks(page, type=["decision", "pattern"], tag=["auth"])
    keep(page, "explorer-facets")

    page.reload()
    expect(said(page)).to_contain_text(records(tags["auth"]))
    expect(facet(page, "Type").get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("button", name="Remove the filter Tag: auth").click()
    expect(said(page)).to_contain_text(records(counts["decision"] + counts["pattern"]))
    page.get_by_role("button", name="Clear all").click()
    expect(said(page)).to_contain_text(records(told(page)["total"]))
    asks(page)


def test_every_facet_narrows_the_list_to_its_count(window: Reader, site: Site) -> None:
    facets = Shop(site).get("/api/records", family="memory", status="active")[
        "facets"
    ]  # proposed ones are elsewhere
    for name in ("type", "age", "tag"):
        value, number = facets[name][-1]
        page = window.go(f"/memory?{urlencode({name: value})}")
        expect(said(page)).to_contain_text(records(number))
        expect(page.get_by_role("list", name="Filters")).to_be_visible()


def test_an_age_is_one_of_several_and_can_be_taken_back(window: Reader) -> None:
    page = window.go("/memory?q=checkout")
    ages = facet(page, "Age")
    ages.get_by_text("last day").click()
    expect(ages.get_by_role("radio", checked=True)).to_have_count(1)
    ages.get_by_text("last 7 days").click()
    asks(page, q=["checkout"], age=["7d"])
    page.get_by_role("button", name="Remove the filter Age: last 7 days").click()
    expect(ages.get_by_role("radio", checked=True)).to_have_count(0)
    asks(page, q=["checkout"])


# --- a hit --------------------------------------------------------------------------------------


_MAKES_ROOM = """() => {
  const [opened, below] = [...document.querySelectorAll("[role=row]")].map((row) => row.getBoundingClientRect());
  return opened.height > 0 && below.top >= opened.bottom - 2;
}"""
_COMES_TO_REST = """() => new Promise((rests) => {
  const look = (before) => {
    if (window.scrollY > 0 && window.scrollY === before) rests(true);
    else requestAnimationFrame(() => look(window.scrollY));
  };
  look(-1);
})"""
_NOTES_WHERE_IT_IS_LEFT = """() => {
  window.addEventListener("click", () => (window.leftAt = window.scrollY), { capture: true, once: true });
}"""


def test_a_hit_says_why_it_was_found_and_shows_its_layers(window: Reader) -> None:
    page = window.go("/memory?q=redis+tests+hang")
    first = told(page, q="redis tests hang")["items"][0]
    assert first["why"]
    row = hits(page).first
    row.get_by_role("button", name="More of").click()
    expect(row.locator(".why li")).to_have_text([in_words(why) for why in first["why"]])
    layers = told(page, f"/api/records/{first['id']}")["layers"]
    for tab, name in (("Short", "line"), ("Around", "moment"), ("Full", "full")):
        row.get_by_role("tab", name=tab).click()
        expect(row.get_by_role("tabpanel")).to_have_text(layers[name]["text"])
        expect(row.get_by_role("tab", name=tab)).to_contain_text(str(layers[name]["tokens"]))
    row.get_by_role("tab", name="Full").press("ArrowLeft")
    expect(row.get_by_role("tab", name="Around")).to_be_focused()
    expect(row.get_by_role("tab", name="Around")).to_have_attribute("aria-selected", "true")
    keep(page, "explorer-why")
    page.wait_for_function(_MAKES_ROOM)
    row.get_by_role("button", name="Less of").click()
    expect(row.locator(".row-detail")).to_have_count(0)


def test_a_click_opens_the_record_and_the_way_back_finds_the_same_place(window: Reader) -> None:
    page = window.go("/memory?family=observation")
    expect(hits(page).first).to_be_visible()
    page.mouse.move(800, 600)
    page.mouse.wheel(0, 1500)
    # The wheel turns before the page has scrolled, the list draws after it, and a click may scroll by itself.
    page.evaluate(_COMES_TO_REST)
    painted(page)
    index = page.get_by_role("row").nth(12).get_attribute("aria-rowindex")
    title = page.locator(f"[role=row][aria-rowindex='{index}'] .hit-title")
    words = title.inner_text()
    page.evaluate(_NOTES_WHERE_IT_IS_LEFT)
    title.click()
    expect(page.get_by_role("heading", name="Facts")).to_be_visible()
    assert page.evaluate("window.leftAt") > 0
    page.go_back()
    page.wait_for_function("() => Math.abs(window.scrollY - window.leftAt) < 2")
    expect(title).to_have_text(words, use_inner_text=True)
    expect(title).to_be_in_viewport()


def test_a_record_has_all_that_is_known_of_it(window: Reader) -> None:
    page = window.go("/memory")
    jwt = told(page, q="refresh tokens rotate rotateRefreshToken", family="memory")["items"][0]
    whole = told(page, f"/api/records/{jwt['id']}")
    page = window.go(f"/memory/{jwt['id']}")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("Refresh tokens rotate")
    assert page.locator("main .stack").first.inner_text().count(heading.inner_text()) <= 1, (
        "only as agents get it"
    )
    expect(page.locator("dl.decisions dt")).to_have_text(["Promote"])
    first = page.locator(".card", has_text="Given to sessions").get_by_role("link").first
    expect(first).to_have_text(whole["given_to"][0]["session_title"])
    expect(page.locator("main")).to_contain_text(f"{whole['record']['source']}")
    for one in whole["citations"]:
        expect(page.locator(".card", has_text="Citations")).to_contain_text(one["what"])
    expect(page.locator(".card", has_text="Given to sessions").get_by_role("row")).to_have_count(
        1 + len(whole["given_to"])
    )
    expect(page.locator(".neighbours").last.get_by_role("listitem")).to_have_count(
        len(whole["neighbours"])
    )
    page.get_by_role("button", name="Show git history").click()
    past = told(page, f"/api/records/{jwt['id']}/history")["items"]
    assert len(past) >= 2
    expect(page.locator(".commits > li")).to_have_count(len(past))
    expect(page.locator(".commits .diff-plus").first).to_contain_text("security")
    keep(page, "record")


# --- keyboard only ------------------------------------------------------------------------------

_RING = """() => {
  const one = document.activeElement;
  const row = document.querySelector(".row-active > .row-cell");
  const seen = (element) => {
    const style = getComputedStyle(element);
    return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  };
  return one.matches(":focus-visible") && (seen(one) || (row && one.contains(row) && seen(row))
    || seen(one.parentElement));
}"""


def focus_shows(page: Page) -> None:
    """Where the focus is can be seen, at the latest when the list has drawn its active row."""
    try:
        page.wait_for_function(_RING)
    except Error:
        pytest.fail(
            f"no focus to be seen on {page.evaluate('document.activeElement.outerHTML')[:200]}"
        )


def test_slash_searches_and_the_keys_walk_through_what_was_found(window: Reader) -> None:
    page = window.go("/memory")
    expect(hits(page).first).to_be_visible()
    page.keyboard.press("/")
    expect(search(page)).to_be_focused()
    expect(search(page)).to_have_value("")
    focus_shows(page)
    page.keyboard.type("jwt/k?")
    expect(search(page)).to_have_value("jwt/k?")
    page.keyboard.press("Control+a")
    page.keyboard.type("jwt key")
    expect(said(page)).to_contain_text("for “jwt key”")
    page.keyboard.press("ArrowDown")
    grid = page.get_by_role("grid", name="Memories")
    expect(grid).to_be_focused()
    expect(active(page)).to_have_attribute("aria-rowindex", "1")
    focus_shows(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(active(page)).to_have_attribute("aria-rowindex", "3")
    page.keyboard.press("k")
    expect(active(page)).to_have_attribute("aria-rowindex", "2")
    expect(grid).to_have_attribute(
        "aria-activedescendant", active(page).get_attribute("id") or "none"
    )
    page.keyboard.press("e")
    expect(active(page).locator(".why")).to_be_visible()
    page.keyboard.press("e")
    expect(active(page).locator(".why")).to_have_count(0)
    wanted = told(page, q="jwt key")["items"][1]["id"]
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{window.site.origin}/memory/{wanted}")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page.get_by_role("heading", name="Memory", level=1)).to_be_visible()


def test_home_end_and_j_bring_rows_into_sight(window: Reader) -> None:
    page = window.go("/memory")
    total = told(page)["total"]
    expect(hits(page).first).to_be_visible()
    page.keyboard.press("j")
    expect(active(page)).to_have_attribute("aria-rowindex", "1")
    page.keyboard.press("End")
    expect(active(page)).to_have_attribute("aria-rowindex", str(total))
    expect(active(page)).to_be_in_viewport()
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    expect(active(page)).to_have_attribute("aria-rowindex", "1")
    expect(active(page)).to_be_in_viewport()
    for _ in range(12):
        page.keyboard.press("j")
    expect(active(page)).to_have_attribute("aria-rowindex", "13")
    expect(active(page)).to_be_in_viewport(ratio=1)


def test_question_mark_opens_the_help_and_escape_gives_the_focus_back(window: Reader) -> None:
    page = window.go("/memory")
    expect(hits(page).first).to_be_visible()
    button = page.get_by_role("button", name="Add a memory")
    button.focus()
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard")
    expect(help_).to_be_visible()
    for key in ("/", "j", "k", "Enter", "Esc", "?"):
        expect(help_.locator("kbd").get_by_text(key, exact=True).first).to_be_visible()
    keep(page, "help")
    page.keyboard.press("j")
    expect(active(page)).to_have_count(0)
    for _ in range(4):
        page.keyboard.press("Tab")
        inside = "document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
        assert page.evaluate(inside)
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    expect(button).to_be_focused()


def test_a_dialog_opened_by_keys_holds_the_focus_and_gives_it_back(window: Reader) -> None:
    page = window.go("/memory")
    expect(hits(page).first).to_be_visible()
    button = page.get_by_role("button", name="Add a memory")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Add a memory")
    expect(dialog.get_by_label("Text")).to_be_focused()
    focus_shows(page)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    focus_shows(page)


def test_tab_reaches_search_facets_and_list_and_each_shows_the_focus(window: Reader) -> None:
    page = window.go("/memory?q=checkout")
    expect(hits(page).first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    reached: list[str] = []
    name = (
        "() => document.activeElement.getAttribute('data-search') !== null ? 'search' : document.activeElement.type \
      || document.activeElement.getAttribute('role') || document.activeElement.localName"
    )
    while "grid" not in reached and len(reached) < 80:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(name))
        focus_shows(page)
    assert {"search", "checkbox", "radio", "grid"} <= set(reached)
