"""The graph: what is drawn, what filters leave, how it was at a time, a node's panel, a path, and all of it as lists.

The canvas cannot be read, so its box says how many nodes and edges it has and whether it rests; what it draws is
looked at once, pixel by pixel. A node is clicked where "Find a node" has put it: in the middle.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.e2e.web.conftest import OpenReader
from tests.e2e.web.explorer import Site, keep
from tests.e2e.web.shop import Shop, loaded, painted

pytestmark = pytest.mark.e2e

KEYS = "The JWT signing key comes from keys.current()"
ENVIRONMENT = "The JWT signing key is read from JWT_KEY"
PAINTED = """canvas => {
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const ink = copy.getContext("2d", { willReadFrequently: true });
  ink.drawImage(canvas, 0, 0);
  const { data } = ink.getImageData(0, 0, copy.width, copy.height);
  const colours = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 250) {
      const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
      colours.set(colour, (colours.get(colour) ?? 0) + 1);
    }
  }
  return Object.fromEntries([...colours].filter(([, times]) => times > 40));
}"""
"""The colours of a canvas, and on how many of its pixels each is."""
SHOWS = f"([canvas, colour, whether]) => (colour in ({PAINTED})(canvas)) === whether"
"""Whether a colour is on a canvas, or is not."""


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site)


def holds(page: Page, nodes: int, edges: int | None = None) -> Locator:
    """The picture with so many nodes and edges, at rest."""
    edged = "" if edges is None else f"[data-edges='{edges}']"
    picture = page.locator(f".force[data-nodes='{nodes}']{edged}[data-settled=true]")
    picture.wait_for()
    return picture


def shows(page: Page, colour: str, whether: bool = True) -> None:
    """The picture comes to have this colour, or no longer to have it."""
    canvas = page.locator(".force canvas").first.element_handle()
    page.wait_for_function(SHOWS, arg=[canvas, colour, whether])


def find(page: Page, label: str, words: str) -> None:
    """Choose a node by typing a part of its name."""
    field = page.get_by_role("combobox", name=label)
    field.fill(words)
    page.get_by_role("listbox", name=label).get_by_role("option").first.wait_for()
    field.press("Enter")


class TestThePicture:
    def test_every_kind_is_drawn_in_the_colour_of_its_legend(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        told = shop.get("/api/graph")
        page = loaded(reader(), "/graph?all=1")
        picture = holds(page, len(told["nodes"]), len(told["edges"]))
        counts = f"{len(told['nodes'])} nodes and {len(told['edges'])} edges"
        said = f"Graph of {counts}. The tabs Nodes and Edges list the same."
        expect(picture).to_have_attribute("aria-label", said)
        kinds = page.locator(".legend .switch")
        expect(kinds).to_have_count(len({each["type"] for each in told["nodes"]}))
        for kind in kinds.all():
            shows(page, kind.locator(".shape").evaluate("shape => getComputedStyle(shape).fill"))

    def test_it_opens_around_the_newest_memory_and_shows_another_or_everything(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        newest, whole = shop.get("/api/graph", around="newest"), shop.get("/api/graph")
        page = loaded(reader(), "/graph")
        holds(page, len(newest["nodes"]), len(newest["edges"]))
        page.get_by_role("combobox", name="Find a node").fill("keys.current")
        page.get_by_role("listbox", name="Find a node").locator(
            "[role=option]:not([aria-disabled])"
        ).first.click()
        holds(page, len(shop.get("/api/graph", around=shop.memory(KEYS))["nodes"]))
        expect(page.locator(".node-panel")).to_have_attribute("data-node", shop.memory(KEYS))
        page.get_by_role("button", name="Whole graph").click()
        holds(page, len(whole["nodes"]), len(whole["edges"]))

    def test_the_legend_takes_kinds_away_and_brings_them_back(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        told = shop.get("/api/graph")
        page = loaded(reader(), "/graph?all=1")
        tags = [each for each in told["nodes"] if each["type"] == "tag"]
        switch = page.get_by_role("button", name="tag")
        expect(switch).to_have_attribute("aria-pressed", "true")
        switch.click()
        holds(page, len(told["nodes"]) - len(tags))
        expect(switch).to_have_attribute("aria-pressed", "false")
        assert page.evaluate("location.search") == "?all=1&off=tag"
        switch.click()
        holds(page, len(told["nodes"]), len(told["edges"]))

    def test_the_slider_shows_what_was_known_at_a_day(self, reader: OpenReader, shop: Shop) -> None:
        whole = shop.get("/api/graph")
        day = (datetime.now(UTC) - timedelta(days=10)).date()
        then = shop.get("/api/graph", as_of=day.isoformat())
        assert 0 < len(then["nodes"]) < len(whole["nodes"])
        page = loaded(reader(), "/graph?all=1")
        slider = page.get_by_role("slider", name="As of")
        expect(slider).to_have_attribute("aria-valuetext", "now")
        slider.focus()
        for _ in range(10):
            slider.press("ArrowLeft")
        holds(page, len(then["nodes"]), len(then["edges"]))
        expect(page.locator(".slider-day")).to_contain_text(f"{day.day} {day:%B %Y}")
        assert page.evaluate("location.search") == f"?all=1&as_of={day.isoformat()}"
        slider.press("Home")
        first = shop.get("/api/graph", as_of=whole["from"])
        holds(page, len(first["nodes"]))
        slider.press("End")
        holds(page, len(whole["nodes"]), len(whole["edges"]))

    def test_a_task_and_a_tag_leave_their_part(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), "/graph")
        page.get_by_label("Tag", exact=True).select_option("auth")
        holds(page, len(shop.get("/api/graph", tag="auth")["nodes"]))
        task = shop.task("Round sums in the cart")
        page.get_by_label("Task", exact=True).select_option(task)
        expect(page).to_have_url(re.compile(rf"tag=auth&task={task}|task={task}&tag=auth"))
        page.get_by_label("Tag", exact=True).select_option("")
        holds(page, len(shop.get("/api/graph", task=task)["nodes"]))
        page.get_by_role("button", name="Whole graph").click()
        holds(page, len(shop.get("/api/graph")["nodes"]))

    def test_a_path_between_two_is_found_and_none_is_said(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        told = shop.get("/api/graph/path", a=shop.memory(ENVIRONMENT), b="file:src/auth/keys.ts")
        assert told["found"]
        page = loaded(reader(), "/graph?all=1")
        page.get_by_text("Path between two nodes").click()
        find(page, "From", "JWT_KEY in the environment")
        find(page, "To", "file:src/auth/keys.ts")
        expect(page.locator(".path-words .link")).to_have_text(
            [each["name"] for each in told["nodes"]]
        )
        expect(page.locator(".path-words")).to_contain_text("supersedes")
        keep(page, "graph-path")
        find(page, "To", "feature flags")
        expect(
            page.get_by_text("There is no path between these nodes at this time.")
        ).to_be_visible()

    def test_nearer_farther_and_all_move_the_picture(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/graph?all=1")
        canvas = page.locator(".force canvas").first
        for name in ("Zoom in", "Zoom out", "Zoom out", "All"):
            painted(page)
            before = canvas.evaluate("canvas => canvas.toDataURL()")
            page.get_by_role("button", name=name).click()
            moved = "([canvas, before]) => canvas.toDataURL() !== before"
            page.wait_for_function(moved, arg=[canvas.element_handle(), before])


class TestOneNode:
    def test_a_click_opens_its_panel_and_the_panel_its_record(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        page = loaded(reader(), "/graph?all=1")
        find(page, "Find a node", "keys.current")
        panel = page.locator(".node-panel")
        expect(panel).to_have_attribute("data-node", shop.memory(KEYS))
        panel.get_by_role("button", name="Close the panel").click()
        expect(panel).to_have_count(0)
        painted(page)  # the picture has got the panel's place as well
        page.locator(".force").hover()
        page.locator(".force .clickable").wait_for()
        page.locator(".force").click()
        expect(panel).to_have_attribute("data-node", shop.memory(KEYS))
        expect(panel).to_contain_text("supersedes")
        expect(panel.get_by_role("button", name=ENVIRONMENT)).to_be_visible()
        keep(page, "graph-panel")
        panel.get_by_role("link", name="Open the memory").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(KEYS)

    def test_a_neighbour_of_the_panel_is_opened_from_it(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        page = loaded(reader(), f"/graph?all=1&node={shop.memory(KEYS)}")
        panel = page.locator(".node-panel")
        panel.get_by_role("button", name=ENVIRONMENT).click()
        expect(panel).to_have_attribute("data-node", shop.memory(ENVIRONMENT))
        expect(panel).to_contain_text("superseded by")

    def test_a_record_leads_to_its_place_in_the_graph(self, reader: OpenReader, shop: Shop) -> None:
        page = loaded(reader(), f"/memory/{shop.memory(KEYS)}")
        page.get_by_role("link", name="Show in the graph").click()
        expect(page.locator(".node-panel")).to_have_attribute("data-node", shop.memory(KEYS))

    def test_a_session_is_called_by_what_was_asked_and_a_long_name_is_seen_to_be_cut(
        self, shop: Shop
    ) -> None:
        nodes = shop.get("/api/graph")["nodes"]
        names = [each["name"] for each in nodes if each["type"] == "session"]
        assert "How is VAT computed on an invoice?" in names
        long = [each["name"] for each in nodes if len(each["name"]) >= 80]
        assert long
        assert all(name.endswith("…") for name in long)


class TestTheLists:
    def test_nodes_are_read_and_opened_with_the_keyboard_alone(
        self, reader: OpenReader, shop: Shop
    ) -> None:
        told = shop.get("/api/graph")
        page = loaded(reader(), "/graph?all=1")
        page.get_by_role("tab", name="Picture").focus()
        page.keyboard.press("ArrowRight")
        grid = page.get_by_role("grid", name="Nodes")
        expect(grid).to_have_attribute("aria-rowcount", str(len(told["nodes"])))
        expect(page.get_by_role("tab", name="Nodes")).to_be_focused()
        for _ in range(40):
            page.keyboard.press("Tab")
            if grid.evaluate("grid => document.activeElement === grid"):
                break
        expect(grid).to_be_focused()
        page.keyboard.press("j")
        page.keyboard.press("j")
        row = grid.locator(".row-active")
        expect(row).to_have_attribute("aria-rowindex", "3")
        expect(grid).to_have_attribute("aria-activedescendant", row.get_attribute("id") or "none")
        title = row.locator(".node-row-title").inner_text()
        page.keyboard.press("Enter")
        expect(page.locator(".node-panel h2")).to_have_text(title)

    def test_edges_are_read_as_sentences(self, reader: OpenReader, shop: Shop) -> None:
        told = shop.get("/api/graph")
        page = loaded(reader(), "/graph?all=1&view=edges")
        expect(page.get_by_role("grid", name="Edges")).to_have_attribute(
            "aria-rowcount", str(len(told["edges"]))
        )
        stated = page.get_by_role("row").filter(has_text="supersedes").filter(has_text="stated")
        expect(stated).to_contain_text(KEYS)

    def test_an_empty_answer_says_what_to_do(self, reader: OpenReader) -> None:
        page = loaded(reader(), "/graph?as_of=2001-01-01&off=pattern")
        expect(page.get_by_text("No nodes match")).to_be_visible()
        expect(page.get_by_text("Move the slider or remove a filter.")).to_be_visible()
