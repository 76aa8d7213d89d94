"""Explain a ranking to people: the reasons for a hit, and the words that replaced unknown ones.

A reason is a short string such as `tag: security`, `link: mem-1700000000-1a2b` or `meaning: 0.62`.
A replacement is an unknown query word with the indexed words that were searched for instead, for
example `("postgress", ("postgres",))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core import terms
from ralph.search.scoring import SEARCH, age
from ralph.storage import lookup, record_filters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from sqlite3 import Connection

    from ralph.search.question import WeightedWord
    from ralph.search.scoring import RankedRow, Recipe
    from ralph.storage.lookup import RankingStore
    from ralph.storage.record_filters import Filter

WEAK = "No exact match. Closest:"
"""Heading for hits that are all weak."""
LESS_CERTAIN = "weaker matches:"
"""Heading for weak hits that follow certain ones."""

_MIN_RECENT_AGE = 0.5  # value of the feature `age` above which a record is recent
_MAX_SPELLING_RECORDS = 5  # records searched for the written form of a term
_MAX_SPELLING_CHARACTERS = 20_000  # of a text, searched for the written form of a term
_MAX_LISTED_REPLACEMENTS = 5  # words listed in a note about a replacement


# --- reasons ------------------------------------------------------------------------------------


def explain(
    ranked: RankedRow, words: Sequence[WeightedWord], today: str, recipe: Recipe = SEARCH
) -> list[str]:
    """Return the reasons for a record's rank.

    They state where each word was found, which record it amends or is linked from, how similar it
    is in meaning, and whether it is recent.
    """
    row = ranked.row
    matchers = {
        "tag": terms.TermMatcher(row.tags),
        "title": terms.TermMatcher(row.title),
        "path": terms.TermMatcher(f"{row.files} {row.id}"),
    }
    reasons = []
    for word in words:
        if word.word in ranked.matched:
            reasons.append(f"{_field_containing(word, matchers)}: {word.word}")
    if ranked.amends:
        reasons.append(f"amends: {ranked.amends}")
    if ranked.linked_from:
        reasons.append(f"link: {ranked.linked_from}")
    found_by_meaning = ranked.similarity > 0 and not ranked.matched and not ranked.linked_from
    if ranked.outstanding or found_by_meaning:
        reasons.append(f"meaning: {ranked.similarity:.2f}")
    if age(row.created_at, today, recipe.weights) > _MIN_RECENT_AGE:
        reasons.append(f"recent: {row.created_at[:10]}")
    return reasons


def _field_containing(word: WeightedWord, matchers: Mapping[str, terms.TermMatcher]) -> str:
    for name, matcher in matchers.items():
        if word.match(matcher):
            return name
    return "text"


# --- replaced words -----------------------------------------------------------------------------


def replacements(
    connection: Connection | None,
    words: Sequence[WeightedWord],
    record_filter: Filter = record_filters.EVERYTHING,
    store: RankingStore = lookup,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the replaced words of a query, each with the words searched for instead.

    A term is a stem, not a word. It is shown as the shortest word with this stem in a matching
    record, spelled as within a sentence.
    """
    replaced: dict[str, dict[str, str]] = {}
    for word in words:
        if not word.replaced:
            continue
        spellings = replaced.setdefault(word.word, {})
        for term in word.counts:
            texts = _texts_matching(connection, term, record_filter, store)
            spelling = _shortest_spelling(term, texts, spellings.get(term))
            if spelling is not None:
                spellings[term] = spelling
    pairs = []
    for word_text, spellings in replaced.items():
        if spellings:
            pairs.append((word_text, tuple(dict.fromkeys(spellings.values()))))
    return tuple(pairs)


def _texts_matching(
    connection: Connection | None, term: str, record_filter: Filter, store: RankingStore
) -> list[str]:
    matches = store.best_matches(
        connection, f'"{term}"', SEARCH.weights.fields, _MAX_SPELLING_RECORDS, record_filter
    )
    rows = store.fetch_rows(connection, [key for key, _ in matches])
    texts = []
    for row in rows.values():
        fields = (row.title, row.tags, row.text[:_MAX_SPELLING_CHARACTERS], row.files)
        texts.append(" ".join(fields))
    return texts


def _shortest_spelling(term: str, texts: Sequence[str], spelling: str | None) -> str | None:
    """Return the shortest word for a term in texts, or `spelling` if none is shorter."""
    for text in texts:
        for word in terms.split_words(text):
            is_shorter = spelling is None or len(word) < len(spelling)
            if is_shorter and term in terms.word_terms(word):
                spelling = word.lower() if word.istitle() else word
    return spelling


def describe_replacements(replaced: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Describe replacements for the user, with one note per set of replacing words."""
    words_by_replacement: dict[str, list[str]] = {}
    for word, others in replaced:
        listed = ", ".join(others[:_MAX_LISTED_REPLACEMENTS])
        words_by_replacement.setdefault(listed, []).append(repr(word))
    return [
        f"nothing has {' or '.join(words)}; looked for {listed} instead"
        for listed, words in words_by_replacement.items()
    ]
