"""Where a record stands: what another one superseded, what is past its day, stale or retired never passes for true."""

from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site
from tests.support.runner import Block, page
from tests.support.sample import Sample

from ralph.core.record import Query
from ralph.memory import memory
from ralph.recall import citation_check
from ralph.recall import search as searching

OLD, NEW, PAST = "fix-1705751400-a001", "fix-1705751401-a002", "fix-1705751402-a003"


@pytest.fixture(scope="module")
def shop() -> Sample:
    return sample.shared()


@pytest.fixture(scope="module")
def window(shop: Sample) -> Site:
    return Site(shop.root)


@pytest.fixture
def quokkas(tmp_path: Path) -> Path:
    """The old text says the words of the question thrice, the new one once."""
    path = tmp_path / ".agent" / "memories.md"
    path.parent.mkdir()
    text = page(
        Block("quokka parser quokka parser: the quokka is version one", OLD, "quokka", kind="fix"),
        Block(
            "Version two of it, the quokka of the parser",
            NEW,
            "t",
            kind="fix",
            more=f" | supersedes: {OLD}",
        ),
        Block(
            "quokka parser quokka zero",
            PAST,
            "quokka",
            kind="fix",
            more=" | valid-until: 2025-06-01",
        ),
    )
    path.write_text(text, encoding="utf-8", newline="")
    return tmp_path


def test_outdated_records_rank_lower_as_in_the_command(quokkas: Path) -> None:
    found = Site(quokkas).get("/api/records", q="quokka parser")["items"]
    assert found[0]["id"] == NEW
    command = searching.search(quokkas, Query("quokka parser", limit=10)).found.hits
    assert [row["id"] for row in found] == [hit.record.id for hit in command]
    assert [row["score"] for row in found] == [hit.score for hit in command]


@pytest.mark.parametrize(
    "where", [{"q": "quokka parser"}, {}, {"q": OLD}, {"q": "quokka", "sort": "newest"}]
)
def test_a_hit_says_that_it_is_superseded_and_by_what(quokkas: Path, where: dict[str, str]) -> None:
    rows = {row["id"]: row for row in Site(quokkas).get("/api/records", **where)["items"]}
    assert rows[OLD]["superseded_by"] == NEW
    assert rows[OLD]["expired"] == ""
    assert all("superseded" not in why for why in rows[OLD]["why"])  # that is no reason to be found


def test_a_hit_says_that_its_last_day_is_over(quokkas: Path) -> None:
    rows = {row["id"]: row for row in Site(quokkas).get("/api/records", q="quokka parser")["items"]}
    assert (rows[PAST]["expired"], rows[PAST]["superseded_by"]) == ("2025-06-01", "")
    assert (rows[NEW]["expired"], rows[NEW]["superseded_by"]) == ("", "")


def test_a_records_page_names_what_took_its_place(window: Site, shop: Sample) -> None:
    old, new = shop.memories["env-key"], shop.memories["keys"]
    told = window.get(f"/api/records/{old}")
    assert told["record"]["superseded_by"] == new
    assert told["superseded_by"] == {"id": new, "title": told["superseded_by"]["title"]}
    title = window.get(f"/api/records/{new}")["record"]["text"].split("\n")[0]
    assert title.startswith(told["superseded_by"]["title"].rstrip("…"))
    assert window.get(f"/api/records/{new}")["superseded_by"] is None


def test_a_stale_citation_is_no_reason_for_a_match(window: Site, shop: Sample) -> None:
    citation_check.refresh_citations(shop.root)
    stale = [
        row
        for row in window.get("/api/records", family="memory", limit=500)["items"]
        if row["stale"]
    ]
    assert any(row["stale"].startswith("cited file is gone: ") for row in stale)
    words = " ".join(stale[0]["text"].split()[:4])
    found = {row["id"]: row for row in window.get("/api/records", q=words)["items"]}[stale[0]["id"]]
    assert found["stale"] == stale[0]["stale"]
    assert found["why"]
    assert found["stale"] not in found["why"]


def test_an_archived_record_has_its_status_everywhere(tmp_path: Path) -> None:
    one = memory.add(tmp_path, "The quokka waits").stored.record.id
    memory.archive(tmp_path, one)
    window = Site(tmp_path)
    assert [row["status"] for row in window.get("/api/records", q=one)["items"]] == ["archived"]
    assert window.get("/api/records", q="quokka")["items"] == []
    assert [
        row["status"] for row in window.get("/api/records", q="quokka", status="archived")["items"]
    ] == ["archived"]
    assert window.get(f"/api/records/{one}")["record"]["status"] == "archived"
