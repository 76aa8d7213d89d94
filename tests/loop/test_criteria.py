"""Criteria with real commands: how they are written, run and told."""

import sys
from pathlib import Path

import pytest

from ralph.core.errors import NotFound
from ralph.core.process import run
from ralph.core.record import CriterionKind
from ralph.loop.criteria import (
    MARKER,
    CriteriaVerdict,
    Criterion,
    check_criteria,
    command_argv,
    has_marker,
)

TIMEOUT = 600.0  # seconds
PYTHON = sys.executable
HANGS = (PYTHON, "-c", "import signal; signal.pause()")


def custom(command: str, expected: int = 0) -> Criterion:
    return Criterion(CriterionKind.CUSTOM, command, expected=expected)


def python(code: str, expected: int = 0) -> Criterion:
    return Criterion(CriterionKind.CUSTOM, argv=(PYTHON, "-c", code), expected=expected)


def verdict(folder: Path, *criteria: Criterion, text: str = "") -> CriteriaVerdict:
    return check_criteria(criteria, folder=folder, run=run, timeout=TIMEOUT, text=text)


def test_an_empty_list_has_nothing_against_the_work(tmp_path: Path) -> None:
    found = verdict(tmp_path)
    assert found.passed
    assert found.checks == ()
    assert found.failures == ""


def test_a_command_that_ends_with_zero_passes(tmp_path: Path) -> None:
    found = verdict(tmp_path, python("print('fine')"))
    (checked,) = found.checks
    assert found.passed
    assert (checked.message, checked.tail) == ("passed", "fine")
    assert found.failures == ""


def test_a_failing_command_is_reported_with_the_end_of_its_output(tmp_path: Path) -> None:
    found = verdict(tmp_path, python("import sys; print('out'); sys.exit('\\x1b[31merr\\x1b[0m')"))
    (checked,) = found.checks
    assert not found.passed
    assert checked.message == "ended with 1 instead of 0"
    assert checked.tail == "out\nerr"
    assert found.failures.endswith(": ended with 1 instead of 0\nout\nerr")


def test_the_expected_code_decides(tmp_path: Path) -> None:
    assert verdict(tmp_path, custom("exit 3", expected=3)).passed
    found = verdict(tmp_path, custom("exit 0", expected=3))
    assert not found.passed
    assert found.failures == "custom: exit 0 (exit code 3): ended with 0 instead of 3"


def test_all_criteria_run_also_after_one_has_failed(tmp_path: Path) -> None:
    found = verdict(
        tmp_path, python("raise SystemExit(1)"), python("raise SystemExit(2)"), python("")
    )
    messages = ["ended with 1 instead of 0", "ended with 2 instead of 0", "passed"]
    assert [checked.message for checked in found.checks] == messages


def test_commands_run_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert verdict(tmp_path, custom("test -d here")).passed


def test_a_hanging_command_is_stopped(tmp_path: Path) -> None:
    found = verdict(tmp_path, Criterion(CriterionKind.TEST_PASS, argv=HANGS, timeout=0.2))
    (checked,) = found.checks
    assert not found.passed
    assert checked.message == "took longer than 0.2 s and was stopped"


def test_without_a_limit_of_its_own_a_criterion_has_the_loops(tmp_path: Path) -> None:
    found = check_criteria(
        [Criterion(CriterionKind.TEST_PASS, argv=HANGS)], folder=tmp_path, run=run, timeout=0.2
    )
    assert found.checks[0].message == "took longer than 0.2 s and was stopped"


@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        (custom("there-is-no-such-program --flag"), "there-is-no-such-program"),
        (custom("true && there-is-no-such-program"), "a program that it needs"),
        (custom("env A=b there-is-no-such-program"), "a program that it needs"),
        (custom("./not-there.sh"), "./not-there.sh"),
    ],
)
def test_a_missing_command_says_what_to_install(
    tmp_path: Path, criterion: Criterion, name: str
) -> None:
    (checked,) = verdict(tmp_path, criterion).checks
    assert "is missing or cannot be started" in checked.message
    assert not checked.passed
    assert checked.message.startswith(name)
    assert "install it, or name another command" in checked.message


def test_a_failing_import_is_no_missing_command(tmp_path: Path) -> None:
    (checked,) = verdict(tmp_path, python("import no_such_module")).checks
    assert not checked.missing
    assert "No module named" in checked.tail


def test_a_missing_command_never_passes_whatever_is_expected(tmp_path: Path) -> None:
    assert not verdict(tmp_path, custom("there-is-no-such-program", expected=127)).passed
    assert verdict(tmp_path, custom("exit 127", expected=127)).passed


def test_a_stop_leaves_the_rest_unchecked(tmp_path: Path) -> None:
    asked = iter([False, True])
    criteria = [python(""), Criterion(CriterionKind.TEST_PASS, argv=HANGS)]
    found = check_criteria(
        criteria, folder=tmp_path, run=run, timeout=TIMEOUT, stopped=lambda: next(asked, True)
    )
    assert found.stopped
    assert not found.passed
    assert found.failures == "stopped before all criteria were checked"


def test_a_criterion_without_a_command_is_an_error_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="test_pass: no command is known"):
        verdict(tmp_path, Criterion(CriterionKind.TEST_PASS))


@pytest.mark.parametrize(
    "text",
    [
        MARKER,
        f"Done.\n\n{MARKER}\n",
        f"  {MARKER}  \r\nbye",
        f"```\ncode\n```\n{MARKER}",
        f"**{MARKER}**",
        f"x\n{MARKER}\ny",
    ],
)
def test_a_marker_alone_on_a_line_counts(text: str) -> None:
    assert has_marker(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"I will print {MARKER} when done",
        f"`{MARKER}`",
        f"> {MARKER}",
        f"```\n{MARKER}\n```",
        f"~~~text\n{MARKER}\n~~~",
        f"````\n```\n{MARKER}\n```\n````",
        f"<!--\n{MARKER}\n-->",
        "[ralph_success]",
    ],
)
def test_a_marker_within_words_or_examples_does_not_count(text: str) -> None:
    assert not has_marker(text)


def test_a_marker_in_a_repeated_prompt_does_not_count() -> None:
    prompt = f"When all is done, say on a line of its own:\n\n{MARKER}\n\nNever before."
    assert not has_marker(f"I was told:\n{prompt}\nSo I begin.", echo=prompt)
    assert not has_marker(prompt, echo=prompt)
    assert not has_marker(prompt.partition("\n\nNever")[0], echo=prompt)  # cut off
    assert has_marker(f"I was told:\n{prompt}\nAnd it is.\n{MARKER}", echo=prompt)
    assert has_marker(MARKER, echo=prompt)


def test_a_marker_is_a_criterion(tmp_path: Path) -> None:
    own = Criterion(CriterionKind.MARKER, marker="ALL GREEN")
    there = verdict(tmp_path, own, text="ALL GREEN")
    assert there.passed
    assert there.marked
    missing = verdict(tmp_path, own, text=MARKER)
    assert not missing.passed
    assert not missing.marked
    assert missing.failures == "marker: ALL GREEN: is not alone on a line of the agent's answer"


def test_the_usual_marker_is_a_claim_also_when_it_is_no_criterion(tmp_path: Path) -> None:
    found = verdict(tmp_path, python("raise SystemExit(1)"), text=MARKER)
    assert found.marked
    assert not found.passed


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("npm run e2e", ("npm", "run", "e2e")),
        ("grep 'two words' file.txt", ("grep", "two words", "file.txt")),
        ('pytest -k "a or b"', ("pytest", "-k", "a or b")),
        ("", ()),
    ],
)
def test_a_plain_command_needs_no_shell(command: str, argv: tuple[str, ...]) -> None:
    assert command_argv(command) == argv


@pytest.mark.parametrize(
    "command",
    [
        "a && b",
        "a | b",
        "a; b",
        "echo $HOME",
        "ls *.py",
        "a > out",
        "cd sub",
        "exit 3",
        "A=1 make",
        "~/check",
        "a `b`",
    ],
)
def test_a_command_with_shell_characters_goes_to_a_shell_unchanged(command: str) -> None:
    assert command_argv(command) == ("/bin/sh", "-c", command)
