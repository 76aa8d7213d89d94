"""The tokeniser of index and query: both agree, every text is safe, and identifiers, CJK and accents are found.

Properties run over an index in memory, so that SQLite itself is the judge of what is safe and what is found.
"""

import string
from contextlib import closing
from datetime import date

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.model.query import Query
from ralph.model.record import MemoryKind, Record
from ralph.search import engine, terms
from ralph.store.index import in_memory
from ralph.store.rows import safe
from ralph.store.sources import Contents, Placed

TODAY = date(2025, 6, 1)
ANY = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(categories=("Cs", "Lo", "Mn", "Mc", "Nd", "No", "Nl", "Lm", "So")), max_size=20),
    messy("parseHttp", "snake_case", "src/db/schema.ts", "인증", "don't", "C++", "a:b", '"', "NEAR(", " "),
)


def found(texts: list[str], query: str) -> list[str]:
    """The texts that a query finds among these."""
    placed = tuple(
        Placed(Record(f"mem-{number}", MemoryKind.FIX, text), number) for number, text in enumerate(texts, 1)
    )
    with closing(in_memory([Contents(placed)], terms.index_terms)) as connection:
        return [hit.record.text for hit in engine.search(connection, Query(query, limit=None), today=TODAY).hits]


OTHERS = ["nothing of that kind", "다른 것", "alpha beta gamma", "x"]


@given(ANY, ANY)
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


@given(ANY.filter(lambda text: terms.query_terms(text) != []), st.data())
@example("ſpecial ςigma µ-law K", None)
@settings(deadline=None)
def test_every_word_of_a_text_finds_that_text(text: str, data: st.DataObject | None) -> None:
    words = [word for word in text.split() if terms.query_terms(word)]
    for word in words if data is None else [data.draw(st.sampled_from(words))]:
        assert safe(text) in found([text, *OTHERS], word)


@given(ANY)
def test_terms_are_what_sqlite_sees(text: str) -> None:
    """Separated by spaces and nothing else: SQLite must not split or fold a term once more."""
    held = terms.index_terms(text).split(" ") if terms.index_terms(text) else []
    placed = Placed(Record("x", MemoryKind.FIX, text), 1)
    with closing(in_memory([Contents((placed,))], terms.index_terms)) as connection:
        seen = {row[0] for row in connection.execute("SELECT term FROM search_terms")}
    assert seen == set(held)


@given(ANY)
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
    assert [word.text for word in terms.query_terms("how do we deploy the thing")] == ["deploy", "thing"]
    assert [word.text for word in terms.query_terms("to be or not to be")] == ["to", "be", "or", "not"]
    assert found(["to be or not to be", *OTHERS], "not to be")[:1] == ["to be or not to be"]


def test_pairs_of_characters_and_single_ones_when_alone() -> None:
    assert terms.index_terms("数据库 是 인증").split() == ["数据", "据库", "是", "인증"]


def test_words_stand_as_they_were_written() -> None:
    assert terms.words("See src/db/schema.ts, don't (C++)!") == ["See", "src/db/schema.ts", "don't", "C++"]
