"""Criteria with real commands: how they are written, run and told."""

import contextlib
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import NotFound, UsageError
from ralph.core.process import run
from ralph.core.record import CriterionKind
from ralph.loop.criteria import (
    MARKER,
    OUTPUT_LENGTH,
    CriteriaVerdict,
    Criterion,
    add_detected_commands,
    check,
    command_argv,
    failure_signature,
    has_marker,
    mask_line,
    output_tail,
    parse_criteria,
)

PYTHON = sys.executable
HANGS = (PYTHON, "-c", "import signal; signal.pause()")


def custom(command: str, expected: int = 0) -> Criterion:
    return Criterion(CriterionKind.CUSTOM, command, expected=expected)


def python(code: str, expected: int = 0) -> Criterion:
    return Criterion(CriterionKind.CUSTOM, argv=(PYTHON, "-c", code), expected=expected)


def verdict(folder: Path, *criteria: Criterion, text: str = "") -> CriteriaVerdict:
    return check(criteria, folder=folder, run=run, text=text)


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
    found = check(
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
    found = check(criteria, folder=tmp_path, run=run, stopped=lambda: next(asked, True))
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
    ("word", "expected"),
    [
        ("test_pass", Criterion(CriterionKind.TEST_PASS)),
        (" Type-Check ", Criterion(CriterionKind.TYPE_CHECK)),
        ("lint_clean: ruff check", Criterion(CriterionKind.LINT_CLEAN, "ruff check")),
        ("custom:npm run e2e", custom("npm run e2e")),
        ("npm run test:unit", custom("npm run test:unit")),
        ("custom:./check.sh --all =3", custom("./check.sh --all", 3)),
        ("make test VERBOSE=1", custom("make test VERBOSE=1")),
        ("make test VERBOSE=1 =2", custom("make test VERBOSE=1", 2)),
        ("pytest --maxfail=1", custom("pytest --maxfail=1")),
        ("tests/run.sh", custom("tests/run.sh")),
        ("build.sh", custom("build.sh")),
        ("testem", custom("testem")),
        ("marker", Criterion(CriterionKind.MARKER)),
        ("marker:ALL: GREEN", Criterion(CriterionKind.MARKER, marker="ALL: GREEN")),
        ("curl http://localhost:8000/health", custom("curl http://localhost:8000/health")),
    ],
)
def test_a_criterion_is_read_as_it_is_written(word: str, expected: Criterion) -> None:
    assert parse_criteria([word]) == (expected,)


def test_each_criterion_counts_once() -> None:
    assert len(parse_criteria(["test_pass", "test-pass", "make test", "make test"])) == 2


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("custom:", "nothing follows the colon"),
        ("marker: ", "nothing follows the colon"),
        ("costum:npm test", "costum: there is no such criterion"),
        ("custom:echo 'open", "a quote is not closed"),
        ("custom:./check.sh =256", "at most 255"),
    ],
)
def test_an_invalid_criterion_is_an_error_with_valid_forms(word: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_criteria([word])
    assert caught.value.hint


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


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"))))
def test_any_words_are_criteria_or_a_usage_error(words: list[str]) -> None:
    with contextlib.suppress(UsageError):
        assert len(parse_criteria(words)) <= len(words)


def test_found_commands_complete_the_criteria() -> None:
    found = {
        CriterionKind.TEST_PASS: Criterion(
            CriterionKind.TEST_PASS, argv=("npm", "test"), why="package.json:3"
        )
    }
    wanted = parse_criteria(["test_pass", "marker", "make e2e"])
    first, *rest = add_detected_commands(wanted, found)
    assert first.argv == ("npm", "test")
    assert first.why.startswith("package.json:3")
    assert first.label == "test_pass: npm test"
    assert tuple(rest) == wanted[1:]


def test_a_command_that_was_named_wins_over_the_found_one() -> None:
    found = {CriterionKind.TEST_PASS: Criterion(CriterionKind.TEST_PASS, argv=("npm", "test"))}
    assert (
        add_detected_commands(parse_criteria(["test_pass:make unit"]), found)[0].label
        == "test_pass: make unit"
    )


def test_a_kind_without_a_command_is_an_error_that_says_how_to_name_it() -> None:
    with pytest.raises(NotFound, match="build_success: no command for it was found") as caught:
        add_detected_commands(parse_criteria(["build_success"]), {})
    assert '--criteria "build_success:COMMAND"' in caught.value.hint


SAME = [
    ("1 failed, 5 passed in 0.12s", "1 failed, 5 passed in 10.03s"),
    ("==== 1 failed in 0.12s =====", "=== 1 failed in 100.12s ==="),
    ("object at 0x7f3a2b", "object at 0x55d1f0aa"),
    (
        "/tmp/pytest-of-a/pytest-1/x.py: no such file",
        "/tmp/pytest-of-b/pytest-22/yy.py: no such file",
    ),
    ("/private/var/folders/x1/ab/T/tmp1: no", "/var/folders/zz/T/other: no"),
    ("at 2024-01-02T03:04:05.123Z it broke", "at 2026-11-12T13:14:15Z it broke"),
    ("\x1b[31mred\x1b[0m failure", "red failure"),
    ("commit 3f2a9c1b failed", "commit 99ab01cd22 failed"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174fff"),
    ("took 1m 3s", "took 12 ms"),
    ("a failed\nb failed", "b failed\na failed"),
    ("line   one", "line one\n\n"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_run_to_run_makes_no_other_failure(one: str, other: str) -> None:
    assert failure_signature(one) == failure_signature(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("FAILED tests/test_a.py::test_x", "FAILED tests/test_a.py::test_y"),
        ("NameError: a", "TypeError: a"),
        ("src/a.py: broken", "src/b.py: broken"),
        ("Monitor failed", "Sunset failed"),
        ("the decade ended", "the facade ended"),  # letters that could be hex are words
        ("", "something"),
    ],
)
def test_another_failure_has_another_signature(one: str, other: str) -> None:
    assert failure_signature(one) != failure_signature(other)


@pytest.mark.parametrize("text", ["", "\n \n", "\x1b[0m\n"])
def test_nothing_has_no_signature(text: str) -> None:
    assert failure_signature(text) == ""


def test_a_signature_can_be_read_and_begins_with_the_telling_line() -> None:
    text = "the criteria do not agree\ncollected 3 items\nFAILED tests/test_a.py::test_x - assert 1 == 2\nbye"
    assert (
        failure_signature(text).partition(" ")[2]
        == "FAILED tests/test_a.py::test_x - assert # == #"
    )
    assert "\n" not in failure_signature(text)


@given(st.text())
def test_a_line_that_was_masked_stays_as_it_is(text: str) -> None:
    assert "\n" not in failure_signature(text)
    assert failure_signature(text) == failure_signature(text + "\n")


def test_short_output_stays_complete_without_colours() -> None:
    assert output_tail("\x1b[1;31mred\x1b[0m\nplain\n", "") == "red\nplain"
    assert output_tail("link \x1b]8;;http://x\x07here\x1b]8;;\x07", "") == "link here"


def test_a_long_output_is_cut_at_a_line() -> None:
    kept = output_tail(
        "\n".join(f"line {letter * 30}" for letter in "abcdefghijklmnopqrstuvwxyz" * 10), ""
    )
    assert len(kept) <= OUTPUT_LENGTH + 10
    first, second, *_, last = kept.split("\n")
    assert first == "..."
    assert second.startswith("line ")
    assert last == "line " + "z" * 30


def test_the_same_failure_is_cut_at_the_same_line_however_long_its_numbers_are() -> None:
    def printed(number: int) -> str:
        words = (first + second for first in "abcdefghijklmnop" for second in "qrstuvwxyz")
        return output_tail("".join(f"step {word} {number} of {number}\n" for word in words), "")

    assert failure_signature(printed(1)) == failure_signature(printed(123_456_789))


def test_the_end_of_both_streams_stays() -> None:
    long = "\n".join("x" * 50 for _ in range(200))
    kept = output_tail(long + "\nlast of out", long + "\nlast of err")
    assert "last of out" in kept
    assert kept.endswith("last of err")
    assert len(kept) <= OUTPUT_LENGTH + 20


def test_only_the_last_state_of_a_progress_bar_stays() -> None:
    assert output_tail("10%\r50%\r100%\r\ndone\r\n", "") == "100%\ndone"


def test_a_very_long_line_is_shortened() -> None:
    kept = output_tail("y" * 1_000_000, "")
    assert 100 < len(kept) <= OUTPUT_LENGTH
    assert kept.endswith(" ...")


@given(st.text(), st.text())
def test_whatever_is_printed_the_tail_is_short_and_clean(out: str, err: str) -> None:
    kept = output_tail(out * 50, err * 50)
    assert not any(ord(sign) < 32 and sign not in "\t\n" for sign in kept)
    assert sum(len(mask_line(line)) + 1 for line in kept.split("\n")) <= OUTPUT_LENGTH + 20
