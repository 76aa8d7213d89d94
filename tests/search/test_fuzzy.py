"""The nearest indexed terms: prefixes, typos, parts; in any script, and never for ever."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from ralph.model.kinds import MemoryKind
from ralph.model.record import Record
from ralph.search import fuzzy, terms
from ralph.store.index import in_memory
from ralph.store.sources import Contents, Placed

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
