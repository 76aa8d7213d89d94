"""How words are brought to one form: folding, stems, pieces, pairs, and the nearest known word."""

import string
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ralph.search import terms

LETTERS = st.text(string.ascii_lowercase, min_size=5, max_size=12)
MANY = st.lists(LETTERS, max_size=20).map(set)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Café ÉCOLE", "cafe ecole"),
        ("cafe\u0301", "cafe"),
        ("ＡＰＩ１", "api1"),
        ("인증", "인증"),
        (unicodedata.normalize("NFD", "인증 ガ"), "인증 ガ"),
        ("ガ", "ガ"),
        ("ﾃｽﾄ", "テスト"),
        ("STRASSE", "strasse"),
    ],
)
def test_case_accents_and_width_are_folded(text: str, folded: str) -> None:
    assert terms.fold(text) == folded


@given(st.text())
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    once = terms.fold(text)
    assume(once == once.lower())
    assert terms.fold(once) == once


@pytest.mark.parametrize(
    "forms",
    [
        ("fail", "fails", "failed", "failing"),
        ("test", "tests", "tested", "testing"),
        ("run", "runs", "running"),
        ("stop", "stops", "stopped", "stopping"),
        ("cache", "caches", "cached", "caching"),
        ("retry", "retries"),
        ("query", "queries"),
        ("policy", "policies"),
        ("class", "classes"),
        ("migrate", "migrated", "migration", "migrations", "migrating"),
        ("deploy", "deploys", "deployed", "deploying"),
        ("install", "installs", "installed", "installing"),
        ("process", "processes", "processing"),
        ("release", "releases", "released"),
    ],
)
def test_forms_of_a_word_share_one_stem(forms: tuple[str, ...]) -> None:
    assert len({terms.stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    "word",
    [
        "ci",
        "go",
        "ui",
        "css",
        "https",
        "is",
        "key",
        "api",
        "this",
        "red",
        "ring",
        "인증",
        "foo-bar",
        "x1s",
        "c++",
        "",
    ],
)
def test_short_and_foreign_words_keep_enough_of_themselves(word: str) -> None:
    assert len(terms.stem(word)) >= min(3, len(word))
    assert terms.stem(word) in word


@given(st.one_of(LETTERS, st.text()))
def test_a_stem_begins_its_word(word: str) -> None:
    stem = terms.stem(word)
    assert word.startswith(stem)
    assert bool(stem) == bool(word)


def test_query_words_are_distinct_and_without_their_edges() -> None:
    assert terms.query_words('  "Redis", (redis) timeout? 인증。 ') == ["redis", "timeout", "인증"]


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert terms.query_words("how do we deploy the API") == ["deploy", "api"]
    assert terms.query_words("to be or not to be") == ["to", "be", "or", "not"]
    assert terms.query_words(" .,;! ") == []


def test_compounds_have_pieces_and_plain_words_have_none() -> None:
    assert terms.parts("src/db/schema.ts") == ["src", "db", "schema", "ts"]
    assert terms.parts("snake_case-name") == ["snake", "case", "name"]
    assert terms.parts("a-b-a") == ["a", "b"]
    assert terms.parts("word") == []
    assert terms.parts("c++") == []


def test_pairs_come_from_korean_chinese_and_japanese_runs_only() -> None:
    assert terms.bigrams("인증토큰") == ["인증", "증토", "토큰"]
    assert terms.bigrams("数据ab库") == ["数据"]
    assert terms.bigrams("word") == []


def test_the_vocabulary_holds_words_and_pieces_of_compounds() -> None:
    known = terms.vocabulary(["uses src/schema.ts, always", "인증토큰 `parse_header`"])
    assert {"schema", "always", "인증토큰", "parse", "header"} <= known


# --- typos ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("authentcation", "authentication"),
        ("authenticcation", "authentication"),
        ("authenticatoin", "authentication"),
        ("buthentication", "authentication"),
        ("authenticatio", "authentication"),
        ("uathentication", "authentication"),
        ("same", "same"),
    ],
)
def test_one_letter_too_few_too_many_changed_or_swapped_is_one_typo(left: str, right: str) -> None:
    assert terms.one_typo(left, right)
    assert terms.one_typo(right, left)


@pytest.mark.parametrize(("left", "right"), [("redis", "radio"), ("cache", "caches!!"), ("abcd", "badc"), ("", "ab")])
def test_two_letters_are_not_one_typo(left: str, right: str) -> None:
    assert not terms.one_typo(left, right)
    assert not terms.one_typo(right, left)


@st.composite
def mistyped(draw: st.DrawFn) -> tuple[str, str]:
    """A word and the same word with one typo."""
    word = draw(LETTERS)
    at = draw(st.integers(0, len(word) - 2))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    edit = draw(st.sampled_from(["leave out", "add", "change", "swap"]))
    wrong = {
        "leave out": word[:at] + word[at + 1 :],
        "add": word[:at] + letter + word[at:],
        "change": word[:at] + letter + word[at + 1 :],
        "swap": word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    }
    return word, wrong[edit]


@given(mistyped(), MANY)
def test_the_word_that_was_meant_is_among_the_nearest(pair: tuple[str, str], others: set[str]) -> None:
    word, wrong = pair
    assert word in terms.nearest(wrong, others | {word})


@given(LETTERS, MANY)
def test_the_nearest_are_known_and_sorted_whatever_the_order(word: str, others: set[str]) -> None:
    near = terms.nearest(word, others)
    assert set(near) <= others
    assert list(near) == sorted(near)
    assert near == terms.nearest(word, sorted(others)) == terms.nearest(word, sorted(others, reverse=True))


def test_a_short_word_is_never_replaced() -> None:
    assert terms.nearest("go", {"gone", "goes"}) == ()


def test_a_longer_form_falls_back_to_the_longest_part_that_is_known() -> None:
    assert terms.nearest("authenticator", {"auth", "authentic", "other"}) == ("authentic",)
    assert terms.nearest("xylophone", {"auth", "authentic"}) == ()
