"""`ralph team status`: how far behind a machine is, how much is shared, and what went wrong."""

from typing import Any

import pytest
from tests.support.machines import Fleet, joined, observation
from tests.support.runner import Project

from ralph.core import paths


def state_of(ralph: Project) -> dict[str, Any]:
    state: dict[str, Any] = ralph("team", "status", "--format", "json").json
    return state


def add_log(ralph: Project, first: int, last: int) -> None:
    log = paths.log_folder(ralph.root) / "sessions" / "s1.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        for number in range(first, last):
            file.write(observation(number, f"pytest failed {number}"))


def test_the_lag_is_what_a_pull_would_fetch(fleet: Fleet) -> None:
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    assert ann("config", "team.share", "memories,observations", "--local").code == 0
    assert ann("trust", "--yes").code == 0
    ann("memory", "add", "Deploy on Tuesdays", "-t", "fix")
    add_log(ann, 0, 3)
    assert ann("team", "sync").code == 0
    before = state_of(ben)
    assert (before["rows_to_pull"], before["lag_seconds"]) == (4, None)
    assert ben("team", "sync").code == 0
    after = state_of(ben)
    assert (after["rows_to_pull"], after["pulled_rows"], after["server_rows"]) == (0, 4, 4)
    assert after["lag_seconds"] >= 0
    add_log(ann, 3, 5)
    assert ann("team", "sync").code == 0
    assert state_of(ben)["rows_to_pull"] == 2
    assert "to pull:     2 row(s)" in ben("team", "status").out


@pytest.mark.parametrize("kind", ["dump", "files"])
def test_rows_that_a_restored_server_lost_are_counted_until_it_has_them_again(
    fleet: Fleet, kind: str
) -> None:
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    ann("memory", "add", "Deploy on Tuesdays", "-t", "fix")
    assert ann("team", "sync").code == 0
    fleet.back_up(kind)
    ann("memory", "add", "Review on Mondays", "-t", "fix")
    ann("memory", "add", "Rest on Sundays", "-t", "fix")
    assert ann("team", "sync").code == 0
    assert ben("team", "sync").code == 0
    assert state_of(ben)["lost_rows"] == 0
    assert "lost:" not in ben("team", "status").out
    fleet.restore(kind)
    assert state_of(ben)["lost_rows"] == 2  # even before a sync notices
    assert "lost 2 row(s)" in ben("team", "sync").err
    assert state_of(ben)["lost_rows"] == 2
    assert "lost:        2 row(s) that the server lost" in ben("team", "status").out
    assert ann("team", "sync").code == 0
    assert state_of(ben)["lost_rows"] == 0
    fleet.drop()
    assert state_of(ben)["lost_rows"] == 0


def test_the_sizes_are_those_of_the_tables_and_of_the_pulled_file(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    before = state_of(ann)
    assert before["pulled_bytes"] == 0
    assert before["server_bytes"] > 0
    ann("memory", "add", "Deploy on Tuesdays. " * 2000, "-t", "fix")
    assert ann("team", "sync").code == 0
    after = state_of(ann)
    assert after["server_bytes"] > before["server_bytes"]
    assert after["pulled_bytes"] == paths.team_database(ann.root).stat().st_size


def test_the_latest_errors_are_kept_newest_first(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    assert state_of(ann)["last_errors"] == []
    fleet.drop()
    for option in ("--push-only", "--pull-only") * 4:
        assert ann("team", "sync", option).code == 1
    state = state_of(ann)
    actions = [error["action"] for error in state["last_errors"]]
    assert actions == ["pull", "push", "pull", "push", "pull"]
    assert "refused the connection" in state["last_errors"][0]["message"]
    assert state["last_errors"][0]["at"].endswith("Z")
    shown = ann("team", "status")
    assert (shown.code, "last error:  pull, 2" in shown.out) == (1, True)


def test_a_damaged_list_of_errors_is_no_error(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    paths.team_failures(ann.root).write_text('{"at": 1\n[]\n', encoding="utf-8")
    assert state_of(ann)["last_errors"] == []


def test_a_team_that_was_left_leaves_no_errors_behind(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    fleet.drop()
    assert ann("team", "sync").code == 1
    assert ann("team", "leave").code == 0
    assert not paths.team_failures(ann.root).exists()
