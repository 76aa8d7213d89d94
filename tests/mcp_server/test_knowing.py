"""Knowledge pages, journal_search and graph_show."""

from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.talking import ERAS, Talk, talk

from ralph.core.record import Outcome
from ralph.core.work import JournalEntry
from ralph.memory import knowledge, reading
from ralph.recall import journal
from ralph.tasks import feature

PAGE = {"in": "knowledge"}


@pytest.mark.parametrize("mode", ERAS)
def test_a_page_is_kept_with_its_origin_and_the_same_title_is_brought_up_to_date(
    empty: Path, mode: str
) -> None:
    async def add(talk: Talk) -> None:
        got = await talk.got(
            "memory_add",
            title="배포 절차",
            content="make release 를 돌린다.",
            tags=["release"],
            **PAGE,
        )
        assert got["change"] == "new"
        got = await talk.got(
            "memory_add",
            title="배포 절차",
            content="make ship 을 돌린다.",
            tags="release, ship",
            **PAGE,
        )
        assert got["change"] == "updated"
        assert got["notes"][0].startswith("the previous text is kept as ret-")
        same = {
            "title": "배포 절차",
            "content": "make ship 을 돌린다.",
            "tags": ["release"],
            **PAGE,
        }
        assert (await talk.got("memory_add", **same))["change"] == "unchanged"

    talk(empty, add, mode=mode, name="codex")
    entry = reading.list_entries(empty, in_=("knowledge",))[0].record
    assert (entry.extra["by"], entry.extra["via"]) == ("agent", "mcp (codex)")
    assert "agent, via mcp (codex)" in Project(empty)("memory", "show", "배포 절차").out


def test_new_words_in_a_persons_page_are_the_agents(empty: Path) -> None:
    knowledge.add(empty, "Release steps", "By hand.", ["release"])

    async def add(talk: Talk) -> None:
        await talk.got(
            "memory_add", title="Release steps", content="By make.", tags=["release"], **PAGE
        )

    talk(empty, add)
    entry = reading.list_entries(empty, in_=("knowledge",))[0].record
    assert entry.extra["by"] == "agent"


def test_a_page_without_a_tag_or_a_title_is_refused(empty: Path) -> None:
    async def add(talk: Talk) -> None:
        assert "without a tag" in await talk.refused("memory_add", title="a", content="b", **PAGE)
        assert "without a title" in await talk.refused("memory_add", content="b", tags="t", **PAGE)
        assert "give in: knowledge" in await talk.refused("memory_add", content="b", title="a")

    talk(empty, add)


def test_a_feature_that_the_project_does_not_have_is_refused_with_the_commands_words(
    empty: Path,
) -> None:
    feature.add(empty, "Refunds")
    page = {"title": "a", "content": "b", "tags": ["t"], **PAGE}

    async def add(talk: Talk) -> None:
        said = await talk.refused("memory_add", **page, feature="Zebras")
        assert said.startswith("error: ")
        assert "Zebras" in said
        assert "feature show" in said
        assert (await talk.got("memory_add", **page, feature="Refunds"))["change"] == "new"

    talk(empty, add)


def test_what_fits_a_task_is_found_by_tags(empty: Path) -> None:
    knowledge.add(empty, "Release steps", "Run `make release`. See [[Versions]].", ["release"])
    knowledge.add(empty, "Versions", "Semantic.", ["semver"])

    async def match(talk: Talk) -> None:
        got = await talk.got("context", knowledge=True, prompt="prepare the release")
        assert [each["title"] for each in got["records"]] == ["Release steps", "Versions"]
        assert "make release" in got["text"]
        assert (await talk.got("context", knowledge=True, prompt="zebra"))["records"] == []
        assert (await talk.got("context", knowledge=True, prompt="x", files=["docs/semver.md"]))[
            "records"
        ]

    talk(empty, match)


def test_the_journal_is_found_by_words_and_filters(root: Path) -> None:
    long = "The parser is slow. " * 400
    journal.append(
        root,
        JournalEntry(
            "run-99887766", 2, Outcome.FAILED, notes=long, created_at="2026-11-11T10:00:00Z"
        ),
    )

    async def search(talk: Talk) -> None:
        got = await talk.got("journal_search", query="parser")
        assert got["total"] == 2
        cut = next(each for each in got["hits"] if each["type"] == "failed")
        assert "[cut; `ralph search --layer 3 jrn-run-99887766-2`" in cut["text"]
        assert len(cut["text"]) < 2000
        (hit,) = (
            await talk.got("journal_search", query="parser", outcome="retried", task="t-abc123")
        )["hits"]
        assert "drops headers" in hit["text"]
        assert (await talk.got("journal_search", query="parser", run="run-1a2b"))["total"] == 1
        assert (await talk.got("journal_search", query="zebra"))["notes"] == ["Nothing found."]
        assert "outcome: Input should be" in await talk.refused(
            "journal_search", query="x", outcome="well"
        )

    talk(root, search)


def test_neighbours_come_with_the_edge_that_leads_there(root: Path) -> None:
    async def look(talk: Talk) -> None:
        got = await talk.got("graph_show", id="tag:docker", hops=1)
        assert [node["id"][:4] for node in got["nodes"]] == ["mem-"]
        assert "tag:docker" in got["nodes"][0]["by"]
        assert "ECONNREFUSED" in await talk.read("graph_show", id="docker")
        assert (await talk.got("graph_show", id="tag:docker", type=["file"]))["nodes"] == []
        got = await talk.got("graph_show", id="tag:docker", limit=1)
        assert (len(got["nodes"]), got["total"]) == (1, 2)
        assert "is not a type of node" in await talk.refused(
            "graph_show", id="tag:docker", type="dream"
        )
        assert "is not a relation" in await talk.refused(
            "graph_show", id="tag:docker", relation="loves"
        )
        assert await talk.refused("graph_show", id="file:nowhere.py")

    talk(root, look)
