"""`ralph forget` through the front door: a preview unless --yes is given, and what cannot be removed."""

import pytest
from tests.support.runner import Block, Project
from tests.support.secret_logs import S1, SECRET, raw, seen

from ralph.core import paths

ID = "mem-1705751400-a3f8"


@pytest.fixture
def full(ralph: Project) -> Project:
    """A project that holds the text in a memory and in a log."""
    ralph.memories(Block(f"the word is {SECRET}", id=ID), Block("kept", id="mem-1705751401-0001"))
    ralph.put(S1, seen(1, SECRET) + raw(SECRET) + seen(3, "kept", day=12))
    return ralph


def test_without_yes_it_says_exactly_what_would_go_and_changes_nothing(full: Project) -> None:
    before = full.read(), full.read(S1)
    said = full("forget", "--matching", SECRET)
    assert said.code == 0
    lines = said.out.splitlines()
    assert (
        lines[0]
        == f"would remove .agent/memories.md:5 {ID} (memories pattern) the word is {SECRET}"
    )
    log = paths.shown(full.file(S1), full.root)
    assert lines[1] == f"would remove {log}:1 obs-1 (observation tool_use) {SECRET}"
    assert lines[2].startswith(f"would remove {log}:2 ")
    assert lines[3].startswith("3 record(s) would be removed. ")
    assert "--yes" in lines[3]
    assert (full.read(), full.read(S1)) == before


def test_with_yes_it_is_gone_from_everywhere(full: Project) -> None:
    full("search", "zebrafish")
    assert SECRET.encode() in full.everything()
    said = full("forget", "--matching", SECRET.upper(), "--yes")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "Forgot 3."
    assert SECRET.encode() not in full.everything()
    assert full("search", "zebrafish", "--format", "json").json["hits"] == []
    assert full.read(S1) == seen(3, "kept", day=12)
    assert full("doctor", "--index").code == 0


def test_a_second_time_there_is_nothing_to_find(full: Project) -> None:
    assert full("forget", ID, "--yes").code == 0
    said = full("forget", ID, "--yes")
    assert said.code == 1
    assert f"not found: {ID}" in said.err


def test_a_session_and_a_time_mean_what_was_recorded(full: Project) -> None:
    said = full("forget", "--before", "2026-11-11")
    log = paths.shown(full.file(S1), full.root)
    assert [line.split()[2] for line in said.out.splitlines()[:-1]] == [f"{log}:1", f"{log}:2"]
    assert full("forget", "--session", "s", "--yes").code == 0
    assert not full.file(S1).exists()
    assert SECRET in full.read()


def test_what_stays_is_told_and_makes_the_exit_code_one(full: Project) -> None:
    full.put(".agent/memories.md.bak", full.read())
    full.put(".ralph/scratchpad.md", f"note: {SECRET}\n")
    said = full("forget", "--matching", SECRET)
    assert said.code == 0
    done = full("forget", "--matching", SECRET, "--yes")
    assert done.code == 1
    assert ".agent/memories.md.bak:6: not removed: a backup" in done.err
    assert ".ralph/scratchpad.md:1: not removed: edit it by hand" in done.err


def test_json_tells_the_same(full: Project) -> None:
    shape = full("forget", ID, "--format", "json").json
    assert [(each["id"], each["line"]) for each in shape["would_remove"]] == [(ID, 5)]
    assert (shape["left"], shape["whole_files"]) == ([], [])
    shape = full("forget", ID, "--yes", "--format", "json").json
    assert [each["id"] for each in shape["removed"]] == [ID]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--matching", ""],
        ["--matching", " "],
        [ID, "--session", "s1"],
        ["--before", "soonish"],
    ],
)
def test_wrong_usage_is_exit_code_two(full: Project, words: list[str]) -> None:
    assert full("forget", *words, "--yes").code == 2
    assert SECRET in full.read()


def test_nothing_found_is_exit_code_one(full: Project) -> None:
    said = full("forget", "--matching", "nowhere to be found")
    assert (said.code, said.out) == (1, "")
    assert "Nothing found" in said.err


def test_the_text_can_come_from_standard_input_where_no_history_keeps_it(full: Project) -> None:
    assert (
        full("forget", "--matching", "-", stdin=f"{SECRET}\n").out
        == full("forget", "--matching", SECRET).out
    )
    assert full("forget", "--matching", "-", "--yes", stdin=f"{SECRET}\r\n").code == 0
    assert SECRET.encode() not in full.everything()


def test_an_empty_standard_input_forgets_nothing(full: Project) -> None:
    said = full("forget", "--matching", "-", "--yes", stdin="\n")
    assert said.code == 2
    assert "matches everything" in said.err
