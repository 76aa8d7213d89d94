"""What a team forgets leaves the server and the pulled copies; a person's own file stays as it is."""

from pathlib import Path

import pytest
from tests.support.machines import Fleet, joined, observation
from tests.support.runner import Project

from ralph.core import paths

MEMORIES = ".agent/memories.md"


@pytest.fixture
def shared(fleet: Fleet) -> tuple[Project, Project, str]:
    """Ann's machine, Ben's machine, and the id of a memory that Ann wrote and Ben pulled."""
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    ann("memory", "add", "The vault code is under the doormat", "-t", "fix")
    record_id = ann("memory", "list", "--format", "json").ids[0]
    for ralph in (ann, ben):
        assert ralph("team", "sync").code == 0
    assert ben("search", "--team", "doormat", "--format", "json").json["total"] == 1
    return ann, ben, record_id


def hits(ralph: Project, *words: str) -> int:
    return len(ralph("search", *words, "--format", "json").json["hits"])


def test_the_author_keeps_her_file_and_learns_where_the_record_is(
    shared: tuple[Project, Project, str],
) -> None:
    ann, ben, record_id = shared
    before = ann.file(MEMORIES).read_bytes()
    said = ben("team", "forget", record_id)
    assert (said.code, "1 row(s) deleted on the server" in said.out) == (0, True)
    assert "keep" in said.err
    assert hits(ben, "--team", "doormat") == 0
    told = ann("team", "sync")
    assert told.code == 0
    assert record_id in told.err
    assert MEMORIES in told.err
    assert f"ralph forget {record_id}" in told.err
    assert hits(ann, "--team", "doormat") == 0
    assert hits(ann, "--team", record_id) == 0
    assert hits(ann, "doormat") == 1
    assert ann.file(MEMORIES).read_bytes() == before


def test_the_author_is_told_once_and_the_status_goes_on_showing_it(
    shared: tuple[Project, Project, str],
) -> None:
    ann, ben, record_id = shared
    assert ben("team", "forget", record_id).code == 0
    assert record_id in ann("team", "sync", "--push-only").err
    assert ann("team", "sync").err == ""
    kept = [{"id": record_id, "file": MEMORIES}]
    assert ann("team", "status", "--format", "json").json["kept"] == kept
    assert MEMORIES in ann("team", "status").out
    assert ann("forget", record_id, "--yes").code == 0
    assert ann("team", "status", "--format", "json").json["kept"] == []
    assert hits(ann, "doormat") == 0


def test_who_forgets_a_record_of_their_own_is_told_where_it_stays(
    shared: tuple[Project, Project, str],
) -> None:
    ann, ben, record_id = shared
    said = ann("team", "forget", record_id)
    assert (said.code, MEMORIES in said.err, "ralph forget" in said.err) == (0, True, True)
    assert hits(ann, "--team", "doormat") == 0
    assert ben("team", "sync").err == ""
    assert hits(ben, "--team", "doormat") == 0


def test_a_record_of_a_log_is_named_with_its_file(fleet: Fleet) -> None:
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    log = paths.log_folder(ann.root) / "sessions" / "s1.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(observation(1, "pytest failed in the doormat module"), encoding="utf-8")
    share = "memories,observations"
    assert ann("config", "team.share", share, "--local").code == 0
    for ralph in (ann, ben):
        assert ralph("trust", "--yes").code == 0
        assert ralph("team", "sync").code == 0
    assert ben("team", "forget", "obs-s1-000001").code == 0
    told = ann("team", "sync")
    assert Path(log).name in told.err
    assert hits(ann, "--team", "doormat") == 0
