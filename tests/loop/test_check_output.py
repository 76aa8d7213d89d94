"""The output of commands, compared and shortened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.loop.check_output import OUTPUT_LENGTH, failure_signature, mask_line, output_tail

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


@pytest.mark.parametrize(
    "out",
    ["\n> test\n> node test.js\n\nAssertionError: 1", "$ jest\nAssertionError: 1"],
    ids=["npm", "yarn"],
)
def test_the_banner_of_a_runner_is_left_out(out: str) -> None:
    assert output_tail(out, "") == "AssertionError: 1"
    assert output_tail("> test\n> node test.js\n", "") == ""


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
