"""Our stemmer against the one inside SQLite: the same stem for every word of a long list."""

import itertools
import sqlite3
import string
from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.search.stem import stem

ROOTS = (
    "a ab act adopt ag agre authentic b be bl bow by cache call caress cat class col compile condition connect"
    " cr cri d depend digit drive effect electr f fail fall feed fil fizz flu form general geolog good "
    "gyroscop happ hiss hop hope hopp i ir is iz l log m mo migr motor not oper p plaster pon possib predict "
    "prob r radic rat rate rational re relat repl retr revive s schedul sensib siz sky ss t tan ti tokenis "
    "triplic tr troubl u us vietnam vile w x y yy z ly sy"
).split()
ENDINGS = (
    " s es ies ss sses ed eed ing ational tional enci anci izer bli abli alli entli eli ousli ization ation "
    "ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance "
    "ence er ic able ible ant ement ment ent ion tion sion ou ism ate iti ous ive ize e l ll y ying yed ied "
    "ies at ate bl ble iz ize"
).split(" ")


def porter(words: list[str]) -> dict[str, str]:
    """What SQLite's own `porter` makes of words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter ascii')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
        connection.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", enumerate(words))
        return {words[doc]: term for term, doc in connection.execute("SELECT term, doc FROM v")}


def test_every_word_of_a_long_list_has_the_stem_that_sqlite_gives_it() -> None:
    words = sorted(
        {root + one + two for root in ROOTS for one in ENDINGS for two in ("", "s", "ed", "ing", "ly", "ness")}
    )
    assert len(words) > 20_000
    wanted = porter(words)
    assert {word: stem(word) for word in words if stem(word) != wanted[word]} == {}


def test_every_word_of_up_to_three_letters_has_it_too() -> None:
    words = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("abeiosydglzw", repeat=size)]
    wanted = porter(words)
    assert {word: stem(word) for word in words if stem(word) != wanted[word]} == {}


@given(st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=20), min_size=1, max_size=50, unique=True))
@settings(max_examples=200, deadline=None)
def test_any_letters_have_the_stem_that_sqlite_gives_them(words: list[str]) -> None:
    wanted = porter(words)
    assert {word: stem(word) for word in words} == wanted


def test_what_is_no_english_word_is_left_alone() -> None:
    assert [stem(word) for word in ("2024s", "größen", "数据库", "x" * 65 + "ing", "")] == [
        "2024s", "größen", "数据库", "x" * 65 + "ing", "",
    ]  # fmt: skip
