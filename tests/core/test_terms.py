"""Search terms: both sides agree, every text is safe, and stems are those of SQLite's own stemmer."""

import itertools
import re
import sqlite3
import string
import subprocess
import sys
import tracemalloc
import unicodedata
from contextlib import closing
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.laws import messy
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.record import MemoryKind, Query, Record
from ralph.core.terms import stem
from ralph.search import engine
from ralph.storage.index_update import in_memory
from ralph.storage.record_rows import storable_text
from ralph.storage.source_contents import Contents, PlacedRecord

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
    messy(
        "parseHttp",
        "snake_case",
        "src/db/schema.ts",
        "인증",
        "don't",
        "C++",
        "a:b",
        "user's",
        "re-install",
    ),
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


@pytest.mark.parametrize(
    "word", ["ci", "go", "ui", "css", "https", "is", "api", "red", "ring", "인증", "1234"]
)
def test_short_and_foreign_words_keep_enough_of_themselves(word: str) -> None:
    (term,) = terms.word_terms(word)
    assert len(term) >= min(3, len(word))
    assert term in word


def test_query_words_are_distinct_and_without_their_edges() -> None:
    found = [word.text for word in terms.query_terms('  "Redis", (redis) timeout? 인증。 ')]
    assert found == ["Redis", "timeout", "인증"]


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert [word.text for word in terms.query_terms("how do we deploy the API")] == [
        "deploy",
        "API",
    ]
    assert [word.text for word in terms.query_terms("to be or not to be")] == [
        "to",
        "be",
        "or",
        "not",
    ]
    assert terms.query_terms(" .,;! ") == []


def test_the_letters_of_an_error_code_are_not_looked_for_alone() -> None:
    assert [word.terms for word in terms.query_terms("TS2304 utf8")] == [
        ("ts2304", "2304"),
        ("utf8", "utf", "8"),
    ]


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
def test_an_identifier_counts_whole_and_in_parts_and_other_scripts_in_pairs(
    word: str, wanted: list[str]
) -> None:
    assert list(terms.word_terms(word)) == wanted


def test_a_word_of_a_question_is_told_as_it_was_written() -> None:
    assert [word.text for word in terms.query_terms("Café für naïve")] == ["Café", "für", "naïve"]
    assert [word.text for word in terms.query_terms("使用Docker部署")] == ["使用", "Docker", "部署"]


def test_an_accent_written_as_a_character_of_its_own_is_part_of_its_word() -> None:
    one, two = "le résumé", unicodedata.normalize("NFD", "le résumé")
    assert one != two
    assert terms.index_terms(one) == terms.index_terms(two) == "le resum"
    assert [word.terms for word in terms.query_terms(two)] == [("le",), ("resum",)]
    assert terms.TermMatcher(two).contains("resum")


WORD = re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*")


@given(ANY)
def test_possessive_quantifiers_split_words_as_greedy_ones_do(text: str) -> None:
    assert terms.split_words(text) == WORD.findall(text)


def test_a_hook_loads_nothing_heavy_for_a_question() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from ralph.core import terms;"
        "terms.query_terms('why does café parseHttp fail');"
        "text = terms.TermMatcher('the parse-http in C++ and user\\'s');"
        "[text.contains(term) for term in ('parsehttp', 'cplusplus', 'none', 'user')];"
        "print([name for name in ('typing', 'dataclasses', 'pathlib', 'contextlib') if name in sys.modules])"
    )
    source = str(Path(terms.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, source], capture_output=True, check=True
    )
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
    held = terms.TermMatcher(text)
    assert [term for term in terms.index_terms(text).split() if not held.contains(term)] == []


@given(ANY, ANY)
def test_a_text_holds_no_term_that_the_index_has_not(text: str, other: str) -> None:
    own = set(terms.index_terms(text).split())
    near = [piece for term in own for piece in (term[1:], term[:-1], term[1:-1], term + "s")]
    joined = [one + two for one, two in pairwise(sorted(own)[:8])]
    held = terms.TermMatcher(text)
    for term in {*terms.index_terms(other).split(), *near, *joined} - own:
        pair = len(term) == 2 and all(
            map(terms.is_cjk, term)
        )  # the only terms of these scripts but single characters
        if term.isalnum() and (pair or not terms.is_cjk(term)):
            assert not held.contains(term), term


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
    assert not terms.TermMatcher(text).contains(term)


def test_a_single_character_is_held_wherever_it_stands_though_the_index_has_pairs() -> None:
    assert terms.index_terms("死锁问题").split() == ["死锁", "锁问", "问题"]
    assert terms.TermMatcher("死锁问题").contains("锁")
    assert not terms.TermMatcher("死锁问题").contains("死问")


def test_a_word_is_found_behind_any_number_of_similar_ones() -> None:
    text = terms.TermMatcher("category " * 500 + "cat, " + "locate scatter " * 500)
    assert text.contains("cat")
    assert not text.contains("cate")


@given(
    st.one_of(
        LETTERS,
        st.from_regex(r"[a-z]{1,8}(y|ies|ing|ed|s|ation|ability|ly|ness|ate|ize)", fullmatch=True),
    )
)
def test_a_stem_begins_its_word_but_for_its_last_letter(word: str) -> None:
    """What `TermMatcher` rests on: it looks for words by how their terms begin."""
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


@pytest.mark.parametrize(
    ("left", "right"), [("redis", "radio"), ("cache", "caches!!"), ("abcd", "badc"), ("", "ab")]
)
def test_two_letters_are_not_one_typo(left: str, right: str) -> None:
    assert not terms.one_typo(left, right)
    assert not terms.one_typo(right, left)


ROOTS = [
    "a",
    "ab",
    "act",
    "adopt",
    "ag",
    "agre",
    "authentic",
    "b",
    "be",
    "bl",
    "bow",
    "by",
    "cache",
    "call",
    "caress",
    "cat",
    "class",
    "col",
    "compile",
    "condition",
    "connect",
    "cr",
    "cri",
    "d",
    "depend",
    "digit",
    "drive",
    "effect",
    "electr",
    "f",
    "fail",
    "fall",
    "feed",
    "fil",
    "fizz",
    "flu",
    "form",
    "general",
    "geolog",
    "good",
    "gyroscop",
    "happ",
    "hiss",
    "hop",
    "hope",
    "hopp",
    "i",
    "ir",
    "is",
    "iz",
    "l",
    "log",
    "m",
    "mo",
    "migr",
    "motor",
    "not",
    "oper",
    "p",
    "plaster",
    "pon",
    "possib",
    "predict",
    "prob",
    "r",
    "radic",
    "rat",
    "rate",
    "rational",
    "re",
    "relat",
    "repl",
    "retr",
    "revive",
    "s",
    "schedul",
    "sensib",
    "siz",
    "sky",
    "ss",
    "t",
    "tan",
    "ti",
    "tokenis",
    "triplic",
    "tr",
    "troubl",
    "u",
    "us",
    "vietnam",
    "vile",
    "w",
    "x",
    "y",
    "yy",
    "z",
    "ly",
    "sy",
]
ENDINGS = [
    "",
    "s",
    "es",
    "ies",
    "ss",
    "sses",
    "ed",
    "eed",
    "ing",
    "ational",
    "tional",
    "enci",
    "anci",
    "izer",
    "bli",
    "abli",
    "alli",
    "entli",
    "eli",
    "ousli",
    "ization",
    "ation",
    "ator",
    "alism",
    "iveness",
    "fulness",
    "ousness",
    "aliti",
    "iviti",
    "biliti",
    "logi",
    "icate",
    "ative",
    "alize",
    "iciti",
    "ical",
    "ful",
    "ness",
    "al",
    "ance",
    "ence",
    "er",
    "ic",
    "able",
    "ible",
    "ant",
    "ement",
    "ment",
    "ent",
    "ion",
    "tion",
    "sion",
    "ou",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "e",
    "l",
    "ll",
    "y",
    "ying",
    "yed",
    "ied",
    "ies",
    "at",
    "ate",
    "bl",
    "ble",
    "iz",
    "ize",
]


def porter(words: list[str]) -> dict[str, str]:
    """What SQLite's own `porter` makes of words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter ascii')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
        connection.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", enumerate(words))
        return {words[doc]: term for term, doc in connection.execute("SELECT term, doc FROM v")}


def test_every_word_of_a_long_list_has_the_stem_that_sqlite_gives_it() -> None:
    words = sorted(
        {
            root + one + two
            for root in ROOTS
            for one in ENDINGS
            for two in ("", "s", "ed", "ing", "ly", "ness")
        }
    )
    assert len(words) > 20_000
    wanted = porter(words)
    assert {word: stem(word) for word in words if stem(word) != wanted[word]} == {}


def test_every_word_of_up_to_three_letters_has_it_too() -> None:
    words = [
        "".join(letters)
        for size in (1, 2, 3)
        for letters in itertools.product("abeiosydglzw", repeat=size)
    ]
    wanted = porter(words)
    assert {word: stem(word) for word in words if stem(word) != wanted[word]} == {}


@given(
    st.lists(
        st.text(string.ascii_lowercase, min_size=1, max_size=20),
        min_size=1,
        max_size=50,
        unique=True,
    )
)
@settings(max_examples=examples(200, 10), deadline=None)
def test_any_letters_have_the_stem_that_sqlite_gives_them(words: list[str]) -> None:
    wanted = porter(words)
    assert {word: stem(word) for word in words} == wanted


def test_the_stems_of_very_long_words_are_not_kept() -> None:
    text_size = 50_000
    tracemalloc.start()
    try:
        for number in range(100):
            terms.index_terms(chr(ord("a") + number % 26) * (text_size + number))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10 * text_size


def test_what_is_no_english_word_is_left_alone() -> None:
    assert [stem(word) for word in ("2024s", "größen", "数据库", "x" * 65 + "ing", "")] == [
        "2024s", "größen", "数据库", "x" * 65 + "ing", "",
    ]  # fmt: skip


TODAY = date(2025, 6, 1)
ANY_TEXT = st.one_of(
    st.text(max_size=60),
    st.text(
        st.characters(categories=("Cs", "Lo", "Mn", "Mc", "Nd", "No", "Nl", "Lm", "So")),
        max_size=20,
    ),
    messy(
        "parseHttp",
        "snake_case",
        "src/db/schema.ts",
        "인증",
        "don't",
        "C++",
        "a:b",
        '"',
        "NEAR(",
        " ",
    ),
)


def found(texts: list[str], query: str) -> list[str]:
    """The texts that a query finds among these."""
    placed = tuple(
        PlacedRecord(Record(f"mem-{number}", MemoryKind.FIX, text), number)
        for number, text in enumerate(texts, 1)
    )
    with closing(in_memory([Contents(placed)], terms.index_terms)) as connection:
        return [
            hit.record.text
            for hit in engine.search(connection, Query(query, limit=None), today=TODAY).hits
        ]


OTHERS = ["nothing of that kind", "다른 것", "alpha beta gamma", "x"]


@given(ANY_TEXT, ANY_TEXT)
@example("\x00", "\x00")
@example("\ud800 \udfff", "\udfff")
@example("ſ ς µ K ŉ ß ﬁ İ", "ſ")
@settings(deadline=None)
def test_no_text_and_no_query_is_ever_an_error(text: str, query: str) -> None:
    found([text, *OTHERS], query)


@pytest.mark.parametrize(
    "query",
    [*string.punctuation, *(f"alpha{mark}beta" for mark in string.punctuation), string.punctuation, "AND OR NOT NEAR",
     "NEAR(alpha beta, 3)", 'alpha "beta', "((", "alpha*", "{alpha}: beta", "text:alpha", "-alpha", "^alpha",
     "alpha + beta", "C++", "foo-bar", "a:b", "don't", "🔥🎉", "x" * 10_000, "alpha " * 2000,
     " ".join(f"w{n}" for n in range(2000)), "", " \t\n", "the of and", "\x00", "\ud800", "' OR 1=1 --", "인" * 5000],
    ids=lambda query: repr(query[:16]),
)  # fmt: skip
def test_no_question_is_a_syntax_error(query: str) -> None:
    found(["alpha beta", *OTHERS], query)


@given(ANY_TEXT.filter(lambda text: terms.query_terms(text) != []), st.data())
@example("ſpecial ςigma µ-law K", None)
@settings(deadline=None)
def test_every_word_of_a_text_finds_that_text(text: str, data: st.DataObject | None) -> None:
    words = [word for word in text.split() if terms.query_terms(word)]
    for word in words if data is None else [data.draw(st.sampled_from(words))]:
        assert storable_text(text) in found([text, *OTHERS], word)


@given(ANY_TEXT)
def test_terms_are_what_sqlite_sees(text: str) -> None:
    """Separated by spaces and nothing else: SQLite must not split or fold a term once more."""
    held = terms.index_terms(text).split(" ") if terms.index_terms(text) else []
    placed = PlacedRecord(Record("x", MemoryKind.FIX, text), 1)
    with closing(in_memory([Contents((placed,))], terms.index_terms)) as connection:
        seen = {row[0] for row in connection.execute("SELECT term FROM search_terms")}
    assert seen == set(held)


@given(ANY_TEXT)
def test_a_query_has_no_term_that_the_text_itself_has_not(text: str) -> None:
    indexed = set(terms.index_terms(text).split())
    assert {term for word in terms.query_terms(text) for term in word.terms} <= indexed


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("parseHttpHeader splits at a colon", "http header"),
        ("parseHttpHeader", "parse_http_header"),
        ("HTTPServer2Go", "server"),
        ("the snake_case_name of it", "case"),
        ("kebab-case-name", "kebab case"),
        ("see src/db/schema.ts:42", "schema"),
        ("see src/db/schema.ts", "schema.ts"),
        ("os.path.join is used", "path join"),
        ("since v1.22.3-rc1", "1.22.3"),
        ("since v1.22.3-rc1", "v1.22.3"),
        ("C:\\Users\\me\\file.txt", "users file"),
        ("user@example.com wrote", "example.com"),
        ("Chrome uses C++ and C#", "C++"),
        ("Chrome uses C++ and C#", "c#"),
        ("don't do that", "don't"),
        ("don’t do that", "don't"),
        ("the user's token", "user"),
        ("naïve café", "naive cafe"),
        ("naive cafe", "naïve CAFÉ"),
        ("Straße und Größe", "grosse strasse größe"),
        ("ＦＵＬＬ ｗｉｄｔｈ", "full width"),
        ("конфигурация сервера", "КОНФИГУРАЦИЯ"),
        ("Ελληνικός λόγος", "ΛΟΓΟΣ"),
        ("CI is slow", "ci"),
        ("Go and UI", "go"),
        ("Go and UI", "UI"),
        ("an e-mail arrives", "email"),
        ("the ci/cd pipeline", "cicd"),
        ("Mrs O'Reilly wrote it", "oreilly"),
        ("a 'quoted' word", "quoted"),
        ("the key of it", "key"),
        ("le re\u0301sume\u0301", "résumé"),
        ("le résumé", "re\u0301sume\u0301"),
        ("使用parseHttpHeader解析", "http header"),
        ("конфиг-файл сервера", "конфигфайл"),
        ("인증 토큰은 만료된다", "토큰"),
        ("数据库连接池的大小", "连接池"),
        ("数据库连接池的大小", "数据库连接"),
        ("死锁问题", "锁"),
        ("出现死锁", "锁"),
        ("テストは毎晩実行される", "テスト"),
        ("ﾃｽﾄ", "テスト"),
        ("使用Docker部署", "docker"),
        ("使用Docker部署", "部署"),
        ("the fix was running migrations", "fixes run migration"),
        ("authentication", "authentcation"),
        ("authentication", "authenticate"),
    ],
)
def test_what_was_written_is_found_however_it_is_asked_for(text: str, query: str) -> None:
    assert found([*OTHERS, text], query)[:1] == [text]


def test_stop_words_go_from_queries_unless_nothing_else_is_left_and_stay_in_the_index() -> None:
    assert [word.text for word in terms.query_terms("how do we deploy the thing")] == [
        "deploy",
        "thing",
    ]
    assert [word.text for word in terms.query_terms("to be or not to be")] == [
        "to",
        "be",
        "or",
        "not",
    ]
    assert found(["to be or not to be", *OTHERS], "not to be")[:1] == ["to be or not to be"]


def test_pairs_of_characters_and_single_ones_when_alone() -> None:
    assert terms.index_terms("数据库 是 인증").split() == ["数据", "据库", "是", "인증"]


def test_words_stand_as_they_were_written() -> None:
    assert terms.split_words("See src/db/schema.ts, don't (C++)!") == [
        "See",
        "src/db/schema.ts",
        "don't",
        "C++",
    ]
