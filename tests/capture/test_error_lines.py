"""An error is stored with the line that names it, whatever program reported it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.captured_hooks import event

from ralph.capture.error_lines import name_error
from ralph.capture.pipeline import observe
from ralph.capture.uninformative_lines import FORMS, names_nothing

GOLDEN = Path(__file__).parents[1] / "golden" / "errors"
EXPECTED: dict[str, str] = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))


def output_of(sample: str) -> str:
    return (GOLDEN / f"{sample}.txt").read_text(encoding="utf-8")


def test_every_sample_has_an_expected_line() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == EXPECTED.keys()


@pytest.mark.parametrize("sample", EXPECTED)
def test_the_error_is_the_line_that_names_it(sample: str) -> None:
    failure = event("claude.PostToolUseFailure-Bash", error=f"Exit code 1\n{output_of(sample)}")
    record = observe(failure)
    assert record is not None
    assert record.extra.get("error", "") == EXPECTED[sample]


def test_what_a_program_said_last_is_the_error_if_nothing_else_is() -> None:
    assert name_error("checking the config\nset DEPLOY_REGION first\n") == "set DEPLOY_REGION first"


@pytest.mark.parametrize(
    "line",
    [
        "Exit code 2",
        "> shop@1.0.0 test",
        "ERROR tests/test_cli.py",
        "=== short test summary info ===",
        "1 failed, 3 passed in 0.12s",
        "make: *** [Makefile:3: test] Error 1",
        "npm error code ELIFECYCLE",
        "error: could not compile `shop` (lib) due to 2 previous errors",
        "BUILD FAILED in 3s",
    ],
)
def test_banners_counts_and_exit_codes_name_nothing(line: str) -> None:
    assert name_error(f"{line}\n") == ""


def test_the_error_is_found_at_both_ends_of_a_long_output() -> None:
    noise = "compiling\n" * 20_000
    assert name_error(f"{noise}E   ValueError: no rate\n{noise}") == "compiling"
    assert name_error(f"{noise}E   ValueError: no rate\n") == "ValueError: no rate"
    assert name_error(f"E   ValueError: no rate\n{noise}") == "ValueError: no rate"


def test_lines_that_only_announce_an_error_are_joined_up_to_a_limit() -> None:
    assert name_error("Error:\n\nno rate\n") == "Error: no rate"
    assert len(name_error("a Error\n" * 5_000)) < 200


@pytest.mark.parametrize("regex", [form.regex for form in FORMS])
@given(data=st.data())
def test_every_line_of_a_form_begins_with_and_contains_what_the_form_says(
    regex: str, data: st.DataObject
) -> None:
    ascii_only = st.characters(max_codepoint=126)
    line = data.draw(st.from_regex(regex, fullmatch=True, alphabet=ascii_only))
    assert names_nothing(f"  {line}")
