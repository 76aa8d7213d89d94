"""The index where `.ralph` leads out of the project, and raw lines that are older than a rule about them."""

from pathlib import Path

import pytest
from tests.support.index_sources import put, seen

from ralph.core.errors import ConfigError, Refused
from ralph.core.record import Query
from ralph.core.settings import Config
from ralph.recall import session_start
from ralph.recall.search import search
from ralph.search import index


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A project whose `.ralph` is a link to a folder of somebody else."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    put(
        here,
        ".agent/memories.md",
        "# Memories\n\n## Fixes\n\n### mem-1-a\n> Redis must run first.\n",
    )
    put(elsewhere, "log/sessions/s1.jsonl", seen("theirs", 1, "s1"))
    (here / ".ralph").symlink_to(elsewhere)
    return here, elsewhere


def test_behind_a_link_that_leads_outside_no_index_is_written_and_search_works(
    linked: tuple[Path, Path],
) -> None:
    here, elsewhere = linked
    before = sorted(elsewhere.rglob("*"))
    assert [hit.record.id for hit in search(here, Query("redis")).found.hits] == ["mem-1-a"]
    for change in (index.sync, index.rebuild, index.verify):
        with pytest.raises(Refused, match="leads out of the project"):
            change(here)
    with pytest.raises(Refused, match="leads out of the project"):
        index.prune(here, days=1, really=True)
    assert "Redis must run first." in session_start.brief_session(here, Config(), "s").text
    assert index.status(here)["index_complete"] is False
    assert sorted(elsewhere.rglob("*")) == before


def test_a_database_behind_a_link_is_not_even_opened(linked: tuple[Path, Path]) -> None:
    here, elsewhere = linked
    put(elsewhere, "ralph.db", "theirs")
    assert [hit.record.id for hit in search(here, Query("redis")).found.hits] == ["mem-1-a"]
    index.status(here)
    session_start.brief_session(here, Config(), "s")
    assert "local" not in [path.name for path in elsewhere.iterdir()]
    assert (elsewhere / "ralph.db").read_text(encoding="utf-8") == "theirs"


def test_a_link_within_the_project_is_as_good_as_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "state/guardrails.md", "# Guardrails\n")
    (tmp_path / ".ralph").symlink_to("state")
    assert index.outside(tmp_path) is None
    index.sync(tmp_path)
    assert (tmp_path / "state" / "ralph.db").exists()


RAW = (
    '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.000000Z", "host": "claude", "event": "UserPromptSubmit", '
    '"payload": {"session_id":"raw-1","cwd":"/p","prompt":"%s","score":%s}}\n'
)


def test_a_rule_that_came_later_reaches_raw_lines_when_they_are_read_again(tmp_path: Path) -> None:
    put(tmp_path, "log/sessions/raw-1.jsonl", RAW % ("call it Bluebird from today", "1"))
    assert search(tmp_path, Query("bluebird")).found.total == 1
    put(tmp_path, "ralph.yml", 'privacy:\n  patterns: ["Blue[a-z]+"]\n')
    assert index.verify(tmp_path) != []
    index.rebuild(tmp_path)
    assert search(tmp_path, Query("bluebird")).found.total == 0
    assert search(tmp_path, Query("today")).found.total == 1
    assert index.verify(tmp_path) == []
    with index.of(tmp_path).open_current() as connection:
        assert "Bluebird" not in "".join(
            str(tuple(row)) for row in connection.execute("SELECT * FROM observations")
        )


def test_a_payload_with_a_number_that_is_none_is_read(tmp_path: Path) -> None:
    put(tmp_path, "log/sessions/raw-1.jsonl", RAW % ("what is the score", "NaN"))
    assert search(tmp_path, Query("score")).found.total == 1


def test_settings_that_cannot_be_read_keep_raw_lines_out_of_the_index(tmp_path: Path) -> None:
    put(tmp_path, "log/sessions/raw-1.jsonl", RAW % ("call it Bluebird", "1"))
    put(tmp_path, "ralph.yml", "privacy: [\n")
    with pytest.raises(ConfigError):
        search(tmp_path, Query("bluebird"))
    put(tmp_path, "ralph.yml", 'privacy:\n  patterns: ["Blue[a-z]+"]\n')
    assert search(tmp_path, Query("bluebird")).found.total == 0
