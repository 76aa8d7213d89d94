"""The nearest indexed terms: prefixes, typos, parts; in any script, and never for ever."""

import sqlite3
import string
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.model.record import MemoryKind, Record
from ralph.search import fuzzy, terms
from ralph.store.index import in_memory
from ralph.store.sources import Contents, Placed

LETTERS = st.text(string.ascii_lowercase, min_size=5, max_size=12)
MANY = st.lists(LETTERS, max_size=20).map(lambda words: sorted(set(words)))
TEXT = "authentication migrations конфигурация kubernetes deployment recalculation data database 死锁问题 出现"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    placed = Placed(Record("mem-1", MemoryKind.FIX, TEXT), 1)
    with closing(in_memory([Contents((placed,))], terms.index_terms)) as found:
        yield found


def nearest(connection: sqlite3.Connection, word: str) -> set[str]:
    return set(fuzzy.nearest(connection, terms.query_terms(word)[0]))


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("auth", "authent"),
        ("authentcation", "authent"),
        ("kubernets", "kubernet"),
        ("kuberentes", "kubernet"),
        ("ubernetes", "kubernet"),
        ("calcul", "recalcul"),
        ("конфигурацыя", "конфигурация"),
        ("конфиг", "конфигурация"),
        ("mydatabase", "databas"),
    ],
)
def test_a_beginning_a_typo_or_a_part_leads_to_the_term(connection: sqlite3.Connection, word: str, wanted: str) -> None:
    assert wanted in nearest(connection, word)


@pytest.mark.parametrize("word", ["zz", "qwertz", "xylophone", "x" * 4000, "0123456789abcdef" * 8, "问死"])
def test_what_is_near_to_nothing_has_no_nearest_terms(connection: sqlite3.Connection, word: str) -> None:
    assert nearest(connection, word) == set()


def test_longer_words_that_begin_with_a_term(connection: sqlite3.Connection) -> None:
    assert fuzzy.beginning_with(connection, "data") == {"databas": 1}
    assert fuzzy.beginning_with(connection, "da") == {}


def test_a_character_is_found_inside_of_pairs(connection: sqlite3.Connection) -> None:
    assert fuzzy.around(connection, "锁") == {"死锁": 1, "锁问": 1}


def test_in_a_large_index_the_inside_of_terms_is_left_alone(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzy, "_SMALL", 0)
    assert nearest(connection, "calcul") == set()
    assert nearest(connection, "authentcation") == {"authent"}
    assert fuzzy.around(connection, "锁") == {"锁问": 1}


@st.composite
def mistyped(draw: st.DrawFn) -> tuple[str, str]:
    """A term and the same term with one typo behind its first two letters."""
    word = draw(LETTERS)
    at = draw(st.integers(2, len(word) - 2))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    edit = draw(st.sampled_from(["leave out", "add", "change", "swap"]))
    wrong = {
        "leave out": word[:at] + word[at + 1 :],
        "add": word[:at] + letter + word[at:],
        "change": word[:at] + letter + word[at + 1 :],
        "swap": word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    }
    return word, wrong[edit]


def near_among(known: list[str], term: str) -> dict[str, int]:
    """The nearest terms for one that occurs nowhere; the others are indexed as they are, without stems."""
    placed = Placed(Record("mem-1", MemoryKind.FIX, " ".join(known)), 1)
    with closing(in_memory([Contents((placed,))], lambda text: text)) as connection:
        return fuzzy.nearest(connection, terms.Word(term, (term,)))


@given(mistyped(), MANY)
@settings(max_examples=50)
def test_the_word_that_was_meant_is_among_the_nearest(pair: tuple[str, str], others: list[str]) -> None:
    word, wrong = pair
    rest = [other for other in others if not other.startswith(wrong)]  # those are nearer: what was typed begins them
    assert word in near_among([*rest, word], wrong)


@given(LETTERS, MANY)
@settings(max_examples=50)
def test_the_nearest_are_known_few_and_the_same_whatever_the_order(word: str, others: list[str]) -> None:
    near = near_among(others, word)
    assert set(near) <= set(others)
    assert len(near) <= 8
    assert near == near_among(others[::-1], word)


def test_a_short_word_is_never_replaced() -> None:
    assert near_among(["gone", "goes"], "go") == {}


def test_a_longer_form_falls_back_to_the_longest_part_that_is_known() -> None:
    assert near_among(["auth", "authentic", "other"], "authenticator") == {"authentic": 1}
    assert near_among(["auth", "authentic"], "xylophone") == {}
