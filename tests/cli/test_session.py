"""`ralph session` through the front door."""

import json
import shlex
import sys

import pytest
from tests.support.runner import Project
from tests.support.session_logs import about, line

LOG = "log/sessions/{}.jsonl"


@pytest.fixture
def recorded(ralph: Project) -> Project:
    """A project with two sessions."""
    name = "3f2a77aa-0000-4000-8000-000000000000"
    ralph.put(
        LOG.format(name),
        about(name, host="claude") + line(name, 1, "fix \x1b[31mit") + line(name, 5, "and this"),
    )
    ralph.put(LOG.format("old"), line("old", 0, "an older one"))
    return ralph


def test_a_list_has_a_line_for_each_session(recorded: Project) -> None:
    said = recorded("session", "list")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].split() == [
        "session",
        "start",
        "length",
        "host",
        "activity",
        "first",
        "prompt",
    ]
    assert lines[1].split() == [
        "3f2a77aa-000",
        "2026-11-10",
        "10:01",
        "4",
        "min",
        "claude",
        "2",
        "fix",
        "\\x1b[31mit",
    ]
    assert len(lines) == 3


def test_the_id_in_the_table_is_enough_for_the_other_commands(recorded: Project) -> None:
    short = recorded("session", "list").out.splitlines()[1].split()[0]
    assert recorded("session", "show", short, "--summary").out.startswith("Goal: fix")


def test_a_list_can_be_limited_and_says_what_is_left_out(recorded: Project) -> None:
    said = recorded("session", "list", "--limit", "1")
    assert len(said.out.splitlines()) == 2
    assert "1 more; use --limit 2" in said.err
    assert recorded("session", "list", "--since", "2030-01-01").out == "No sessions.\n"


def test_json_is_valid_also_when_there_is_nothing(ralph: Project) -> None:
    assert ralph("session", "list", "--format", "json").json == []
    assert ralph("session", "show", "--summary", "--format", "json").json is None
    assert ralph("session", "show", "--format", "json").json["hits"] == []
    assert ralph("session", "show").out == "No session is recorded here.\n"
    assert ralph("session", "show", "3f2a").code == 1


def test_json_has_the_whole_session(recorded: Project) -> None:
    first = recorded("session", "list", "--format", "json").json[0]
    assert first["id"] == "3f2a77aa-0000-4000-8000-000000000000"
    assert (first["host"], first["activity"], first["seconds"]) == ("claude", 2, 240)
    shown = recorded("session", "show", "3f2a", "--format", "json").json
    assert [hit["text"] for hit in shown["hits"]] == ["fix \x1b[31mit", "and this"]
    summed = recorded("session", "show", "3f2a", "--summary", "--format", "json").json
    assert summed["stored"] is False
    assert summed["summary"].startswith("Goal: fix")


def test_a_session_is_shown_line_by_line_and_whole_when_asked(recorded: Project) -> None:
    said = recorded("session", "show", "3f2a")
    assert len(said.out.splitlines()) == 2
    assert "3f2a77aa-0000-4000-8000-000000000000" in said.err
    whole = recorded("session", "show", "old", "--layer", "3")
    assert whole.err == "old (2026-11-10 10:00, 0 s) an older one\n"
    assert "session: old" in whole.out


def test_an_id_that_means_nothing_is_not_found(recorded: Project) -> None:
    said = recorded("session", "show", "nope")
    assert said.code == 1
    assert "Session not found: nope" in said.err


# --- a better summary, and less of what is old -------------------------------------------------


def command(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -I -c {shlex.quote(code)}"


def test_a_summary_is_improved_when_somebody_asks_for_it(
    recorded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_SUMMARIZE_COMMAND", command("print('A better one.')"))
    assert recorded("session", "show", "3f2a", "--summary").out.startswith("Goal: fix")
    said = recorded("session", "show", "3f2a", "--summary", "--improve")
    assert (said.code, said.out) == (0, "A better one.\n")
    assert "rewrote the summary" in said.err
    assert recorded("session", "show", "3f2a", "--summary").out == "A better one.\n"


def test_a_summary_over_its_budget_is_compressed_by_a_command(
    recorded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.put(
        LOG.format("long"),
        line("long", 1, "fix it") + line("long", 2, f"Done: {'all ' * 40}", by="agent"),
    )
    monkeypatch.setenv("RALPH_SUMMARIZE_COMMAND", command("print('Short.')"))
    assert recorded("session", "show", "long", "--summary", "--budget", "9").out == "Short.\n"
    assert recorded("session", "show", "long", "--summary").out.startswith(
        "Goal: fix it\nLast: Done: all"
    )
    monkeypatch.setenv("RALPH_SUMMARIZE_COMMAND", command("raise SystemExit(3)"))
    said = recorded("session", "show", "long", "--summary", "--budget", "9")
    assert (said.code, said.out) == (0, "Goal: fix it\n")
    assert "summarize.command" in said.err


def test_a_command_that_fails_is_told_in_a_line_and_leaves_all_as_it_was(
    recorded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_SUMMARIZE_COMMAND", command("raise SystemExit(3)"))
    log = recorded.read(LOG.format("old"))
    said = recorded("session", "show", "old", "--summary", "--improve")
    assert (said.code, said.out) == (1, "Goal: an older one\n")
    assert "old: the summary is unchanged: " in said.err
    assert "exited with 3" in said.err
    assert recorded.read(LOG.format("old")) == log


def test_without_a_command_or_with_one_that_nobody_trusts_nothing_is_run(recorded: Project) -> None:
    said = recorded("session", "show", "old", "--summary", "--improve")
    assert said.code == 2
    assert "summarize.command is not set" in said.err
    recorded.put(
        "ralph.yml", f"summarize:\n  command: {json.dumps(command('open(chr(120), chr(119))'))}\n"
    )
    said = recorded("session", "show", "old", "--summary", "--improve")
    assert said.code == 2
    assert "until you trust it" in said.err
    assert not recorded.file("x").exists()
    assert recorded("trust", "--yes").code == 0
    assert recorded("session", "show", "old", "--summary", "--improve").code == 1
    assert recorded.file("x").exists()
    assert recorded("session", "show", "old", "--summary", "--last", "2").code == 2
