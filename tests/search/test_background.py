"""How ordinary a word is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.search import background

LIST = Path(background.__file__).with_name("frequent_words.txt")


def test_every_listed_term_is_found_with_its_frequency() -> None:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    wrong = [
        line
        for line in lines
        if background.frequency(line[:-1]) != 4 + (ord(line[-1]) - ord("A")) / 4
    ]
    assert wrong == []


def test_the_list_is_small() -> None:
    assert LIST.stat().st_size <= 100_000


@pytest.mark.parametrize("term", ["nordlys", "frobnic", "", "zzzz", "\ud800", "aaaaa"])
def test_a_name_is_not_listed_and_says_everything(term: str) -> None:
    assert (background.frequency(term), background.information(term)) == (0.0, 1.0)


def test_a_more_frequent_word_says_less() -> None:
    values = [background.information(term) for term in ("kernel", "write", "want", "the")]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert values[-1] == pytest.approx(0.2)


@pytest.mark.parametrize(("number", "says"), [("14", 0.2), ("5432", 1.0)])
def test_a_small_number_is_a_quantity_and_a_long_one_a_name(number: str, says: float) -> None:
    assert background.information(number) == pytest.approx(says)
