"""`ralph learn --dry-run` and `--apply`: a prompt is printed, and the answer to it is verified."""

import json
import re
from pathlib import Path

import pytest
from tests.support.distilling import (
    LESSON,
    OTHER_LESSON,
    OTHER_QUOTE,
    QUOTE,
    answer,
    proposed,
    record_id,
    record_long_sessions,
    record_session,
    state_bytes,
)
from tests.support.runner import Project

from ralph.learning import learn_progress

COMMAND = re.compile(r"^# To apply the answer: ralph (learn --apply - .*)$", re.MULTILINE)


def printed_command(output: str) -> list[str]:
    """Return the words of the command in the last line of a prompt."""
    found = COMMAND.search(output)
    assert found is not None
    assert output.endswith(f"{found[0]}\n")
    return found[1].split()


def test_the_command_at_the_end_of_the_prompt_applies_an_answer(ralph: Project) -> None:
    end = record_session(ralph.root)
    prompt = ralph("learn", "--dry-run")
    assert prompt.code == 0
    assert "# This is prompt 1 of 1.\n" in prompt.out
    command = printed_command(prompt.out)
    assert command[-1] == end
    said = ralph(*command, stdin=answer())
    assert said.code == 0
    assert "1 proposal(s). Decide with `ralph review`." in said.out
    assert proposed(ralph.root) == [LESSON]
    assert ralph("learn", "--dry-run").out == "Nothing was recorded since the last time.\n"


def test_printing_the_prompt_changes_nothing_but_the_index(ralph: Project) -> None:
    record_session(ralph.root)
    first = ralph("learn", "--dry-run").out
    assert ralph("learn", "--dry-run").out == first
    assert state_bytes(ralph.root) == {}


def test_an_answer_in_a_file_is_read_with_the_prose_around_it(ralph: Project) -> None:
    record_session(ralph.root)
    path = ralph.put("answer.md", f"Here it is:\n\n```json\n{answer()}\n```\n")
    said = ralph("learn", "--apply", str(path), "--format", "json")
    assert said.code == 0
    [proposal] = said.json["proposals"]
    assert (proposal["text"], proposal["type"], proposal["operation"]) == (
        LESSON,
        "decision",
        "add",
    )
    assert said.json["dropped"] == {}


def test_without_until_the_same_sessions_are_in_the_next_prompt(ralph: Project) -> None:
    record_session(ralph.root)
    ralph("learn", "--apply", "-", stdin=answer())
    assert record_id()[-4:] in ralph("learn", "--dry-run").out


def test_an_answer_that_is_applied_twice_is_proposed_once(ralph: Project) -> None:
    end = record_session(ralph.root)
    ralph("learn", "--apply", "-", "--until", end, stdin=answer())
    before = state_bytes(ralph.root)
    again = ralph("learn", "--apply", "-", "--until", end, stdin=answer())
    assert (again.code, again.out) == (0, "Nothing new was proposed.\n")
    assert state_bytes(ralph.root) == before


def test_an_answer_about_older_sessions_is_applied_with_the_same_since(ralph: Project) -> None:
    end = record_session(ralph.root)
    learn_progress.note_progress(ralph.root, end)
    command = printed_command(ralph("learn", "--dry-run", "--since", "2026-11-01").out)
    assert command[-2:] == ["--since", "2026-11-01"]
    assert "1 proposal(s)" in ralph(*command, stdin=answer()).out


def test_a_smaller_budget_makes_more_prompts_which_follow_each_other(ralph: Project) -> None:
    last_prompt = record_long_sessions(ralph.root)
    assert "# This is prompt 1 of 1.\n" in ralph("learn", "--dry-run").out
    first = ralph("learn", "--dry-run", "--budget", "1000").out
    assert re.search(r"^# This is prompt 1 of [23]\. The next one is printed once", first, re.M)
    assert "1 proposal(s)" in ralph(*printed_command(first), stdin=answer()).out
    second = ralph("learn", "--dry-run", "--budget", "1000").out
    assert record_id()[-4:] not in second
    last = answer(OTHER_LESSON, OTHER_QUOTE, last_prompt)
    assert "1 proposal(s)" in ralph(*printed_command(second), stdin=last).out


def test_a_later_answer_replaces_or_removes_an_earlier_proposal(ralph: Project) -> None:
    end = record_session(ralph.root)
    ralph("learn", "--apply", "-", "--until", end, stdin=answer())
    [waiting] = ralph("review", "--format", "json").json
    later = record_session(ralph.root, name="later", minute=30, quote=OTHER_QUOTE)
    assert LESSON in ralph("learn", "--dry-run").out, "later prompts list what was proposed"
    changed = json.loads(answer(OTHER_LESSON, OTHER_QUOTE, record_id("later", 30)))
    changed["memories"][0]["supersedes"] = [waiting["id"]]
    ralph("learn", "--apply", "-", "--until", later, stdin=json.dumps(changed))
    [left] = ralph("review", "--format", "json").json
    assert left["text"] == OTHER_LESSON
    evidence = [{"id": record_id("last", 40), "quote": QUOTE}]
    last = record_session(ralph.root, name="last", minute=40)
    removal = json.dumps({"deletions": [{"id": left["id"], "evidence": evidence}]})
    ralph("learn", "--apply", "-", "--until", last, stdin=removal)
    assert ralph("review", "--format", "json").json == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "the answer is empty", id="empty"),
        pytest.param(b" \n\n", "the answer is empty", id="blank"),
        pytest.param(b"{", "not JSON of the expected form", id="cut off"),
        pytest.param(b"null", "not JSON of the expected form", id="null"),
        pytest.param(b'{"lessons": []}', "not JSON of the expected form", id="other members"),
        pytest.param(b"{" * 100_000, "not JSON of the expected form", id="only braces"),
        pytest.param(b"\xff\xfe{}", "UTF-8", id="not text"),
    ],
)
@pytest.mark.parametrize("source", ["file", "stdin"])
def test_an_answer_that_cannot_be_read_is_an_error_and_changes_nothing(
    ralph: Project, tmp_path: Path, content: bytes, message: str, source: str
) -> None:
    end = record_session(ralph.root)
    path = tmp_path / "answer.json"
    path.write_bytes(content)
    before = ralph.marks()
    if source == "stdin":
        said = ralph("learn", "--apply", "-", "--until", end, stdin=content)
    else:
        said = ralph("learn", "--apply", str(path), "--until", end)
    assert said.code == 1
    assert said.out == ""
    assert message in said.err.splitlines()[0]
    assert "Traceback" not in said.err
    assert ralph.marks() == before


@pytest.mark.parametrize("name", ["gone.json", "folder"])
def test_a_file_that_cannot_be_opened_is_an_error_and_changes_nothing(
    ralph: Project, tmp_path: Path, name: str
) -> None:
    end = record_session(ralph.root)
    (tmp_path / "folder").mkdir()
    before = ralph.marks()
    said = ralph("learn", "--apply", str(tmp_path / name), "--until", end)
    assert (said.code, said.out) == (1, "")
    assert f"{name}: " in said.err.splitlines()[0]
    assert ralph.marks() == before


@pytest.mark.parametrize(
    "until",
    [
        pytest.param("2026-11-10T10:02:30Z", id="between two events"),
        pytest.param("2999-01-01T00:00:00Z", id="the future"),
        pytest.param("TIME", id="the placeholder"),
    ],
)
def test_a_time_at_which_nothing_was_recorded_is_refused(ralph: Project, until: str) -> None:
    record_session(ralph.root)
    said = ralph("learn", "--apply", "-", "--until", until, stdin=answer())
    assert said.code == 2
    assert f"{until!r} is not the time of a recorded event" in said.err
    assert state_bytes(ralph.root) == {}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--until", "2026-11-10T10:02:00Z"], id="until alone"),
        pytest.param(["--until", "2026-11-10T10:02:00Z", "--dry-run"], id="until with dry run"),
        pytest.param(["--dry-run", "--apply", "-"], id="dry run and apply"),
        pytest.param(["--tidy", "--apply", "-"], id="tidy and apply"),
        pytest.param(["--dry-run", "--budget", "999"], id="a budget without room"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(ralph: Project, words: list[str]) -> None:
    record_session(ralph.root)
    before = ralph.marks()
    said = ralph("learn", *words, stdin=answer())
    assert (said.code, said.out) == (2, "")
    assert ralph.marks() == before
