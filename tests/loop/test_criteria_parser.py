"""Criteria as users write them, completed with detected commands."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import NotFound, UsageError
from ralph.core.record import CriterionKind
from ralph.loop.criteria import Criterion
from ralph.loop.criteria_parser import add_detected_commands, parse_criteria


def custom(command: str, expected: int = 0) -> Criterion:
    return Criterion(CriterionKind.CUSTOM, command, expected=expected)


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
