"""Sessions as the index knows them: listed, found by a part of their id, shown and summed up."""

from pathlib import Path

import pytest
from tests.support.session_logs import about, line, put

from ralph.core.errors import Conflict, NotFound
from ralph.core.record import Detail, ObservationKind
from ralph.recall import session_summary, sessions


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three sessions: one with a line about itself, one without, one that only began."""
    put(
        tmp_path, "aaaa-1",
        about("aaaa-1", started_at="2026-11-10T09:59:00Z", host="claude", mode="plan", project_path="/p"),
        line("aaaa-1", 0, "/clear"), line("aaaa-1", 1, "add a login page"),
        line("aaaa-1", 2, "ran make", ObservationKind.TOOL_USE, "tool"),
        about("aaaa-1", ended_at="2026-11-10T10:29:00Z", summary="Goal: a login page", tags=["login"]),
    )  # fmt: skip
    put(
        tmp_path,
        "aaab-2",
        line("aaab-2", 70, "why is it slow?"),
        line("aaab-2", 75, "The cache.", by="agent"),
    )
    put(tmp_path, "cccc-3", about("cccc-3", started_at="2026-11-09T08:00:00Z", host="codex"))
    return tmp_path


def test_the_newest_is_first_and_each_says_how_it_began(root: Path) -> None:
    found, total = sessions.list_(root)
    assert total == 3
    assert [
        (each.id, each.observations, each.host, each.prompt, each.seconds) for each in found
    ] == [
        ("aaab-2", 2, "", "why is it slow?", 300),
        ("aaaa-1", 3, "claude", "add a login page", 1800),
        ("cccc-3", 0, "codex", "", None),
    ]
    assert (found[1].mode, found[1].project, found[1].tags) == ("plan", "/p", ("login",))


def test_a_limit_and_a_time_narrow_the_list(root: Path) -> None:
    found, total = sessions.list_(root, limit=1)
    assert ([each.id for each in found], total) == (["aaab-2"], 3)
    found, total = sessions.list_(root, since="2026-11-10")
    assert ([each.id for each in found], total) == (["aaab-2", "aaaa-1"], 2)


def test_a_part_of_an_id_is_enough_when_it_means_one_session(root: Path) -> None:
    assert sessions.find(root, "aaaa").id == "aaaa-1"
    assert sessions.find(root).id == "aaab-2"
    with pytest.raises(Conflict, match="2 sessions begin with aaa: aaab-2, aaaa-1"):
        sessions.find(root, "aaa")
    with pytest.raises(NotFound, match="Session not found: zzz"):
        sessions.find(root, "zzz")


def test_an_id_that_begins_another_one_still_means_itself(root: Path) -> None:
    put(root, "aaaa-12", line("aaaa-12", 80, "x"))
    assert sessions.find(root, "aaaa-1").id == "aaaa-1"


def test_a_session_is_shown_in_its_order_at_the_detail_that_is_asked_for(root: Path) -> None:
    one, answer = sessions.show(root, "aaaa")
    assert one.prompt == "add a login page"
    assert [each.hit.record.text for each in answer.shown] == [
        "/clear",
        "add a login page",
        "ran make",
    ]
    assert all("\n" not in each.text for each in answer.shown)
    _, whole = sessions.show(root, "aaaa", layer=Detail.FULL, limit=1)
    assert whole.found.total == 3
    assert [each.hit.record.text for each in whole.shown] == ["ran make"]
    assert "session: aaaa-1" in whole.shown[0].text
    _, late = sessions.show(root, "aaaa", since="2026-11-10T10:02")
    assert [each.hit.record.text for each in late.shown] == ["ran make"]


def test_the_stored_summary_counts_and_else_it_is_made_now(root: Path) -> None:
    stored = session_summary.summarize(root, "aaaa")
    assert (stored.text, stored.stored) == ("Goal: a login page", True)
    made = session_summary.summarize(root, "aaab")
    assert (made.text, made.stored) == ("Goal: why is it slow?\nLast: The cache.", False)
    assert session_summary.summarize(root, "aaab", budget=8).text == "Goal: why is it slow?"
    assert session_summary.summarize(root, "cccc").text == ""


def test_nothing_recorded_is_no_session(tmp_path: Path) -> None:
    assert sessions.list_(tmp_path) == ((), 0)
    with pytest.raises(NotFound, match="no session is recorded"):
        session_summary.summarize(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_times_that_make_no_sense_give_no_length(tmp_path: Path) -> None:
    put(
        tmp_path,
        "s",
        about("s", started_at="soon", ended_at="2026-11-10T10:29:00Z", tags="not a list"),
    )
    put(tmp_path, "t", about("t", started_at="2026-11-10", ended_at="2026-11-10T10:29:00Z"))
    found, _ = sessions.list_(tmp_path)
    assert [(each.id, each.seconds) for each in found] == [("s", None), ("t", None)]


def test_what_was_done_several_times_running_is_shown_once_with_its_count(tmp_path: Path) -> None:
    polls = [line("s", n, "still running", ObservationKind.TOOL_USE, "tool") for n in range(1, 13)]
    put(
        tmp_path,
        "s",
        line("s", 0, "wait for it"),
        *polls,
        line("s", 20, "done"),
        polls[0].replace("000", "111"),
    )
    _, answer = sessions.show(tmp_path, "s")
    assert [(each.hit.record.text, each.count) for each in answer.shown] == [
        ("wait for it", 1), ("still running", 12), ("done", 1), ("still running", 1),
    ]  # fmt: skip
    assert " 12x " in answer.shown[1].text
    assert answer.found.total == 15
    _, two = sessions.show(tmp_path, "s", limit=3, layer=Detail.FULL)
    assert "repeated: 12 times in this session" in two.shown[0].text
