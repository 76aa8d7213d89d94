"""How words are brought to one form, and that a text holds exactly the terms that the index has of it.

The index side is the judge: whatever `index_terms` says of a text, `Text` must find in it without taking it all
apart, and nothing else. One exception is on purpose and has its own test.
"""

import re
import string
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.search import terms
from ralph.search.stem import stem

LETTERS = st.text(string.ascii_lowercase, min_size=5, max_size=12)
FRAGMENTS = st.sampled_from(
    ["a", "b", "s", "y", "key", "C++", "C#", "++", "#", "'", "’", "'s", "-", "_", ".", "/", "@", "\\", ":", " ",
     "parseHttp", "HTTPServer", "v2", "install", "un", "Y", "ies", "ability", "ing", "ay", "22", "数据", "库", "인증",
     "ﾃｽﾄ", "ガ", "・", "ー", "é", "e\u0301", "ß", "İ", "Σ", "ΑΣ", "ς", "конфиг", "½", "ﬁ", "²", "Ⅷ", "℀", "ŉ", "ǅ",
     "ไทย", "\u200d", "\x00", "\ud800"]
)  # fmt: skip
ANY = st.one_of(
    st.lists(FRAGMENTS, max_size=12).map("".join),
    st.text(max_size=40),
    messy("parseHttp", "snake_case", "src/db/schema.ts", "인증", "don't", "C++", "a:b", "user's", "re-install"),
)


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
        ("ΛΌΓΟΣ λόγος", "λογοσ λογοσ"),
    ],
)
def test_case_accents_and_width_are_folded(text: str, folded: str) -> None:
    assert terms.fold(text) == folded


@given(st.text())
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    once = terms.fold(text)
    assume(once == once.lower())
    assert terms.fold(once) == once


def test_no_letter_without_accents_has_another_length_in_lowercase() -> None:
    """A place in the lowercase text is the same place in the text itself."""
    every = [terms.unaccented(chr(code)) for code in range(sys.maxunicode + 1)]
    assert [text for text in every if len(text.lower()) != len(text)] == []


# --- words and their terms ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "forms",
    [
        ("fail", "fails", "failed", "failing", "Failed", "FAIL"),
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
        ("user", "user's", "User’s", "users"),
        ("dont", "don't", "don’t"),
    ],
)
def test_forms_of_a_word_share_one_term(forms: tuple[str, ...]) -> None:
    assert len({terms.word_terms(form) for form in forms}) == 1
    assert len(terms.word_terms(forms[0])) == 1


@pytest.mark.parametrize("word", ["ci", "go", "ui", "css", "https", "is", "api", "red", "ring", "인증", "1234"])
def test_short_and_foreign_words_keep_enough_of_themselves(word: str) -> None:
    (term,) = terms.word_terms(word)
    assert len(term) >= min(3, len(word))
    assert term in word


def test_query_words_are_distinct_and_without_their_edges() -> None:
    found = [word.text for word in terms.query_terms('  "Redis", (redis) timeout? 인증。 ')]
    assert found == ["Redis", "timeout", "인증"]


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert [word.text for word in terms.query_terms("how do we deploy the API")] == ["deploy", "API"]
    assert [word.text for word in terms.query_terms("to be or not to be")] == ["to", "be", "or", "not"]
    assert terms.query_terms(" .,;! ") == []


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("src/db/schema.ts", ["src", "db", "schema", "ts", "srcdbschemats"]),
        ("snake_case-name", ["snake", "case", "name", "snakecasename"]),
        ("a-b-a", ["a", "b", "aba"]),
        ("parseHttpHeader", ["parsehttphead", "pars", "http", "header"]),
        ("HTTPServer2Go", ["httpserver2go", "http", "server", "2", "go"]),
        ("user's-token", ["user", "token", "usertoken"]),
        ("c++", ["cplusplus"]),
        ("F#", ["fsharp"]),
        ("인증토큰", ["인증", "증토", "토큰"]),
        ("数据ab库", ["数据", "ab", "库"]),
        ("使用parseHttp部署", ["使用", "parsehttp", "pars", "http", "部署"]),
        ("word", ["word"]),
    ],
)
def test_an_identifier_counts_whole_and_in_parts_and_other_scripts_in_pairs(word: str, wanted: list[str]) -> None:
    assert list(terms.word_terms(word)) == wanted


def test_a_word_of_a_question_is_told_as_it_was_written() -> None:
    assert [word.text for word in terms.query_terms("Café für naïve")] == ["Café", "für", "naïve"]
    assert [word.text for word in terms.query_terms("使用Docker部署")] == ["使用", "Docker", "部署"]


def test_an_accent_written_as_a_character_of_its_own_is_part_of_its_word() -> None:
    one, two = "le résumé", unicodedata.normalize("NFD", "le résumé")
    assert one != two
    assert terms.index_terms(one) == terms.index_terms(two) == "le resum"
    assert [word.terms for word in terms.query_terms(two)] == [("le",), ("resum",)]
    assert terms.Text(two).holds("resum")


WORD = re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*")
HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\da-zA-Z_]+")


@given(ANY)
def test_words_are_found_without_regular_expressions_as_with_one(text: str) -> None:
    assert terms.words(text) == WORD.findall(text)
    for piece in re.findall(r"[^\W_]+", text):
        assert terms._humps(piece) == HUMPS.findall(piece)


def test_a_hook_needs_no_regular_expressions_for_a_question() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from ralph.search import terms;"
        "terms.query_terms('why does café parseHttp fail'); text = terms.Text('the parse-http in C++ and user\\'s');"
        "[text.holds(term) for term in ('parsehttp', 'cplusplus', 'none', 'user')];"
        "print([name for name in ('re', 'enum', 'functools', 'typing') if name in sys.modules])"
    )
    source = str(Path(terms.__file__).parents[2])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, source], capture_output=True, check=True)
    assert done.stdout.decode() == "[]\n"


# --- what a text holds -------------------------------------------------------------------------


@given(ANY)
@example("the key of 'redis'")
@example("e-mail to o'neill about ci/cd")
@example("foo.C++ and C#, not xC++")
@example("_keyY'y")
@example("ΑΣ-ΒΓΔΕ ΑΣ.Α")
@example("テスト's's\\²")
def test_a_text_holds_each_of_its_terms(text: str) -> None:
    held = terms.Text(text)
    assert [term for term in terms.index_terms(text).split() if not held.holds(term)] == []


@given(ANY, ANY)
def test_a_text_holds_no_term_that_the_index_has_not(text: str, other: str) -> None:
    own = set(terms.index_terms(text).split())
    near = [piece for term in own for piece in (term[1:], term[:-1], term[1:-1], term + "s")]
    joined = [one + two for one, two in pairwise(sorted(own)[:8])]
    held = terms.Text(text)
    for term in {*terms.index_terms(other).split(), *near, *joined} - own:
        pair = len(term) == 2 and all(map(terms.is_cjk, term))  # the only terms of these scripts but single characters
        if term.isalnum() and (pair or not terms.is_cjk(term)):
            assert not held.holds(term), term


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("uninstall the disconnected reformatter", "instal"),
        ("uninstall the disconnected reformatter", "connect"),
        ("uninstall the disconnected reformatter", "formatt"),
        ("in-staller", "instal"),
        ("un-install", "uninst"),
        ("written in C#", "c"),
        ("the abc++ tool", "cplusplus"),
        ("parse http", "parsehttp"),
        ("key", "ke"),
    ],
)
def test_the_inside_of_a_word_is_not_that_word(text: str, term: str) -> None:
    assert not terms.Text(text).holds(term)


def test_a_single_character_is_held_wherever_it_stands_though_the_index_has_pairs() -> None:
    assert terms.index_terms("死锁问题").split() == ["死锁", "锁问", "问题"]
    assert terms.Text("死锁问题").holds("锁")
    assert not terms.Text("死锁问题").holds("死问")


def test_a_word_is_found_behind_any_number_of_similar_ones() -> None:
    text = terms.Text("category " * 500 + "cat, " + "locate scatter " * 500)
    assert text.holds("cat")
    assert not text.holds("cate")


@given(st.one_of(LETTERS, st.from_regex(r"[a-z]{1,8}(y|ies|ing|ed|s|ation|ability|ly|ness|ate|ize)", fullmatch=True)))
def test_a_stem_begins_its_word_but_for_its_last_letter(word: str) -> None:
    """What `Text` rests on: it looks for words by how their terms begin."""
    assert any(word.startswith(start) for start in terms._starts(stem(word)))


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
