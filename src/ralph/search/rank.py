"""Rank the records of an index by how well they answer a query.

A ranking has four stages, each in its own module:

1. `question.weigh_words` finds the indexed terms for each word of the query and weighs the word.
2. `candidates.select_candidates` selects the records that match best, by words and by meaning.
3. `scoring.score_candidates` reads the best candidates and scores them by their content. The score
   is a weighted sum of normalised features, never of ranks.
4. This module adjusts the order, decides whether there is an answer at all, and follows the links
   of the best answers.

An *answer* covers enough of the query, while a *weak* hit is only similar to it. If none of the
best records is an answer, the whole ranking is weak, and a hook stays silent. A record found by its
meaning alone is never an answer: it is kept only if it stands out, and after every answer.
`select_injectable` is stricter still: it returns what may be injected without being asked for.

`engine.search` ranks for a `Query` and returns hits. `explanations.explain` gives the reasons.
Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING, record
from ralph.search import candidates, question
from ralph.search.scoring import SCORE_DIGITS, SEARCH, RankedRow, Search, score_candidates
from ralph.storage import lookup, record_filters
from ralph.storage.index_schema import is_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from sqlite3 import Connection

    from ralph.search.candidates import Meaning
    from ralph.search.question import WeightedWord
    from ralph.search.scoring import Recipe
    from ralph.storage.lookup import RankingStore, RecordRow
    from ralph.storage.record_filters import Filter

_DECISION_KIND = "decision"
_SCORE_STEP = 1e-6  # the smallest difference that puts one record before another
_MAX_LINKING = 3  # best records whose links are followed


class Ranking:
    """The best rows, the total number of matches, and the weighted words of the query.

    `weak` is set if none of the first rows answers the query.
    """

    __slots__ = ("best", "total", "weak", "words")

    def __init__(
        self,
        best: Sequence[RankedRow],
        total: int,
        words: Sequence[WeightedWord],
        *,
        weak: bool = False,
    ) -> None:
        self.best = best
        self.total = total
        self.words = words
        self.weak = weak


@record
class Repeated:
    """The keys of earlier records that only repeat a query, and of those that have no answer."""

    keys: Collection[int] = ()
    without_answer: Collection[int] = ()


NOT_REPEATED = Repeated()


def rank(
    connection: Connection | None,
    text: str,
    *,
    today: str,
    record_filter: Filter = record_filters.EVERYTHING,
    limit: int | None = 10,
    recipe: Recipe = SEARCH,
    meaning: Meaning | None = None,
    filter_late: bool = False,
    crowded_recipe: Recipe | None = None,
    words: Sequence[WeightedWord] | None = None,
    store: RankingStore = lookup,
    repeated: Repeated = NOT_REPEATED,
) -> Ranking:
    """Return the rows that answer a query, best first.

    Pass `words` if the query's words have already been weighed. If `filter_late` is set, the filter
    is applied only to the best candidates and the total is not counted. This suits a filter that
    most records pass. `repeated` is about earlier records that only repeat the query. If the filter
    leaves too few candidates, the ranking is repeated with
    `crowded_recipe`, if given.
    """
    if words is None:
        words = question.weigh_words(
            connection,
            text,
            everyday_factor=recipe.weights.everyday_word_factor,
            min_name_weight=recipe.weights.min_name_weight,
            thorough=recipe.thorough,
            store=store,
            repetitions=len(repeated.keys),
        )
    if not words:
        return Ranking((), 0, ())
    search = Search(connection, store, words, record_filter, recipe, repeated.without_answer)
    pool = candidates.select_candidates(
        search, text, limit=limit, meaning=meaning, filter_late=filter_late
    )
    if crowded_recipe is not None and candidates.is_crowded_out(search, pool, limit):
        search = Search(
            connection, store, words, record_filter, crowded_recipe, repeated.without_answer
        )
        pool = candidates.select_candidates(
            search, text, limit=limit, meaning=meaning, filter_late=filter_late
        )
    keys = pool.best + candidates.missing_memories(search, pool)
    ranked = score_candidates(search, keys, pool, today=today)
    _prefer_newer_decisions(ranked, search.recipe)
    _prefer_memories(ranked)
    related = [row for row in ranked if row.outstanding or not row.meaning_alone]
    _put_answers_before_meaning(related, search.recipe)
    if pool.similarities:
        _keep_answer_in_front(related, search.recipe)
    return _conclude(search, related, max(pool.total, len(related)), limit)


# --- what is an answer, and what may be injected ------------------------------------------------


def is_answer(ranked: RankedRow, recipe: Recipe = SEARCH) -> bool:
    """Return whether a record answers the query, rather than being just similar to it.

    An answer covers enough of the query, has enough evidence, or is the subject of the query.
    """
    return (
        ranked.coverage >= recipe.min_coverage
        or ranked.evidence >= recipe.min_evidence
        or ranked.subject
    )


def select_injectable(best: Sequence[RankedRow], recipe: Recipe = SEARCH) -> list[RankedRow]:
    """Return the few rows that may be injected without being asked for.

    Such a row scores nearly as high as the best one, or is the subject of the query. In addition,
    it must match more than everyday words, or be linked.
    """
    first_rows = best[: recipe.max_injected]
    if not first_rows:
        return []
    min_score = recipe.injection_min_ratio * first_rows[0].score
    injectable = []
    for ranked in first_rows:
        matches_rare_word = ranked.matched.keys() - terms.EVERYDAY_WORDS
        is_related = matches_rare_word or ranked.linked_from
        if is_related and (ranked.score >= min_score or ranked.subject):
            injectable.append(ranked)
    return injectable


def _conclude(
    search: Search, ranked: Sequence[RankedRow], match_count: int, limit: int | None
) -> Ranking:
    """Return the answers and what they link to or, without an answer, the nearest records."""
    matching = [row for row in ranked if row.matched or row.outstanding]
    if not any(is_answer(row, search.recipe) for row in matching[: candidates.ANSWERS_WITHIN]):
        for row in matching:
            row.weak = True
        return Ranking(matching[:limit], len(matching), search.words, weak=True)
    best = _follow_links(search, ranked)
    for row in best:
        row.weak = not is_answer(row, search.recipe) and not row.linked_from
    return Ranking(best[:limit], max(match_count, len(best)), search.words)


# --- adjusting the order ------------------------------------------------------------------------


def _prefer_newer_decisions(ranked: Sequence[RankedRow], recipe: Recipe) -> None:
    """Raise the score of a newer decision above an older one that matches the same words.

    The newer one must score nearly as high (`Weights.newer_decision_min_ratio`).
    """
    decisions = []
    for row in ranked:
        if row.row.kind == _DECISION_KIND and len(row.matched) > 1:
            decisions.append(row)
    for newer in decisions:
        for older in decisions:
            if not _amends(newer, older, recipe):
                continue
            if not newer.amends:
                newer.amends = older.row.id
            if newer.score <= older.score:
                newer.score = older.score + _SCORE_STEP


def _amends(newer: RankedRow, older: RankedRow, recipe: Recipe) -> bool:
    return (
        _decision_time(newer.row) > _decision_time(older.row)
        and newer.matched.keys() >= older.matched.keys()
        and newer.score >= recipe.weights.newer_decision_min_ratio * older.score
    )


def _decision_time(row: RecordRow) -> tuple[str, str]:
    """Return the date of a decision, and the part of its id that orders memories within a day.

    A memory has only a date, but its id contains the seconds, as in `mem-1700000000-1a2b`.
    """
    id_with_time = "mem-"
    if row.id.startswith("mem-"):
        id_with_time = row.id.rpartition("-")[0]
    return row.created_at[:10], id_with_time


def _prefer_memories(ranked: Sequence[RankedRow]) -> None:
    """Raise the score of a memory above that of log lines that match exactly the same words."""
    for memory in ranked:
        if not is_memory(memory.row.key) or not memory.matched:
            continue
        best_log_score = 0.0
        for other in ranked:
            if not is_memory(other.row.key) and other.matched == memory.matched:
                best_log_score = max(best_log_score, other.score)
        memory.score = max(memory.score, best_log_score + _SCORE_STEP)


def _put_answers_before_meaning(ranked: list[RankedRow], recipe: Recipe) -> None:
    """Lower the score of records found by meaning alone below that of every answer, and sort."""
    answer_scores = [row.score for row in ranked if is_answer(row, recipe)]
    if answer_scores:
        highest_score = min(answer_scores) - _SCORE_STEP
        for row in ranked:
            if row.meaning_alone:
                row.score = min(row.score, highest_score)
    _sort_by_score(ranked)


def _keep_answer_in_front(ranked: list[RankedRow], recipe: Recipe) -> None:
    """Raise the best answer into the first rows, if meaning has moved all answers further down."""
    answers = [row for row in ranked if is_answer(row, recipe)]
    first_rows = ranked[: candidates.ANSWERS_WITHIN]
    if answers and answers[0] not in first_rows:
        answers[0].score = first_rows[-1].score + _SCORE_STEP
        _sort_by_score(ranked)


def _follow_links(search: Search, ranked: Sequence[RankedRow]) -> list[RankedRow]:
    """Return the ranked rows and the memories that the best answers link to, best first."""
    answers = {}
    for row in ranked[:_MAX_LINKING]:
        if is_answer(row, search.recipe):
            answers[row.row.key] = row
    links = list(search.store.linked_keys(search.connection, list(answers)))
    position = {key: number for number, key in enumerate(answers)}
    links.sort(key=lambda link: position[link[0]])  # keys may change in a rebuild
    by_key = {row.row.key: row for row in ranked}
    unranked = [target for _, target in links if target not in by_key]
    visible = search.store.filter_keys(search.connection, unranked, search.record_filter)
    rows = search.store.fetch_rows(search.connection, list(visible))
    for source, target in links:
        if target in rows and target not in by_key:
            by_key[target] = RankedRow(rows[target])
        score = search.recipe.weights.link * answers[source].score
        if target in by_key and by_key[target].score < score:
            by_key[target].score = score
            by_key[target].linked_from = answers[source].row.id
    with_links = list(by_key.values())
    _sort_by_score(with_links)
    return with_links


def _sort_by_score(ranked: list[RankedRow]) -> None:
    """Sort in place, best first. Ties keep their order."""
    ranked.sort(key=lambda row: -round(row.score, SCORE_DIGITS))
