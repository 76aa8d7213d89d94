"""Rank the records of an index by how well they answer a query, and say why.

BM25 over title, tags, text and file paths selects the candidates, using the rarest terms of the
query. An observation also receives part of its neighbours' scores in the same session. The best
candidates are then *judged*: they are read, and scored by how much of the query they cover, their
tags, their age and their similarity in meaning. The score is a weighted sum of normalised features,
never of ranks. A *weak* hit is only similar to the query, while an *answer* covers enough of it.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

from itertools import pairwise

from ralph.core import terms
from ralph.lean import TYPE_CHECKING, record
from ralph.search import question
from ralph.storage import lookup, record_filters
from ralph.storage.index_schema import is_memory, is_observation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date
    from sqlite3 import Connection

    from ralph.core.record import Hit, Query, Record, SearchResult
    from ralph.search.question import WeightedWord
    from ralph.storage.lookup import RankingStore, RecordRow
    from ralph.storage.record_filters import Filter

    Meaning = Callable[[str, Sequence[int]], Mapping[int, float]]
    """Returns the cosine similarity of records to a text, by key.

    The result covers the given keys and the records nearest to the text in the whole index.
    """


# --- the numbers --------------------------------------------------------------------------------


@record
class Recipe:
    """The parameters of the ranking, which are the same for all queries and kinds of records.

    They were set by measurement with `bench/retrieval.py` (ADR 0009) and are not user settings.
    A *share* and a *factor* lie between 0 and 1. A *weight* is relative to the text score, whose
    best value is 1. The *coverage* of a query by a record is the share of the query's word weights
    that the record contains. The *evidence* is the sum of the weights of the words that it
    certainly contains, without everyday words (see `question.coverage`).
    """

    # --- the text score ---

    # BM25 weights of title, tags, text and file paths, in this order. Above 0; 1 is neutral.
    fields: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)

    # Share of the BM25 score of adjacent query words ("connection pool" as a phrase) that is added
    # to a record's score. From 0; 0 ignores word order.
    phrase_weight: float = 0.5

    # Share of an observation's score that its neighbours in the session receive, at a distance of
    # one and of two. Each from 0 to 1; the number of values is the reach.
    neighbour_weights: tuple[float, ...] = (0.45, 0.25)

    # Share of an answer's score that the memories it links to receive. From 0 to 1.
    link_factor: float = 0.7

    # --- what a record contains: age, tags, family and coverage ---

    # Part of the text score that a record loses with age. From 0 to 1; 0 ignores age.
    recency_weight: float = 0.08

    # Age in days at which a record has lost half of `recency_weight`. Above 0.
    recency_half_life_days: float = 30.0

    # Weight of query words among a record's tags; two tags earn all of it. From 0.
    tag_weight: float = 0.15

    # Factor for a record that matches a single word, and only in a tag. From 0 to 1; 1 is neutral.
    tag_only_factor: float = 0.6

    # A newer decision that matches the same words ranks before an older one if its score is at
    # least this share of the older one's. From 0 (always) to 1 (only if it scores as well).
    newer_decision_min_ratio: float = 0.8

    # Relative bonus for memories over log lines that match as well. From 0; 0.2 is 20 percent.
    memory_bonus: float = 0.2

    # Weight of the coverage of a short query by a memory or a journal entry. From 0.
    coverage_weight: float = 0.3

    # Weight of the coverage by an observation, which is one turn of a session, and of the coverage
    # of a query with several paragraphs. In both cases, what is said together matters most.
    # From 0.
    turn_coverage_weight: float = 1.0

    # How much a query word in a neighbour counts for the coverage, compared with the same word in
    # the observation itself. From 0 to 1.
    neighbour_coverage_factor: float = 0.8

    # --- the weights of query words ---

    # Factor for the weight of everyday English words. From 0 to 1; 1 is neutral.
    everyday_word_factor: float = 0.5

    # Minimum weight of a word that is written as a name, however common it is. From 0 to 1.
    min_name_weight: float = 0.5

    # --- meaning: the share of the cosine similarity in the score; the rest is the text ---

    # Share if a record covers the whole query. From 0 to below 1. A half is the largest share that
    # costs the changelog set nothing (ADR 0009).
    min_meaning_share: float = 0.5

    # Share as the best coverage approaches 0. From `min_meaning_share` to 1.
    max_meaning_share: float = 0.7

    # Share if no record covers enough of the query to be an answer. From 0 to 1.
    meaning_only_share: float = 0.9

    # --- what counts as an answer, and what may be injected ---

    # Coverage from which a record is an answer. From 0 (always) to 1.
    floor: float = 0.45

    # Evidence from which a record is an answer. From 0 (always); one unique word weighs 1.
    min_evidence: float = 0.7

    # Share of the best score from which a record may be injected. From 0 to 1.
    gate: float = 0.6

    # Maximum number of records that may be injected.
    injected: int = 5

    # --- effort: larger values find a little more and take longer ---

    # Maximum number of full-text matches that are scored.
    candidates: int = 300

    # Maximum number of matches that pass part of their score to their neighbours.
    spreading: int = 150

    # Number of best candidates that are read and scored by their content.
    judged: int = 20

    # Maximum number of records, summed over terms, that contain the terms selecting candidates.
    common: int = 40_000

    # Whether unknown words are compared with many terms, and frequencies are counted exactly up to
    # a higher limit.
    thorough: bool = True


STANDARD = Recipe()
QUICK = Recipe(candidates=60, spreading=30, judged=10, common=800, thorough=False)
"""For hooks: fewer candidates, selected by rarer words, and little effort on unknown words."""

WEAK = "No exact match. Closest:"
"""Heading for hits that are all weak."""
LESS_CERTAIN = "less certain:"
"""Heading for weak hits that follow certain ones."""

_MAX_PHRASES = 12  # adjacent word pairs that are searched for as phrases
_MAX_PHRASE_WORD_RATIO = 10  # a word of a phrase may occur in this many times `Recipe.common` rows
_DECISION_KIND = "decision"
_SCORE_STEP = 1e-6  # the smallest difference that puts one record before another
_SCORE_DIGITS = 9  # decimals compared, so that summation order cannot decide the ranking
_HIT_SCORE_DIGITS = 4  # decimals of a score shown to users
_MIN_JUDGED_MEMORIES = 5  # memories always judged, however many log lines match
_MAX_PRINTED_CANDIDATES = 3  # candidates found by what a tool printed, besides what was written
_MAX_LINKING = 3  # best records whose links are followed
_MAX_TAGS_COUNTED = 2  # matching tags that increase the score
_ANSWERS_WITHIN = 5  # one of this many best records must be an answer, or there is none
_MAX_SPELLING_RECORDS = 5  # records searched for the written form of a term
_MAX_SPELLING_CHARACTERS = 20_000  # of a text, searched for the written form of a term
_MAX_NAMED_REPLACEMENTS = 5  # words named in a note about a replacement

# Lead over the runner-up, in cosine similarity, from which the best record stands out. No question
# of the own-dev set without an answer reaches the first one. The second one holds below
# `_CROWD_SIZE`: the best of a few unrelated texts is often 0.08 ahead.
_MIN_LEAD = 0.08
_MIN_LEAD_OF_FEW = 0.2
_CROWD_SIZE = 30  # number of cosines from which their distribution is meaningful
_OUTSTANDING_DEVIATIONS = 5  # standard deviations above the median at which a cosine stands out
_ABOVE_ANY_COSINE = 2.0


# --- the results --------------------------------------------------------------------------------


class RankedRow:
    """A row with its score, and what it has in common with the query.

    `matched` maps the query words that the row contains to how much of each it contains. `cover` is
    their share of the query by weight, and `evidence` the sum of the weights it certainly contains.
    `subject` says that the query names the record by its title, by a tag, or by a distinctive
    identifier in it. `close` is the similarity in meaning, and `outstanding` says that it is far
    above that of other records. `link` is the id of the record that links to this one, and `amends`
    is the id of an older decision that matches the same words. `weak` says that the record is only
    similar to the query and not an answer.
    """

    __slots__ = (
        "amends",
        "close",
        "cover",
        "evidence",
        "link",
        "matched",
        "outstanding",
        "row",
        "score",
        "subject",
        "weak",
    )

    def __init__(self, row: RecordRow, score: float = 0.0) -> None:
        self.row = row
        self.score = score
        self.matched: Mapping[str, float] = {}
        self.cover = 0.0
        self.evidence = 0.0
        self.close = 0.0
        self.link = ""
        self.amends = ""
        self.outstanding = False
        self.subject = False
        self.weak = False


class Ranking:
    """The best rows, the total number of matches, and the weighted words of the query.

    `weak` says that none of the first rows answers the query.
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


# --- meaning ------------------------------------------------------------------------------------


class Nearness(dict[int, float]):
    """Cosine similarities by key. From `level` on, a record stands out from all others."""

    level = _ABOVE_ANY_COSINE


class SlowMeaning:
    """A Meaning whose model is not loaded yet.

    It is used only if words find no answer, because loading the model takes longer than a search.
    """

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning

    def __call__(self, text: str, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the similarity of records to a text, by key."""
        return self._meaning(text, keys)


def outstanding_level(cosines: Sequence[float]) -> float:
    """Return the similarity from which a record stands out from the others.

    It must be far ahead of the runner-up, or far above the crowd.
    """
    descending = sorted(cosines, reverse=True)
    best = descending[0] if descending else 0.0
    runner_up = descending[1] if len(descending) > 1 else 0.0
    is_crowd = len(cosines) >= _CROWD_SIZE
    level = _ABOVE_ANY_COSINE
    required_lead = _MIN_LEAD if is_crowd else _MIN_LEAD_OF_FEW
    if best - max(runner_up, 0.0) >= required_lead:
        level = best
    if is_crowd:
        level = min(level, _crowd_level(cosines))
    return level


def _crowd_level(cosines: Sequence[float]) -> float:
    """Return the similarity that lies several standard deviations above the median."""
    mean = sum(cosines) / len(cosines)
    variance = sum((cosine - mean) ** 2 for cosine in cosines) / len(cosines)
    deviation: float = variance**0.5
    median = sorted(cosines)[len(cosines) // 2]
    return median + _OUTSTANDING_DEVIATIONS * deviation


# --- searching with a Query ---------------------------------------------------------------------


def search(
    connection: Connection,
    query: Query,
    *,
    today: date,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
) -> SearchResult:
    """Return the records that answer a query, best first.

    If the query is an id, the records with that id are returned. If it has no text, the newest
    records that pass the filters are returned. If no word matches, the records that contain the
    text literally are returned, newest first.
    """
    from ralph.core import ids
    from ralph.core.record import SearchResult
    from ralph.storage import queries, query_filters

    text = query.text.strip()
    if not text:
        return _newest(connection, query)
    if queries.key_of(connection, text) is not None or ids.date_of(text):
        return _with_id(connection, query, text)
    day = today.isoformat()
    keep = query_filters.filter_of(query)
    ranked = rank(
        connection,
        query.text,
        today=day,
        keep=keep,
        limit=query.limit,
        recipe=recipe,
        meaning=meaning,
    )
    if not ranked.best:
        literal = _containing_literally(connection, query, text, keep)
        if literal is not None:
            return literal
    keys = [ranked_row.row.key for ranked_row in ranked.best]
    hits = make_hits(ranked, queries.records(connection, keys), query, day, recipe)
    instead = replacements(connection, ranked.words, keep)
    return SearchResult(hits, ranked.total, instead, matched_terms(ranked.words))


def _newest(connection: Connection, query: Query) -> SearchResult:
    """Return the newest records that pass the filters, for a query without text."""
    from ralph.core.record import Hit, SearchResult
    from ralph.storage import queries

    keys = queries.newest_keys(connection, query, query.limit)
    found = queries.records(connection, keys)
    if query.limit is None:
        total = len(keys)
    else:
        total = queries.count(connection, query)
    return SearchResult(tuple(Hit(each, 0.0) for each in found.values()), total)


def _with_id(connection: Connection, query: Query, text: str) -> SearchResult:
    """Return the records whose id is `text`."""
    from ralph.core.record import Hit, SearchResult
    from ralph.storage import queries

    keys = queries.keys_of(connection, text, query)
    found = queries.records(connection, keys[: query.limit])
    return SearchResult(tuple(Hit(each, 1.0, ("id",)) for each in found.values()), len(keys))


def _containing_literally(
    connection: Connection, query: Query, text: str, keep: Filter
) -> SearchResult | None:
    """Return the records that contain every word of the text literally, or None."""
    from ralph.core.record import Hit, SearchResult
    from ralph.storage import queries, record_rows

    keys = lookup.containing(connection, record_rows.storable_text(text).split(), keep)
    if not keys:
        return None
    found = queries.records(connection, keys[: query.limit])
    hits = tuple(Hit(each, 0.0, ("letters",)) for each in found.values())
    weights = dict.fromkeys(text.lower().split(), 1.0)
    return SearchResult(hits, len(keys), (), weights)


def make_hits(
    ranked: Ranking,
    records: Mapping[int, Record],
    query: Query,
    day: str,
    recipe: Recipe = STANDARD,
) -> tuple[Hit, ...]:
    """Turn a ranking into hits, leaving out records that the query does not accept."""
    from ralph.core.record import Hit

    hits = []
    for ranked_row in ranked.best:
        found = records.get(ranked_row.row.key)
        if found is None or not query.accepts(found):
            continue
        reasons = tuple(explain(ranked_row, ranked.words, day, recipe))
        score = round(ranked_row.score, _HIT_SCORE_DIGITS)
        hits.append(Hit(found, score, reasons, ranked_row.weak))
    return tuple(hits)


def matched_terms(words: Sequence[WeightedWord]) -> dict[str, float]:
    """Return the indexed terms that were searched for, with the weights of their words."""
    weights: dict[str, float] = {}
    for word in words:
        for term in (*word.counts, *word.longer):
            weights[term] = word.weight
    return weights


def replacements(
    connection: Connection | None,
    words: Sequence[WeightedWord],
    keep: Filter = record_filters.EVERYTHING,
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
            spelling = _shortest_spelling(connection, term, keep, store, spellings.get(term))
            if spelling is not None:
                spellings[term] = spelling
    notes = []
    for name, spellings in replaced.items():
        if spellings:
            notes.append((name, tuple(dict.fromkeys(spellings.values()))))
    return tuple(notes)


def _shortest_spelling(
    connection: Connection | None,
    term: str,
    keep: Filter,
    store: RankingStore,
    spelling: str | None,
) -> str | None:
    """Return the shortest word for a term in the records that match it.

    `spelling` is the shortest word known so far. It is returned if none is shorter.
    """
    matches = store.matching(connection, f'"{term}"', STANDARD.fields, _MAX_SPELLING_RECORDS, keep)
    rows = store.fetch_rows(connection, [key for key, _ in matches])
    for row in rows.values():
        text = " ".join((row.title, row.tags, row.text[:_MAX_SPELLING_CHARACTERS], row.files))
        for word in terms.split_words(text):
            is_shorter = spelling is None or len(word) < len(spelling)
            if is_shorter and term in terms.word_terms(word):
                spelling = word.lower() if word.istitle() else word
    return spelling


def describe_replacements(instead: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Describe replacements for the user, with one note per set of replacing words."""
    replaced_by: dict[str, list[str]] = {}
    for word, others in instead:
        shown = ", ".join(others[:_MAX_NAMED_REPLACEMENTS])
        replaced_by.setdefault(shown, []).append(repr(word))
    return [
        f"nothing has {' or '.join(replaced)}; looked for {others} instead"
        for others, replaced in replaced_by.items()
    ]


# --- ranking ------------------------------------------------------------------------------------


def rank(
    connection: Connection | None,
    text: str,
    *,
    today: str,
    keep: Filter = record_filters.EVERYTHING,
    limit: int | None = 10,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
    hurried: bool = False,
    crowded: Recipe | None = None,
    words: Sequence[WeightedWord] | None = None,
    store: RankingStore = lookup,
) -> Ranking:
    """Return the rows that answer a query, best first.

    Pass `words` if the query's words have already been weighed. If `hurried` is set, the filter is
    applied only to the best candidates and the total is not counted. This suits a filter that most
    records pass. If the filter leaves too few candidates, the ranking is repeated with the recipe
    `crowded`, if given.
    """
    if words is None:
        words = question.weigh_words(
            connection,
            text,
            everyday=recipe.everyday_word_factor,
            named=recipe.min_name_weight,
            hurried=not recipe.thorough,
            store=store,
        )
    if not words:
        return Ranking((), 0, ())
    ranker = _Ranker(connection, words, keep, recipe, store)
    pool = ranker.select(text, limit, meaning, hurried)
    if crowded is not None and ranker.is_crowded_out(pool, limit):
        ranker = _Ranker(connection, words, keep, crowded, store)
        pool = ranker.select(text, limit, meaning, hurried)
    order = pool.order + ranker.missing_memories(pool)
    judged = ranker.judge(order, pool, today)
    return ranker.conclude(judged, max(pool.total, len(order)), limit)


def is_answer(judged: RankedRow, recipe: Recipe = STANDARD) -> bool:
    """Return whether a record answers the query, rather than being just similar to it.

    An answer covers enough of the query, has enough evidence, is named by the query, or stands out
    by its meaning.
    """
    return (
        judged.cover >= recipe.floor
        or judged.evidence >= recipe.min_evidence
        or judged.subject
        or judged.outstanding
    )


def gate(best: Sequence[RankedRow], recipe: Recipe = STANDARD) -> list[RankedRow]:
    """Return the few rows that may be injected without being asked for.

    Such a row scores nearly as high as the best one, or the query names it. In addition, it must
    match more than everyday words, be linked, or stand out by its meaning.
    """
    first = best[: recipe.injected]
    if not first:
        return []
    min_score = recipe.gate * first[0].score
    passed = []
    for judged in first:
        has_own_match = judged.matched.keys() - terms.EVERYDAY_WORDS
        is_related = has_own_match or judged.link or judged.outstanding
        if is_related and (judged.score >= min_score or judged.subject):
            passed.append(judged)
    return passed


@record
class _Pool:
    """The candidates of one query, before they are read.

    `scores` holds the combined scores of text and meaning by key, and `order` the best keys that
    pass the filter. `match_count` is the number of scored text matches, and `total` the number of
    records that match. `sources` lists, for each observation, the neighbours that gave it part of
    their score. `similarities` holds cosines by key, and `meaning_share` is their share in
    `scores`.
    """

    scores: Mapping[int, float]
    order: list[int]
    match_count: int
    total: int
    sources: Mapping[int, Sequence[int]]
    similarities: Mapping[int, float]
    meaning_share: float


class _Ranker:
    """The steps of one ranking, which share a connection, the words, a filter and a recipe."""

    def __init__(
        self,
        connection: Connection | None,
        words: Sequence[WeightedWord],
        keep: Filter,
        recipe: Recipe,
        store: RankingStore,
    ) -> None:
        self.connection = connection
        self.words = words
        self.keep = keep
        self.recipe = recipe
        self.store = store

    # --- select: which records are candidates ---

    def select(self, text: str, limit: int | None, meaning: Meaning | None, hurried: bool) -> _Pool:
        """Select the candidates for a query, and order the best ones that pass the filter."""
        matches, total = self.find_candidates(limit, hurried)
        text_scores, sources = self.add_neighbours(matches)
        similarities, share = self.compare_meaning(text, text_scores, meaning)
        scores = _fuse(text_scores, similarities, share)
        order = self.filter_best(scores, self._judged_limit(limit))
        return _Pool(scores, order, len(matches), total, sources, similarities, share)

    def _judged_limit(self, limit: int | None) -> int | None:
        """Return how many candidates to judge. None means all."""
        if limit is None:
            return None
        return max(self.recipe.judged, limit)

    def is_crowded_out(self, pool: _Pool, limit: int | None) -> bool:
        """Return whether the filter left too few candidates while more records may match."""
        judged_limit = self._judged_limit(limit)
        if judged_limit is None or len(pool.order) >= judged_limit:
            return False
        return pool.match_count >= max(self.recipe.candidates, judged_limit)

    def find_candidates(self, limit: int | None, hurried: bool) -> tuple[dict[int, float], int]:
        """Return BM25 scores by key, and how many records match.

        Each paragraph of a long query finds its own candidates. Their scores are relative to
        the best one in the paragraph.
        """
        paragraphs = question.split_words(self.words)
        if len(paragraphs) == 1:
            return self._match(paragraphs[0], limit, hurried)
        scores: dict[int, float] = {}
        for words in paragraphs:
            found, _ = self._match(words, limit, hurried)
            best = sorted(found, key=found.__getitem__, reverse=True)
            if words[0].paragraph == question.PRINTED:
                chosen = best[:_MAX_PRINTED_CANDIDATES]
            else:
                chosen = best
            for key in chosen:
                relative_score = found[key] / found[best[0]]
                scores[key] = max(scores.get(key, 0.0), relative_score)
        return scores, len(scores)

    def _match(
        self, words: Sequence[WeightedWord], limit: int | None, hurried: bool
    ) -> tuple[dict[int, float], int]:
        """Return the BM25 scores of records with the rarest terms, and how many records match."""
        recipe = self.recipe
        rarest = question.rarest_terms(words, recipe.common)
        if not rarest:
            return {}, 0
        keep = None if hurried else self.keep
        max_matches = -1 if limit is None else max(recipe.candidates, limit)
        match = " OR ".join(f'"{term}"' for term in rarest)
        scores = dict(self.store.matching(self.connection, match, recipe.fields, max_matches, keep))
        total = len(scores)
        if keep is not None and total == max_matches:
            total = self.store.count_matching(self.connection, match, keep)
        phrases = self._phrases(words, set(rarest))
        if phrases:
            phrase_match = " OR ".join(phrases[:_MAX_PHRASES])
            for key, score in self.store.matching(
                self.connection, phrase_match, recipe.fields, max_matches
            ):
                if key in scores:
                    scores[key] += recipe.phrase_weight * score
        return scores, total

    def _phrases(self, words: Sequence[WeightedWord], rarest: set[str]) -> list[str]:
        """Return pairs of adjacent query words as phrases, if at least one word is rare.

        Searching for two common words takes too long.
        """
        max_count = _MAX_PHRASE_WORD_RATIO * self.recipe.common
        phrases = []
        for left, right in pairwise(words):
            if not left.counts or not right.counts or left.replaced or right.replaced:
                continue
            left_term = list(left.counts)[-1]
            right_term = next(iter(right.counts))
            is_rare = left_term in rarest or right_term in rarest
            larger_count = max(left.counts[left_term], right.counts[right_term])
            if is_rare and larger_count <= max_count:
                phrases.append(f'"{left_term} {right_term}"')
        return phrases

    def add_neighbours(
        self, scores: dict[int, float]
    ) -> tuple[dict[int, float], dict[int, list[int]]]:
        """Add part of each score to the observations just before and after it in the session.

        Return the new scores, and for each observation the neighbours that contributed to it.
        """
        recipe = self.recipe
        total = dict(scores)
        sources: dict[int, list[int]] = {}
        best_first = sorted(scores, key=scores.__getitem__, reverse=True)
        for key, neighbour, distance in self.store.neighbours(
            self.connection, best_first[: recipe.spreading], len(recipe.neighbour_weights)
        ):
            weight = recipe.neighbour_weights[abs(distance) - 1]
            total[neighbour] = total.get(neighbour, 0.0) + weight * scores[key]
            sources.setdefault(neighbour, []).append(key)
        return total, sources

    def compare_meaning(
        self, text: str, scores: Mapping[int, float], meaning: Meaning | None
    ) -> tuple[Mapping[int, float], float]:
        """Return cosine similarities by key, and their share in the score."""
        if meaning is None:
            return {}, 0.0
        share = self._meaning_share(scores)
        words_fail = share == self.recipe.meaning_only_share
        if isinstance(meaning, SlowMeaning) and not words_fail:
            return {}, 0.0
        similarities = meaning(text, list(scores))
        if not similarities:
            share = 0.0
        return similarities, share

    def _meaning_share(self, scores: Mapping[int, float]) -> float:
        """Return how much meaning counts: more if the best match covers less of the query.

        Even the best of several bad matches has a text score of 1, so without this, a chance word
        would outrank a paraphrase. If no match covers enough of the query to be an answer, almost
        only meaning counts.
        """
        recipe = self.recipe
        best_first = sorted(scores, key=scores.__getitem__, reverse=True)
        rows = self.store.fetch_rows(self.connection, best_first[:_ANSWERS_WITHIN])
        best_coverage = 0.0
        for row in rows.values():
            coverage, _ = question.coverage(self.words, match_words(row, self.words))
            best_coverage = max(best_coverage, coverage)
        paragraph_weights = []
        for paragraph in question.split_words(self.words):
            paragraph_weights.append(sum(word.weight for word in paragraph))
        best_evidence = best_coverage * max(paragraph_weights)
        if best_coverage < recipe.floor and best_evidence < 2 * recipe.min_evidence:
            return recipe.meaning_only_share
        extra_share = recipe.max_meaning_share - recipe.min_meaning_share
        return recipe.min_meaning_share + extra_share * (1 - best_coverage)

    def filter_best(self, scores: Mapping[int, float], limit: int | None) -> list[int]:
        """Return the best keys that pass the filter, best first.

        Keys with equal scores are ordered by time and file, not by key, because the keys may change
        when the index is rebuilt.
        """
        remaining = sorted(scores, key=scores.__getitem__, reverse=True)
        passing: list[int] = []
        batch_size = len(remaining) if limit is None else limit
        while remaining and (limit is None or len(passing) < limit):
            batch_size = _extend_over_ties(remaining, scores, batch_size)
            batch = remaining[:batch_size]
            remaining = remaining[batch_size:]
            accepted = self._accepted(batch, scores)
            passing += accepted
            # If few keys pass, fewer and larger queries are faster.
            if 2 * len(accepted) < batch_size:
                batch_size *= 2
        return passing[:limit]

    def _accepted(self, batch: Sequence[int], scores: Mapping[int, float]) -> list[int]:
        """Return the keys in a batch that pass the filter, ordered by score, time and file."""
        allowed = self.store.filter_keys(self.connection, batch, self.keep)
        accepted = [key for key in batch if key in allowed]
        distinct_scores = {scores[key] for key in accepted}
        if len(distinct_scores) < len(accepted):
            sort_values = self.store.sort_values(self.connection, accepted)
            accepted.sort(
                key=lambda key: (scores[key], sort_values.get(key, ("", "", key))), reverse=True
            )
        return accepted

    def missing_memories(self, pool: _Pool) -> list[int]:
        """Return the best memories that log lines crowded out of the candidates."""
        present = {key for key in pool.order if is_memory(key)}
        missing_count = _MIN_JUDGED_MEMORIES - len(present)
        if missing_count <= 0:
            return []
        others = {}
        for key, score in pool.scores.items():
            if is_memory(key) and key not in present:
                others[key] = score
        return self.filter_best(others, missing_count)

    # --- judge: score the best candidates by their content ---

    def judge(self, order: Sequence[int], pool: _Pool, today: str) -> list[RankedRow]:
        """Read the best candidates, score them by what they contain, and return them best first."""
        wanted = set(order)
        for key in order:
            wanted.update(pool.sources.get(key, ()))
        rows = self.store.fetch_rows(self.connection, list(wanted))
        matches = {key: match_words(row, self.words) for key, row in rows.items()}
        judged = []
        for key in order:
            if key in rows:
                judged.append(self._judge_row(rows[key], matches, pool, today))
        position = {key: number for number, key in enumerate(order)}
        judged.sort(
            key=lambda candidate: (
                round(candidate.score, _SCORE_DIGITS),
                candidate.row.created_at,
                -position[candidate.row.key],
            ),
            reverse=True,
        )
        _prefer_newer_decisions(judged, self.recipe)
        _prefer_memories(judged)
        _sort_by_score(judged)
        level = _level_of(pool.similarities)
        for candidate in judged:
            candidate.outstanding = candidate.close >= level
        return judged

    def _judge_row(
        self,
        row: RecordRow,
        matches: Mapping[int, Mapping[str, float]],
        pool: _Pool,
        today: str,
    ) -> RankedRow:
        """Score one candidate.

        `matches` holds the matched words by key, including those of the candidate's neighbours.
        """
        judged = RankedRow(row)
        judged.matched = matches[row.key]
        judged.cover, judged.evidence = question.coverage(self.words, judged.matched)
        judged.close = pool.similarities.get(row.key, 0.0)
        judged.subject = self._is_subject(judged)
        neighbours = []
        for key in pool.sources.get(row.key, ()):
            if key in matches:
                neighbours.append(matches[key])
        coverage = judged.cover
        if neighbours:
            coverage = self._joint_coverage(judged.matched, neighbours)
        tagged = self._tagged_words(judged)
        is_tag_only = _matches_by_tag_only(judged, tagged)
        text_score = pool.scores[row.key] * freshness(row.created_at, today, self.recipe)
        content_share = self._content_share(pool.meaning_share)
        score = self._score(judged, text_score, content_share, coverage, len(tagged), is_tag_only)
        judged.score = score
        if is_tag_only and len(self.words) > 1:
            # It is not an answer either. Otherwise a single tag would be enough to return hits.
            judged.cover = 0.0
            judged.evidence = 0.0
        return judged

    def _content_share(self, meaning_share: float) -> float:
        """Return how much tags and coverage count. The more meaning counts, the less they do."""
        return min(1.0, (1 - meaning_share) / (1 - self.recipe.min_meaning_share))

    def _score(
        self,
        judged: RankedRow,
        text_score: float,
        content_share: float,
        coverage: float,
        tag_count: int,
        is_tag_only: bool,
    ) -> float:
        """Return the weighted sum of text, tags and coverage, from 0 to about 1."""
        recipe = self.recipe
        coverage_weight = self._coverage_weight(judged.row.key)
        tag_share = recipe.tag_weight * min(tag_count, _MAX_TAGS_COUNTED) / _MAX_TAGS_COUNTED
        score = text_score + content_share * (tag_share + coverage_weight * coverage)
        if is_tag_only:
            score *= recipe.tag_only_factor
        if is_memory(judged.row.key) and (judged.matched or judged.close > 0):
            score *= 1 + recipe.memory_bonus
        return score / (1 + recipe.tag_weight + coverage_weight)

    def _coverage_weight(self, key: int) -> float:
        """Return the weight of coverage for a record (see `Recipe.turn_coverage_weight`)."""
        has_one_paragraph = self.words[0].paragraph == self.words[-1].paragraph
        if has_one_paragraph and not is_observation(key):
            return self.recipe.coverage_weight
        return self.recipe.turn_coverage_weight

    def _tagged_words(self, judged: RankedRow) -> list[WeightedWord]:
        """Return the matched query words that are among a record's tags."""
        if not judged.row.tags or not judged.matched:
            return []
        tags = terms.TermMatcher(judged.row.tags)
        return [word for word in self.words if word.word in judged.matched and word.match(tags)]

    def _is_subject(self, judged: RankedRow) -> bool:
        """Return whether the query names a record."""
        for word in self.words:
            if word.distinctive and judged.matched.get(word.word) == 1.0:
                return True
        return is_memory(judged.row.key) and _is_named(judged, self.words)

    def _joint_coverage(
        self, matched: Mapping[str, float], neighbours: Sequence[Mapping[str, float]]
    ) -> float:
        """Return how much of the query an observation and its neighbours cover together."""
        together: dict[str, float] = {}
        for neighbour in neighbours:
            for word, share in neighbour.items():
                together[word] = self.recipe.neighbour_coverage_factor * share
        for word, share in matched.items():
            together[word] = max(share, together.get(word, 0.0))
        coverage, _ = question.coverage(self.words, together)
        return coverage

    # --- conclude: answers, links and what is weak ---

    def conclude(self, judged: list[RankedRow], match_count: int, limit: int | None) -> Ranking:
        """Return the final ranking.

        It has the answers and what they link to or, if there is no answer, the nearest records.
        """
        matching = [candidate for candidate in judged if candidate.matched or candidate.close > 0]
        if not any(is_answer(candidate, self.recipe) for candidate in matching[:_ANSWERS_WITHIN]):
            for candidate in matching:
                candidate.weak = True
            return Ranking(matching[:limit], len(matching), self.words, weak=True)
        best = self.follow_links(judged)
        for candidate in best:
            candidate.weak = not is_answer(candidate, self.recipe) and not candidate.link
        return Ranking(best[:limit], max(match_count, len(best)), self.words)

    def follow_links(self, judged: Sequence[RankedRow]) -> list[RankedRow]:
        """Return the judged rows and the memories that the best answers link to, best first."""
        answers = {}
        for candidate in judged[:_MAX_LINKING]:
            if is_answer(candidate, self.recipe):
                answers[candidate.row.key] = candidate
        links = list(self.store.linked_keys(self.connection, list(answers)))
        position = {key: number for number, key in enumerate(answers)}
        links.sort(key=lambda link: position[link[0]])  # keys may change in a rebuild
        by_key = {candidate.row.key: candidate for candidate in judged}
        unjudged = [target for _, target in links if target not in by_key]
        visible = self.store.filter_keys(self.connection, unjudged, self.keep)
        rows = self.store.fetch_rows(self.connection, list(visible))
        for source, target in links:
            if target in rows and target not in by_key:
                by_key[target] = RankedRow(rows[target])
            score = self.recipe.link_factor * answers[source].score
            if target in by_key and by_key[target].score < score:
                by_key[target].score = score
                by_key[target].link = answers[source].row.id
        linked = list(by_key.values())
        _sort_by_score(linked)
        return linked


# --- steps without a connection -----------------------------------------------------------------


def _fuse(
    scores: Mapping[int, float], similarities: Mapping[int, float], share: float
) -> dict[int, float]:
    """Combine text and meaning into one score from 0 to 1.

    Both are scaled to this range first. A record without a vector is scored by its text alone.
    """
    best_score = max(scores.values(), default=0.0) or 1.0
    lowest = min(similarities.values(), default=0.0)
    highest = max(similarities.values(), default=0.0)
    fused = {key: score / best_score for key, score in scores.items()}
    for key, similarity in similarities.items():
        closeness = 1.0
        if highest > lowest:
            closeness = (similarity - lowest) / (highest - lowest)
        fused[key] = (1 - share) * fused.get(key, 0.0) + share * closeness
    return {key: round(score, _SCORE_DIGITS) for key, score in fused.items()}


def _extend_over_ties(keys: Sequence[int], scores: Mapping[int, float], size: int) -> int:
    """Extend a batch at the start of `keys` so that it splits no group of equal scores.

    Return the new size of the batch.
    """
    while size < len(keys) and scores[keys[size]] == scores[keys[size - 1]]:
        size += 1
    return size


def _level_of(similarities: Mapping[int, float]) -> float:
    """Return the similarity from which a record stands out."""
    if isinstance(similarities, Nearness):
        return similarities.level
    return outstanding_level(list(similarities.values()))


def _matches_by_tag_only(judged: RankedRow, tagged: Sequence[WeightedWord]) -> bool:
    """Return whether a record matches only one word, and that only as a tag."""
    if len(judged.matched) != 1 or not tagged:
        return False
    written = terms.TermMatcher(f"{judged.row.title} {judged.row.text}")
    return not tagged[0].match(written)


def _sort_by_score(judged: list[RankedRow]) -> None:
    """Sort in place, best first. Ties keep their order."""
    judged.sort(key=lambda candidate: -round(candidate.score, _SCORE_DIGITS))


def _prefer_newer_decisions(judged: Sequence[RankedRow], recipe: Recipe) -> None:
    """Raise the score of a newer decision above an older one that matches the same words.

    The newer one must score nearly as high (`Recipe.newer_decision_min_ratio`).
    """
    decisions = []
    for candidate in judged:
        if candidate.row.kind == _DECISION_KIND and len(candidate.matched) > 1:
            decisions.append(candidate)
    for newer in decisions:
        for older in decisions:
            if not _amends(newer, older, recipe):
                continue
            if not newer.amends:
                newer.amends = older.row.id
            if newer.score <= older.score:
                newer.score = older.score + _SCORE_STEP


def _amends(newer: RankedRow, older: RankedRow, recipe: Recipe) -> bool:
    """Return whether a decision is newer, matches the same words and scores nearly as high."""
    return (
        _decision_time(newer.row) > _decision_time(older.row)
        and newer.matched.keys() >= older.matched.keys()
        and newer.score >= recipe.newer_decision_min_ratio * older.score
    )


def _decision_time(row: RecordRow) -> tuple[str, str]:
    """Return the date of a decision, and the part of its id that orders memories within a day.

    A memory has only a date, but its id contains the seconds.
    """
    id_with_time = "mem-"
    if row.id.startswith("mem-"):
        id_with_time = row.id.rpartition("-")[0]
    return row.created_at[:10], id_with_time


def _prefer_memories(judged: Sequence[RankedRow]) -> None:
    """Raise the score of a memory above that of log lines that match exactly the same words."""
    for memory in judged:
        if not is_memory(memory.row.key) or not memory.matched:
            continue
        best_log_score = 0.0
        for other in judged:
            if not is_memory(other.row.key) and other.matched == memory.matched:
                best_log_score = max(best_log_score, other.score)
        memory.score = max(memory.score, best_log_score + _SCORE_STEP)


def _is_named(judged: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether the query contains all words of a record's title or of one of its tags.

    A one-word tag must be written as a name in the query.
    """
    query_terms: set[str] = set()
    name_terms: set[str] = set()
    for word in words:
        if not word.certain or judged.matched.get(word.word, 0.0) <= question.HALF:
            continue
        if word.named:
            name_terms.update(word.whole_terms)
        if word.named or not word.replaced:
            query_terms.update(word.whole_terms)
    title = judged.row.title
    for name in (title, *_tags_of(judged.row)):
        wanted = _whole_terms(name)
        if not wanted or not wanted <= query_terms:
            continue
        if len(wanted) > 1 or name == title or wanted <= name_terms:
            return True
    return False


def _tags_of(row: RecordRow) -> list[str]:
    """Return the tags of a row, which are stored as a JSON list without spaces.

    Splitting the string is enough here, because only the words in a tag are compared.
    """
    return row.tags.strip('[]"').split('","')


def _whole_terms(name: str) -> set[str]:
    """Return the terms for the words in a name.

    For an identifier, only the term for the whole identifier is included, not its parts.
    """
    whole: set[str] = set()
    for word in terms.query_terms(name.replace("_", " ")):
        if terms.is_cjk(word.text):
            whole.update(word.terms)
        else:
            whole.add(max(word.terms, key=len))
    return whole


def match_words(row: RecordRow, words: Sequence[WeightedWord]) -> dict[str, float]:
    """Return the query words that a record contains, and how much of each it contains."""
    text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
    matched = {}
    for word in words:
        share = word.match(text)
        if share:
            matched[word.word] = share
    return matched


# --- reasons ------------------------------------------------------------------------------------


def explain(
    judged: RankedRow, words: Sequence[WeightedWord], today: str, recipe: Recipe = STANDARD
) -> list[str]:
    """Return the reasons for a record's rank.

    They say where each word was found, which record it amends or is linked from, how near it is in
    meaning, and whether it is recent.
    """
    row = judged.row
    matchers = {
        "tag": terms.TermMatcher(row.tags),
        "title": terms.TermMatcher(row.title),
        "path": terms.TermMatcher(f"{row.files} {row.id}"),
    }
    reasons = []
    for word in words:
        if word.word in judged.matched:
            reasons.append(f"{_field_with(word, matchers)}: {word.word}")
    if judged.amends:
        reasons.append(f"amends: {judged.amends}")
    if judged.link:
        reasons.append(f"link: {judged.link}")
    found_by_meaning = judged.close > 0 and not judged.matched and not judged.link
    if judged.outstanding or found_by_meaning:
        reasons.append(f"meaning: {judged.close:.2f}")
    if freshness(row.created_at, today, recipe) > 1 - recipe.recency_weight / 2:
        reasons.append(f"recent: {row.created_at[:10]}")
    return reasons


def _field_with(word: WeightedWord, matchers: Mapping[str, terms.TermMatcher]) -> str:
    """Return the name of the first field that contains a word, or `text` if none does."""
    for name, matcher in matchers.items():
        if word.match(matcher):
            return name
    return "text"


def freshness(created_at: str, today: str, recipe: Recipe = STANDARD) -> float:
    """Return the factor for a record's age.

    It is 1 today and approaches `1 - Recipe.recency_weight` over time. A record without a date
    counts as old.
    """
    created = _day_number(created_at)
    now = _day_number(today)
    ageless = 1 - recipe.recency_weight
    if created is None or now is None:
        return ageless
    age_in_days = max(now - created, 0)
    remaining = 2 ** (-age_in_days / recipe.recency_half_life_days)
    return float(ageless + recipe.recency_weight * remaining)


def _day_number(time: str) -> int | None:
    """Return the number of days from a fixed date to `time`, or None if it has no valid date."""
    from datetime import date  # only a search with candidates needs it

    iso_date = time[: len("YYYY-MM-DD")]
    if len(iso_date) < len("YYYY-MM-DD"):
        return None
    try:
        return date.fromisoformat(iso_date).toordinal()
    except ValueError:
        return None
