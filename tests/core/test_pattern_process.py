"""Searches in another process: the same matches as in this one, and an end when they take too long."""

import re
import sys

import pytest

from ralph.core import pattern_process
from ralph.core.alarms import set_alarm
from ralph.core.process import LineProgram

SLOW_PATTERN = r"(a+)+$"
SLOW_TEXT = "a" * 60 + "b"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"CUST-\d+", "CUST-12 and CUST-34"),
        (r"x*", "axxb"),
        (r"größe\s\w+", "die größe ähnelt\nder größe 9"),
        (r".", "\udc80 and \U0001f600"),
    ],
    ids=["several", "empty matches", "umlauts", "a lone surrogate"],
)
def test_matches_are_those_of_this_process(pattern: str, text: str) -> None:
    expected = [match.span() for match in re.finditer(pattern, text) if match[0]]
    assert pattern_process.find_spans(pattern, text, [(0, len(text))]) == expected


def test_only_the_parts_are_searched() -> None:
    assert pattern_process.find_spans("a", "aaaa", [(0, 1), (2, 3)]) == [(0, 1), (2, 3)]


def test_an_alarm_interrupts_a_search_and_the_next_one_works() -> None:
    def give_up() -> None:
        raise TimeoutError

    set_alarm(0.3, give_up)
    with pytest.raises(TimeoutError):
        pattern_process.find_spans(SLOW_PATTERN, SLOW_TEXT, [(0, len(SLOW_TEXT))])
    set_alarm(0, give_up)
    assert pattern_process.find_spans("a", "ba", [(0, 2)]) == [(1, 2)]


def test_a_program_that_ends_without_an_answer_is_an_error() -> None:
    program = LineProgram([sys.executable, "-I", "-S", "-c", "input()"])
    try:
        with pytest.raises(OSError, match="has ended"):
            program.ask(b"question")
    finally:
        program.end()
