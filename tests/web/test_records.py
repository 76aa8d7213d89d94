"""What is remembered, over HTTP: lists with facets, one record, its history, tags and insights."""

import re

import pytest
from tests.support import sample
from tests.support.asking import Site, tags
from tests.support.sample import Sample
from tests.support.sampling import every

from ralph.web.record_page import split_heading

ROW = {
    "id",
    "type",
    "text",
    "title",
    "tags",
    "created_at",
    "updated_at",
    "source",
    "by",
    "via",
    "status",
    "family",
    "scope",
    "task",
    "session",
    "tokens",
    "score",
    "why",
    "count",
    "stale",
    "superseded_by",
    "expired",
}


@pytest.fixture(scope="module")
def shop() -> Sample:
    return sample.shared()


@pytest.fixture(scope="module")
def window(shop: Sample) -> Site:
    return Site(shop.root)


def test_the_state_tells_what_every_page_needs(window: Site) -> None:
    state = window.get("/api/state")
    assert set(state) == {
        "project",
        "version",
        "task_count",
        "record_count",
        "paused",
        "team",
        "config",
        "types",
        "families",
    }
    assert state["families"] == ["memory", "observation", "journal"]
    assert state["record_count"] == window.get("/api/records")["total"]
    assert state["config"]["budget"] > 0


def test_everything_that_is_remembered_is_in_the_list(window: Site) -> None:
    found = window.get("/api/records", limit=500)
    assert len(found["items"]) == found["total"]
    assert all(set(row) >= ROW for row in found["items"])
    sources = {row["source"] for row in found["items"]}
    for name in (
        "memories.md",
        "guardrails.md",
        "/knowledge/",
        "global-patterns.md",
        "insights.json",
        "log/sessions/",
        "log/runs/",
    ):
        assert any(name in source for source in sources), name
    assert [row["created_at"] for row in found["items"]] == sorted(
        (row["created_at"] for row in found["items"]), reverse=True
    )
    assert all(len(row["text"]) <= 280 and "\n" not in row["text"] for row in found["items"])


def test_words_find_with_a_reason_and_a_score(window: Site) -> None:
    found = window.get("/api/records", q="payment token")
    assert found["items"]
    assert all(row["why"] for row in found["items"])
    assert found["items"][0]["score"] is not None
    assert found["took_ms"] >= 0
    assert window.get("/api/records", q="xyzzyqwert")["items"] == []


def test_a_misspelt_word_has_a_note(window: Site) -> None:
    found = window.get("/api/records", q="paymnet")
    assert any("paymnet" in note for note in found["notes"])


def test_korean_is_found(window: Site) -> None:
    assert window.get("/api/records", q="결제")["items"]


def test_facets_are_or_within_and_and_between(window: Site) -> None:
    everything = window.get("/api/records", limit=500)["items"]
    found = window.get("/api/records", type=["fix", "decision"], family="memory", limit=500)
    wanted = [
        row["id"]
        for row in everything
        if row["type"] in ("fix", "decision") and row["family"] == "memory"
    ]
    assert [row["id"] for row in found["items"]] == wanted
    counts = dict(found["facets"]["type"])
    for kind in ("pattern", "fix", "context"):  # counted as if no type were chosen
        assert counts.get(kind, 0) == sum(
            row["type"] == kind and row["family"] == "memory" for row in everything
        )
    assert dict(found["facets"]["family"])["memory"] == len(wanted)


@pytest.mark.parametrize("sort", ["", "relevance", "newest"])
@pytest.mark.parametrize("text", ["", "the", "payment"])
def test_pages_together_are_the_whole_list(window: Site, text: str, sort: str) -> None:
    whole = window.get("/api/records", q=text, sort=sort, limit=500)
    ids = [row["id"] for row in whole["items"]]
    starts = range(0, whole["total"], 40)
    pages = [
        window.get("/api/records", q=text, sort=sort, limit=40, offset=start)["items"]
        for start in starts
    ]
    assert [row["id"] for page in pages for row in page] == ids
    assert len(ids) == whole["total"]
    times = [row["created_at"] for row in whole["items"]]
    if sort == "newest":
        assert times == sorted(times, reverse=True)


def test_an_unknown_order_or_age_is_an_error(window: Site) -> None:
    assert window.refusal("/api/records", sort="upwards")[0] == 400
    assert window.refusal("/api/records", age="3y")[0] == 400


def test_one_record_has_all_that_is_known_of_it(window: Site, shop: Sample) -> None:
    row = next(
        row
        for row in window.get("/api/records", family="memory")["items"]
        if "memories.md" in row["source"]
    )
    page = window.get(f"/api/records/{row['id']}")
    assert set(page) == {
        "record",
        "layers",
        "superseded_by",
        "evidence",
        "citations",
        "given_to",
        "used",
        "neighbours",
        "actions",
        "held",
    }
    assert ROW | {"heading", "html", "origin", "links"} <= set(page["record"])
    name, _, line = page["record"]["source"].rpartition(":")
    assert name == ".agent/memories.md"
    assert row["id"] in (shop.root / name).read_text(encoding="utf-8").split("\n")[int(line) - 1]
    costs = [page["layers"][name]["tokens"] for name in ("line", "full")]
    assert costs[0] <= costs[1]
    assert page["actions"] == ["edit", "retag", "archive", "delete", "promote"]


@pytest.mark.parametrize(
    ("title", "text", "heading", "rest"),
    [
        ("A title", "Its text.", "A title", "Its text."),
        ("A title", "A title", "A title", ""),
        ("", "One sentence is the whole text.", "One sentence is the whole text.", ""),
        ("prompt", "Why is it slow?\nIt was fast.", "Why is it slow?", "It was fast."),
        ("", "The first line\n\n- a list", "The first line", "- a list"),
        ("", "```\ncode\n```", "``` code ```", "```\ncode\n```"),
        ("", "", "", ""),
    ],
)
def test_a_heading_is_not_repeated_below_it(title: str, text: str, heading: str, rest: str) -> None:
    assert split_heading(title, text) == (heading, rest)


def test_sessions_are_named_by_their_titles(window: Site, shop: Sample) -> None:
    page = window.get(f"/api/records/{shop.memories['redis']}")
    titles = {each["session"]: each["session_title"] for each in page["given_to"]}
    listed = {row["id"]: row["title"] for row in window.get("/api/sessions")["items"]}
    assert titles
    assert all(titles[name] == listed[name] for name in titles)
    observed = window.get("/api/records", family="observation", limit=1)["items"][0]
    record = window.get(f"/api/records/{observed['id']}")["record"]
    assert record["session_title"] == listed[record["session"]]


def test_citations_say_whether_they_are_there(window: Site) -> None:
    states = {
        each["state"]
        for row in window.get("/api/records", family="memory", limit=100)["items"]
        for each in window.get(f"/api/records/{row['id']}")["citations"]
    }
    assert {"fresh", "gone"} <= states


def test_where_a_record_was_injected_and_used(window: Site) -> None:
    pages = [
        window.get(f"/api/records/{row['id']}")
        for row in window.get("/api/records", family="memory", limit=100)["items"]
    ]
    handed = [page for page in pages if page["given_to"]]
    assert handed
    assert any(each["used"] for page in handed for each in page["given_to"])
    assert all(page["used"]["used"] <= page["used"]["given"] for page in handed)


def test_neighbours_have_a_direction(window: Site) -> None:
    page = window.get("/api/records/know-how-checkout-works")
    assert {each["direction"] for each in page["neighbours"]} == {"in", "out"}
    assert any(each["node"]["type"] == "file" for each in page["neighbours"])


def test_what_a_stranger_wrote_is_text(window: Site) -> None:
    for row in window.get("/api/records", q="script", limit=50)["items"]:
        shown = window.get(f"/api/records/{row['id']}")["record"]["html"]
        assert not tags(shown) & {"script", "img", "svg", "iframe"}
        assert not re.search(r"href=.?\s*javascript:", shown, re.IGNORECASE)


def test_an_unknown_id_has_the_message_of_the_command(window: Site) -> None:
    assert window.refusal("/api/records/mem-1-none") == (404, "Record not found: mem-1-none")
    assert window.refusal("/api/records/mem-1-none/history") == (
        404,
        "Memory not found: mem-1-none",
    )
    assert window.refusal("/api/records/..%2f..%2fetc%2fpasswd")[0] == 404


def test_a_record_s_history_comes_from_git(window: Site) -> None:
    found = window.get("/api/records/know-how-checkout-works/history")
    assert found["note"] == ""
    assert found["items"][0]["subject"]
    assert "+title:" in found["items"][-1]["diff"]


def test_a_log_has_no_history(window: Site) -> None:
    row = window.get("/api/records", family="observation", limit=1)["items"][0]
    found = window.get(f"/api/records/{row['id']}/history")
    assert found["items"] == []
    assert found["note"].endswith(".")


def test_tags_are_completed(window: Site) -> None:
    found = window.get("/api/tags", q="pay")["items"]
    assert found
    assert all("pay" in tag for tag, _ in found)
    assert window.get("/api/tags")["items"][0][1] >= window.get("/api/tags")["items"][-1][1]


def test_insights_are_listed_with_how_they_were_judged(window: Site, shop: Sample) -> None:
    found = window.get("/api/insights")
    assert found["total"] == len(found["items"]) > 0
    for status in ("proposed", "accepted", "rejected"):
        assert all(
            each["status"] == status for each in window.get("/api/insights", status=status)["items"]
        )
    task = found["items"][0]["task"]
    assert all(each["task"] == task for each in window.get("/api/insights", task=task)["items"])
    assert window.refusal("/api/insights", status="nothing")[0] == 400


def test_a_task_s_own_records_can_be_asked_for(window: Site, shop: Sample) -> None:
    name = next(iter(shop.tasks.values()))
    found = window.get("/api/records", task=name, limit=500)
    assert all(row["task"] == name for row in found["items"])


@pytest.mark.soak
def test_every_record_has_a_page_with_its_actions(window: Site) -> None:
    editable = (".agent/memories.md", ".ralph/guardrails.md", ".ralph/knowledge/")
    for row in every(window.get("/api/records", limit=500)["items"], 5):
        page = window.get(f"/api/records/{row['id']}")
        assert page["record"]["id"] == row["id"]
        assert "promote" in page["actions"]
        assert ("edit" in page["actions"]) == page["record"]["source"].startswith(editable)
