"""The words of a query: their terms, their weights, and the nearest terms of an unknown word."""

import sqlite3
import string
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.indexed_records import indexed, memory
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.record import MemoryKind, Record
from ralph.core.terms import EVERYDAY_WORDS
from ralph.search import question
from ralph.search.question import HALF, WeightedWord
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents, PlacedRecord

TEXTS = (
    "parseHttpHeader splits at a colon",
    "the http header of a reply",
    "the parse of a config",
    "authentication with tokens",
    "kubernetes rollout and data migrations",
    "数据库连接池 出现死锁",
    "the common word",
    "the common place",
    "the common use of it",
    "Redis caches sessions",
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with indexed(*(memory(text, number) for number, text in enumerate(TEXTS, 1))) as found:
        yield found


def ask(
    connection: sqlite3.Connection, text: str, *, everyday: float = 0.5, named: float = 0.5
) -> list[WeightedWord]:
    return question.weigh_words(connection, text, everyday_factor=everyday, min_name_weight=named)


def only(connection: sqlite3.Connection, text: str) -> WeightedWord:
    (found,) = ask(connection, text)
    return found


# --- how telling a word is ---------------------------------------------------------------------


def test_a_rare_word_tells_more_than_a_common_one_and_none_more_than_all(
    connection: sqlite3.Connection,
) -> None:
    rare, common = ask(connection, "kubernetes common")
    assert 0 < common.weight < rare.weight <= 1


def test_an_everyday_word_tells_less_however_rare_it_is(connection: sqlite3.Connection) -> None:
    use, place, sessions = ask(connection, "use place sessions")
    assert use.counts == {"us": 1}
    assert use.weight == place.weight == pytest.approx(0.5 * sessions.weight)
    (full, *_) = ask(connection, "use place sessions", everyday=1.0)
    assert full.weight == pytest.approx(sessions.weight)


def test_a_word_that_merely_shares_its_stem_with_an_everyday_word_is_none(
    connection: sqlite3.Connection,
) -> None:
    everyday, other = ask(connection, "use place usage")[0], ask(connection, "usage")[0]
    assert everyday.counts.keys() == {"us"} != other.counts.keys()
    assert "uses" not in EVERYDAY_WORDS
    assert only(connection, "uses").weight == pytest.approx(2 * everyday.weight)


@pytest.mark.parametrize(
    ("word", "text", "named"),
    [
        ("Redis", "why does Redis lose keys", True),
        ("Redis", "Redis loses keys", False),
        ("Redis", "It fails. Redis is down", False),
        ("Redis", "what now? Redis", False),
        ("Redis", "Note: Redis is down", False),
        ("Redis", "first line\nRedis is down", False),
        ("Redis", "to do:\n- Redis is down\n", False),
        ("Redis", "> Redis is down", False),
        ("Redis", '"Redis" is down', False),
        ("Redis", 'we use "Redis" here', True),
        ("JWT", "JWT expires", True),
        ("camelCase", "camelCase is used", True),
        ("JWT", "WHY DOES THE JWT EXPIRE", False),
        ("redis", "why does redis lose keys", False),
        ("인증", "왜 인증 이", False),
        ("Redis", "not there at all", False),
    ],
)
def test_a_capital_letter_that_no_beginning_explains_makes_a_name(
    word: str, text: str, named: bool
) -> None:
    assert question.is_name(word, text) is named


def test_a_name_never_tells_nothing(connection: sqlite3.Connection) -> None:
    (plain,) = ask(connection, "common")
    _, named = ask(connection, "kubernetes Common", named=0.9)
    assert plain.weight < 0.9 == named.weight


# --- identifiers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("parseHttpHeader it is", 1.0),
        ("parse_http_header it is", 1.0),
        ("parse the http header", 1.0),
        ("the http header", 2 / 3),
        ("only http", 1 / 3),
        ("nothing of it", 0.0),
    ],
)
def test_an_identifier_of_which_only_a_part_is_held_counts_in_part(
    connection: sqlite3.Connection, text: str, held: float
) -> None:
    found = only(connection, "parseHttpHeader")
    assert (found.parts, found.replaced, found.certain) == (3, False, True)
    assert found.match(terms.TermMatcher(text)) == pytest.approx(held)


def test_an_identifier_that_nobody_wrote_is_asked_for_by_its_parts(
    connection: sqlite3.Connection,
) -> None:
    found = only(connection, "http_config")
    assert found.counts == {"http": 2, "config": 1}
    assert found.match(terms.TermMatcher("http and config")) == 1.0
    assert found.match(terms.TermMatcher("http alone")) == 0.5


def test_only_an_identifier_that_few_have_says_what_is_meant(
    connection: sqlite3.Connection,
) -> None:
    assert only(connection, "parseHttpHeader").distinctive
    assert not only(connection, "http_config").distinctive
    assert not only(connection, "kubernetes").distinctive


# --- words that occur nowhere ------------------------------------------------------------------


def test_a_slip_in_a_long_word_is_nearly_that_word(connection: sqlite3.Connection) -> None:
    found = only(connection, "kuberentes")
    assert (found.replaced, list(found.counts)) == (True, ["kubernet"])
    assert HALF < found.share < 1
    assert found.certain
    assert found.match(terms.TermMatcher("kubernetes")) == found.share


def test_a_slip_in_a_short_word_or_a_mere_beginning_is_half_a_word(
    connection: sqlite3.Connection,
) -> None:
    for word, term in (("dato", "data"), ("auth", "authent")):
        found = only(connection, word)
        assert (found.replaced, found.share, found.certain) == (True, HALF, False)
        assert term in found.counts


def test_a_word_that_is_near_to_nothing_counts_as_missing(connection: sqlite3.Connection) -> None:
    known, unknown = ask(connection, "kubernetes xylophone")
    assert (unknown.counts, unknown.weight) == ({}, 1.0)
    assert question.coverage([known, unknown], {"kubernetes": 1.0})[0] == pytest.approx(
        known.weight / (known.weight + 1.0)
    )


def test_of_many_unknown_words_only_the_first_are_replaced(connection: sqlite3.Connection) -> None:
    slips = [f"kub{letter}rnetes" for letter in "abcdfghijk"]
    found = ask(connection, " ".join(slips))
    assert [bool(each.counts) for each in found] == [True] * 8 + [False] * 2


def test_in_a_long_text_an_unknown_word_is_no_part_of_another(
    connection: sqlite3.Connection,
) -> None:
    long = "rollout of bernet\n\n" + "at nothing.known.here (line)\n" * 20
    assert [word.counts.keys() for word in ask(connection, "rollout bernet") if word.replaced] == [
        {"kubernet"}
    ]
    assert [[*word.counts] for word in ask(connection, long) if word.word == "bernet"] == [[]]


def test_a_question_of_few_words_also_finds_longer_words(connection: sqlite3.Connection) -> None:
    few = only(connection, "data")
    assert few.longer == {}
    with indexed(memory("data", 1), memory("databases", 2)) as other:
        found = only(other, "data")
        assert found.longer == {"databas": 1}
        assert found.match(terms.TermMatcher("databases")) == HALF
        assert all(not each.longer for each in ask(other, "data of some kind wanted today"))


# --- Chinese, Japanese, Korean -----------------------------------------------------------------


def test_pairs_of_characters_are_half_a_word_each(connection: sqlite3.Connection) -> None:
    found = ask(connection, "连接池")
    assert [(each.word, dict(each.counts)) for each in found] == [
        ("连接", {"连接": 1}),
        ("接池", {"接池": 1}),
    ]
    assert all(each.weight <= 0.5 for each in found)


def test_a_single_character_is_looked_for_inside_of_pairs(connection: sqlite3.Connection) -> None:
    found = only(connection, "锁")
    assert (found.counts, found.longer) == ({}, {"死锁": 1})
    assert found.match(terms.TermMatcher("出现死锁")) == HALF


def test_a_word_between_other_scripts_is_a_word_like_any(connection: sqlite3.Connection) -> None:
    found = ask(connection, "用kuberentes部署")
    assert [each.word for each in found] == ["用", "kuberentes", "部署"]
    assert list(found[1].counts) == ["kubernet"]
    assert found[1].weight > 0.5


# --- which terms choose ------------------------------------------------------------------------


def words_with(*counts: dict[str, int]) -> Sequence[WeightedWord]:
    return [WeightedWord(str(number), each, 1.0) for number, each in enumerate(counts)]


def test_the_rarest_terms_choose_as_long_as_they_hold_few_enough_records() -> None:
    words = words_with({"rare": 3, "often": 900}, {"seldom": 40}, {"common": 100_000})
    assert question.rarest_terms(words, 1000) == ["rare", "seldom", "often"]
    assert question.rarest_terms(words, 50) == ["rare", "seldom"]
    assert question.rarest_terms(words, 1) == ["rare"]


def test_an_identifier_with_one_very_common_part_does_not_pull_that_part_in() -> None:
    words = words_with({"get": 100_000, "frobnic": 2, "getfrobnic": 1})
    assert question.rarest_terms(words, 40_000) == ["getfrobnic", "frobnic"]


def test_a_term_that_is_the_only_one_chooses_however_common_it_is() -> None:
    assert question.rarest_terms(words_with({"common": 100_000}), 40_000) == ["common"]
    assert question.rarest_terms(words_with({}), 40_000) == []


def test_longer_forms_choose_only_for_a_word_that_is_not_indexed() -> None:
    indexed, unknown = words_with({"data": 5}, {})
    indexed.longer = {"databas": 2}
    unknown.longer = {"getter": 3}
    assert question.rarest_terms([indexed, unknown], 100) == ["getter", "data"]
    assert question.rarest_longer_terms([indexed, unknown], 100) == ["databas"]


@given(
    st.lists(
        st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 500), max_size=4)
    )
)
def test_what_chooses_is_rarer_than_what_does_not(counts: list[dict[str, int]]) -> None:
    known = {term: count for each in counts for term, count in each.items()}
    chosen = question.rarest_terms(words_with(*counts), 700)
    assert bool(chosen) == bool(known)
    assert sum(known[term] for term in chosen) <= 700
    assert all(known[one] <= known[other] for one in chosen for other in known.keys() - set(chosen))


# --- how much is held --------------------------------------------------------------------------


def test_one_word_alone_or_a_mere_beginning_is_no_evidence() -> None:
    words = words_with({"one": 1}, {"two": 1}, {"half": 1})
    words[2].share = HALF
    assert question.coverage(words, {"0": 1.0}) == pytest.approx((1 / 3, 0.0))
    assert question.coverage(words, {"0": 1.0, "2": 0.5}) == pytest.approx((0.5, 0.0))
    assert question.coverage(words, {"0": 1.0, "1": 0.5}) == pytest.approx((0.5, 0.0))
    assert question.coverage(words, {"0": 1.0, "1": 0.9}) == pytest.approx((1.9 / 3, 1.9))
    assert question.coverage([], {}) == (0.0, 0.0)


def test_a_small_part_of_a_query_is_no_evidence() -> None:
    words = words_with(*({f"word{number}": 1} for number in range(8)))
    assert question.coverage(words, {"0": 1.0, "1": 1.0})[1] == 0
    assert question.coverage(words, {"0": 1.0, "1": 1.0, "2": 1.0})[1] == 3


def test_of_a_long_text_a_paragraph_counts_and_one_word_of_it_is_nothing() -> None:
    words = words_with({"one": 1}, {"two": 1}, {"three": 1}, {"four": 1})
    for word in words[2:]:
        word.paragraph = 1
    assert question.coverage(words, {"0": 1.0, "2": 1.0}) == (0.0, 0.0)
    assert question.coverage(words, {"2": 1.0, "3": 1.0}) == (1.0, 2.0)


LETTERS = st.text(string.ascii_lowercase, min_size=5, max_size=12)
MANY = st.lists(LETTERS, max_size=20).map(lambda words: sorted(set(words)))
TEXT = "authentication migrations конфигурация kubernetes deployment recalculation data database 死锁问题 出现"


WORDS_WITH_ENDINGS = ("validation", "pagination", "deployment", "serialization")


@pytest.fixture
def vocabulary() -> Iterator[sqlite3.Connection]:
    placed = PlacedRecord(Record("mem-1", MemoryKind.FIX, TEXT), 1)
    with closing(in_memory([Contents((placed,))], terms.index_terms)) as found:
        yield found


def nearest(vocabulary: sqlite3.Connection, word: str) -> set[str]:
    return set(question.nearest_terms(vocabulary, terms.query_terms(word)[0]))


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
def test_a_beginning_a_typo_or_a_part_leads_to_the_term(
    vocabulary: sqlite3.Connection, word: str, wanted: str
) -> None:
    assert wanted in nearest(vocabulary, word)


@pytest.mark.parametrize(
    "wrong",
    [
        "valdation", "validtion", "validatino", "valiidation", "pagnation", "pgaination",
        "deploment", "deplyoment", "serializaton", "srialization",
    ],
)  # fmt: skip
def test_a_typo_is_forgiven_where_it_changes_the_stem(wrong: str) -> None:
    [meant] = [word for word in WORDS_WITH_ENDINGS if terms.one_typo(word, wrong)]
    with indexed(
        *(memory(word, number) for number, word in enumerate(WORDS_WITH_ENDINGS))
    ) as found:
        [weighted] = ask(found, wrong)
    assert set(weighted.counts) == {terms.stem(meant)}
    assert weighted.certain


def test_only_a_word_that_is_not_indexed_is_corrected_and_only_once(
    connection: sqlite3.Connection,
) -> None:
    terms.corrected_stems.cache_clear()
    ask(connection, "authentication with tokens, kubernetes migrations")
    assert terms.corrected_stems.cache_info().misses == 0
    ask(connection, "authenticaton tokens")
    assert terms.corrected_stems.cache_info().misses == 1


@pytest.mark.parametrize(
    "word", ["zz", "qwertz", "xylophone", "x" * 4000, "0123456789abcdef" * 8, "问死"]
)
def test_what_is_near_to_nothing_has_no_nearest_terms(
    vocabulary: sqlite3.Connection, word: str
) -> None:
    assert nearest(vocabulary, word) == set()


def test_longer_words_that_begin_with_a_term(vocabulary: sqlite3.Connection) -> None:
    assert question.longer_terms(vocabulary, "data") == {"databas": 1}
    assert question.longer_terms(vocabulary, "da") == {}


def test_a_character_is_found_inside_of_pairs(vocabulary: sqlite3.Connection) -> None:
    assert question.pairs_with(vocabulary, "锁") == {"死锁": 1, "锁问": 1}


def test_in_a_large_index_the_inside_of_terms_is_left_alone(
    vocabulary: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "_MAX_SCANNED_RECORDS", 0)
    assert nearest(vocabulary, "calcul") == set()
    assert nearest(vocabulary, "authentcation") == {"authent"}
    assert question.pairs_with(vocabulary, "锁") == {"锁问": 1}


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
    placed = PlacedRecord(Record("mem-1", MemoryKind.FIX, " ".join(known)), 1)
    with closing(in_memory([Contents((placed,))], lambda text: text)) as vocabulary:
        return question.nearest_terms(vocabulary, terms.QueryWord(term, (term,)))


@given(mistyped(), MANY)
@settings(max_examples=examples(50, 10))
def test_the_word_that_was_meant_is_among_the_nearest(
    pair: tuple[str, str], others: list[str]
) -> None:
    word, wrong = pair
    rest = [
        other for other in others if not other.startswith(wrong)
    ]  # those are nearer: what was typed begins them
    assert word in near_among([*rest, word], wrong)


@given(LETTERS, MANY)
@settings(max_examples=examples(50, 10))
def test_the_nearest_are_known_few_and_the_same_whatever_the_order(
    word: str, others: list[str]
) -> None:
    near = near_among(others, word)
    assert set(near) <= set(others)
    assert len(near) <= 8
    assert near == near_among(others[::-1], word)


def test_a_short_word_is_never_replaced() -> None:
    assert near_among(["gone", "goes"], "go") == {}


def test_a_longer_form_falls_back_to_the_longest_part_that_is_known() -> None:
    assert near_among(["auth", "authentic", "other"], "authenticator") == {"authentic": 1}
    assert near_among(["auth", "authentic"], "xylophone") == {}
