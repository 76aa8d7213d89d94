"""Select the candidates for a query: the records that are worth reading.

Four steps lead from the words of a query to a `Pool`:

1. *Match.* A full-text search for the rarest terms gives BM25 scores over title, tags, text and
   file paths. Adjacent words that occur as a phrase add to them. A long query is searched for by
   its topic and, with less weight, by the paragraphs that contain its question.
2. *Spread.* An observation passes part of its score to its neighbours in the session, because an
   answer often follows the turn that contains the words.
3. *Compare meaning*, if there is an embedder. The fewer words match, the more the cosine similarity
   counts.
4. *Filter.* The best keys that pass the filter are kept, best first.

A record is identified by its key in the index throughout. For example, the matches `{7: 4.0}` with
observations 6 and 8 as neighbours give the scores `{7: 1.0, 6: 0.45, 8: 0.45}`.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

import math
from itertools import pairwise

from ralph.lean import TYPE_CHECKING, record, replace
from ralph.search import question
from ralph.search.scoring import SCORE_DIGITS, Features, match_words
from ralph.storage import lookup
from ralph.storage.index_schema import is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ralph.search.question import WeightedWord
    from ralph.search.scoring import Search, Weights
    from ralph.storage.record_filters import Filter

    Meaning = Callable[[str, Sequence[int]], Mapping[int, float]]
    """Returns the cosine similarity of records to a query text, by key.

    The result covers the given keys and the records nearest to the text in the whole index.
    """

ANSWERS_WITHIN = 5
"""One of this many best records must be an answer. Otherwise the query has none."""

# Terms of a long query that are searched for as its topic, and how often one term counts. Measured
# with the sets issue-sessions and issue-commits: 30 to 100 terms are equally good, and without
# repetition any@5 is .02 lower.
_MAX_TOPIC_TERMS = 40
_MAX_REPETITIONS = 3
_MAX_PHRASES = 12  # adjacent word pairs that are searched for as phrases
_MAX_PHRASE_WORD_RATIO = 10  # a word of a phrase may match this many times `max_term_matches` rows
_MAX_PRINTED_CANDIDATES = 3  # candidates that match tool output quoted in the query
_MIN_SCORED_MEMORIES = 5  # memories that are always scored, however many log lines match

# Lead over the runner-up, in cosine similarity, from which the best record stands out. No question
# of the own-dev set without an answer reaches the first one. The second one applies below
# `_CROWD_SIZE`, because the best of a few unrelated texts is often 0.08 ahead.
_MIN_LEAD = 0.08
_MIN_LEAD_OF_FEW = 0.2
_CROWD_SIZE = 30  # number of cosines from which their distribution is meaningful
_OUTSTANDING_DEVIATIONS = 5  # standard deviations above the median at which a cosine stands out
_ABOVE_ANY_COSINE = 2.0


@record
class Matches:
    """The records that match by words: their scores for each feature, by key.

    `text` has the BM25 scores of the words, and `phrase` those of adjacent words. `question` has
    the scores of the paragraphs with the question of a long query, and `neighbour` what
    observations get from those around them.
    """

    text: Mapping[int, float]
    phrase: Mapping[int, float]
    question: Mapping[int, float]
    neighbour: Mapping[int, float]

    def weighted_sums(self, weights: Weights) -> dict[int, float]:
        """Return the score of each record over all four features."""
        sums = dict(self.text)
        for found, weight in (
            (self.phrase, weights.phrase),
            (self.question, weights.question),
            (self.neighbour, 1.0),
        ):
            for key, score in found.items():
                sums[key] = sums.get(key, 0.0) + weight * score
        return sums

    def without(self, keys: Collection[int]) -> Matches:
        """Return the matches without some records."""
        if not keys:
            return self
        remaining = {}
        for name, found in vars(self).items():
            remaining[name] = {key: score for key, score in found.items() if key not in keys}
        return Matches(**remaining)


@record
class Pool:
    """The candidates of one query, before they are read.

    `scores` combines words and meaning, from 0 to 1 by key, and `best` lists the best keys that
    pass the filter. `matches` has the features that come from words, and `best_match` is the
    highest sum of these. `match_count` is the number of scored text matches, and `total` the number
    of all matching records. `contributors` lists the neighbours that passed part of their score to
    an observation. `similarities` has the cosines by key, `closeness` the same scaled from 0 to 1,
    `meaning_share` is their share in `scores`, and a record whose cosine reaches
    `outstanding_similarity` stands out from all others.
    """

    scores: Mapping[int, float]
    best: list[int]
    matches: Matches
    best_match: float
    match_count: int
    total: int
    contributors: Mapping[int, Sequence[int]]
    similarities: Mapping[int, float]
    closeness: Mapping[int, float]
    meaning_share: float
    outstanding_similarity: float

    def features(self, key: int) -> Features:
        """Return the features of a record that are known before it is read."""
        return Features(
            text=self.matches.text.get(key, 0.0) / self.best_match,
            phrase=self.matches.phrase.get(key, 0.0) / self.best_match,
            question=self.matches.question.get(key, 0.0) / self.best_match,
            neighbour=self.matches.neighbour.get(key, 0.0) / self.best_match,
            meaning=self.closeness.get(key, 0.0),
        )

    def meaning_share_of(self, key: int) -> float:
        """Return how much meaning counts for a record. Without a vector, it does not count."""
        return self.meaning_share if key in self.similarities else 0.0


NO_MATCHES = Matches(text={}, phrase={}, question={}, neighbour={})


def select_candidates(
    search: Search, text: str, *, limit: int | None, meaning: Meaning | None, filter_late: bool
) -> Pool:
    """Select the candidates for a query, and order the best ones that pass the filter.

    If `filter_late` is set, only the last step applies the filter, and `total` is an estimate.
    """
    weights = search.recipe.weights
    matches, total = _find_matches(search, text, limit, filter_late)
    matches = matches.without(search.ignored)
    match_scores = matches.weighted_sums(weights)
    match_count = len(match_scores)
    neighbour_scores, contributors = _spread_to_neighbours(search, match_scores)
    matches = replace(matches, neighbour=neighbour_scores)
    match_scores = matches.weighted_sums(weights)
    similarities, meaning_share = _compare_meaning(search, text, match_scores, meaning)
    closeness = _scale(similarities)
    best_match = max(match_scores.values(), default=0.0) or 1.0
    scores = _fuse(match_scores, best_match, closeness, meaning_share)
    return Pool(
        scores=scores,
        best=_best_passing(search, scores, _max_scored(search, limit)),
        matches=matches,
        best_match=best_match,
        match_count=match_count,
        total=total,
        contributors=contributors,
        similarities=similarities,
        closeness=closeness,
        meaning_share=meaning_share,
        outstanding_similarity=_outstanding_similarity(similarities),
    )


def is_crowded_out(search: Search, pool: Pool, limit: int | None) -> bool:
    """Return whether the filter left too few candidates while more records may match."""
    max_scored = _max_scored(search, limit)
    if max_scored is None or len(pool.best) >= max_scored:
        return False
    return pool.match_count >= max(search.recipe.max_candidates, max_scored)


def missing_memories(search: Search, pool: Pool) -> list[int]:
    """Return the best memories that log lines crowded out of the candidates."""
    present = {key for key in pool.best if is_memory(key)}
    missing_count = _MIN_SCORED_MEMORIES - len(present)
    if missing_count <= 0:
        return []
    others = {}
    for key, score in pool.scores.items():
        if is_memory(key) and key not in present:
            others[key] = score
    return _best_passing(search, others, missing_count)


def _max_scored(search: Search, limit: int | None) -> int | None:
    """Return the maximum number of candidates to score. None means all."""
    if limit is None:
        return None
    return max(search.recipe.max_scored, limit)


# --- 1: match -----------------------------------------------------------------------------------


def _find_matches(
    search: Search, text: str, limit: int | None, filter_late: bool
) -> tuple[Matches, int]:
    """Return the records that match by words, and their number."""
    paragraphs = question.split_words(search.words)
    if len(text) <= question.LONG_QUERY_CHARACTERS and len(paragraphs) == 1:
        return _match_paragraph(search, paragraphs[0], limit, filter_late)
    topic_scores = _match_topic(search, text, limit, filter_late)
    question_scores = _match_question(search, paragraphs, limit, filter_late)
    matches = Matches(text=topic_scores, phrase={}, question=question_scores, neighbour={})
    return matches, len(topic_scores.keys() | question_scores.keys())


def _match_question(
    search: Search,
    paragraphs: Sequence[Sequence[WeightedWord]],
    limit: int | None,
    filter_late: bool,
) -> dict[int, float]:
    """Return the matches of the paragraphs that contain the question of a long query.

    Each paragraph finds its own matches. Scores are relative to the best one in the paragraph.
    """
    scores: dict[int, float] = {}
    for words in paragraphs:
        # For hooks, the phrases in a long query change any@5 on no data set.
        matches, _ = _match_paragraph(
            search, words, limit, filter_late, with_phrases=search.recipe.thorough
        )
        found = matches.weighted_sums(search.recipe.weights)
        best_first = sorted(found, key=found.__getitem__, reverse=True)
        is_printed = words[0].paragraph == question.PRINTED
        for key in best_first[:_MAX_PRINTED_CANDIDATES] if is_printed else best_first:
            relative_score = found[key] / found[best_first[0]]
            scores[key] = max(scores.get(key, 0.0), relative_score)
    return scores


def _match_topic(
    search: Search, text: str, limit: int | None, filter_late: bool
) -> dict[int, float]:
    """Return the matches of the terms that make up the topic of a long query.

    A term that the text repeats counts several times. BM25 adds up the terms of a match, so it is
    enough to name the term repeatedly. Scores are relative to the best one.
    """
    recipe = search.recipe
    topic = _topic_terms(search, text)
    match = " OR ".join(f'"{term}"' for term in topic)
    if not match:
        return {}
    record_filter = None if filter_late else search.record_filter
    max_matches = -1 if limit is None else max(recipe.max_candidates, limit)
    found = search.store.best_matches(
        search.connection, match, recipe.weights.fields, max_matches, record_filter
    )
    best_score = max((score for _, score in found), default=1.0)
    return {key: score / best_score for key, score in found}


def _topic_terms(search: Search, text: str) -> list[str]:
    """Return the most characteristic terms of a long query, repeated as in the text.

    These are frequent in the text and rare in the index.
    """
    from ralph.search import long_queries  # loaded only if needed, since hooks load this module

    recipe = search.recipe
    repetitions = long_queries.count_terms(text, recipe.max_topic_words)
    # A term with more matches is never part of the topic, so a hook need not count them all.
    max_count = lookup.COUNTED if recipe.thorough else recipe.max_term_matches
    counts = search.store.frequencies(search.connection, list(repetitions), max_count)
    record_count = search.store.size(search.connection)
    weights = {}
    for term, count in counts.items():
        repetitions[term] = min(repetitions[term], _MAX_REPETITIONS)
        weights[term] = repetitions[term] * question.rarity(record_count, count)
    topic: dict[str, int] = {}
    remaining_matches = recipe.max_term_matches
    best_first = sorted(weights, key=lambda term: (-weights[term], term))
    for term in best_first[:_MAX_TOPIC_TERMS]:
        if counts[term] <= remaining_matches:
            remaining_matches -= counts[term]
            topic[term] = repetitions[term]
    # Only the proportion matters, and every repetition takes time.
    common_factor = math.gcd(*topic.values()) or 1
    repeated: list[str] = []
    for term, count in topic.items():
        repeated += [term] * (count // common_factor)
    return repeated


def _match_paragraph(
    search: Search,
    words: Sequence[WeightedWord],
    limit: int | None,
    filter_late: bool,
    *,
    with_phrases: bool = True,
) -> tuple[Matches, int]:
    """Return the records that match a short query or one paragraph, and their number."""
    recipe = search.recipe
    rarest = question.rarest_terms(words, recipe.max_term_matches)
    if not rarest:
        return NO_MATCHES, 0
    record_filter = None if filter_late else search.record_filter
    max_matches = -1 if limit is None else max(recipe.max_candidates, limit)
    match = " OR ".join(f'"{term}"' for term in rarest)
    scores = dict(
        search.store.best_matches(
            search.connection, match, recipe.weights.fields, max_matches, record_filter
        )
    )
    total = len(scores)
    if record_filter is not None and total == max_matches:
        total = search.store.count_matching(search.connection, match, record_filter)
    if limit is None or len(scores) < max(recipe.max_scored, limit):
        longer_terms = question.rarest_longer_terms(words, recipe.max_term_matches)
        scores |= _match_longer_forms(search, longer_terms, scores, max_matches, record_filter)
        total = max(total, len(scores))
    phrase_scores = {}
    phrases: Sequence[str] = ()
    if with_phrases:
        phrases = _rare_phrases(words, set(rarest), recipe.max_term_matches)
    if phrases:
        phrase_match = " OR ".join(phrases[:_MAX_PHRASES])
        for key, score in search.store.best_matches(
            search.connection, phrase_match, recipe.weights.fields, max_matches
        ):
            if key in scores:
                phrase_scores[key] = score
    return Matches(text=scores, phrase=phrase_scores, question={}, neighbour={}), total


def _match_longer_forms(
    search: Search,
    longer_terms: Sequence[str],
    scores: Mapping[int, float],
    max_matches: int,
    record_filter: Filter | None,
) -> dict[int, float]:
    """Return scores for further records that contain only longer forms of the words.

    They are below all of `scores`.
    """
    if not longer_terms:
        return {}
    match = " OR ".join(f'"{term}"' for term in longer_terms)
    found = search.store.best_matches(
        search.connection, match, search.recipe.weights.fields, max_matches, record_filter
    )
    others = {key: score for key, score in found if key not in scores}
    if not scores or not others:
        return others
    factor = question.HALF * min(scores.values()) / max(others.values())
    return {key: factor * score for key, score in others.items()}


def _rare_phrases(
    words: Sequence[WeightedWord], rarest: set[str], max_term_matches: int
) -> list[str]:
    """Return pairs of adjacent query words as quoted phrases, if at least one word is rare.

    Searching for two common words takes too long.
    """
    max_count = _MAX_PHRASE_WORD_RATIO * max_term_matches
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


# --- 2: spread ----------------------------------------------------------------------------------


def _spread_to_neighbours(
    search: Search, match_scores: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, list[int]]]:
    """Pass part of each score to the observations just before and after it in the session.

    Return what each observation gets, and the neighbours that it gets it from.
    """
    shares = search.recipe.weights.neighbours
    scores: dict[int, float] = {}
    contributors: dict[int, list[int]] = {}
    best_first = sorted(match_scores, key=match_scores.__getitem__, reverse=True)
    for key, neighbour, distance in search.store.neighbours(
        search.connection, best_first[: search.recipe.max_spreading], len(shares)
    ):
        passed_on = shares[abs(distance) - 1] * match_scores[key]
        scores[neighbour] = scores.get(neighbour, 0.0) + passed_on
        contributors.setdefault(neighbour, []).append(key)
    return scores, contributors


# --- 3: compare meaning -------------------------------------------------------------------------


class Similarities(dict[int, float]):
    """Cosine similarities by key, with the cosine from which a record stands out.

    A plain mapping will do for a Meaning as well. Then the level is computed from its values.
    """

    outstanding_similarity = _ABOVE_ANY_COSINE


class SlowMeaning:
    """A Meaning whose model is not loaded yet.

    It is used only if words find no answer, because loading the model takes longer than a search.
    """

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning

    def __call__(self, text: str, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the cosine similarity of records to a query text, by key."""
        return self._meaning(text, keys)


def _compare_meaning(
    search: Search, text: str, scores: Mapping[int, float], meaning: Meaning | None
) -> tuple[Mapping[int, float], float]:
    """Return cosine similarities by key, and their share in the score."""
    if meaning is None:
        return {}, 0.0
    share = _meaning_share(search, scores)
    words_find_no_answer = share == search.recipe.weights.meaning_only_share
    if isinstance(meaning, SlowMeaning) and not words_find_no_answer:
        return {}, 0.0
    similarities = meaning(text, list(scores))
    if not similarities:
        share = 0.0
    return similarities, share


def _meaning_share(search: Search, scores: Mapping[int, float]) -> float:
    """Return how much meaning counts. It is more if the best match covers less of the query.

    Even the best of several bad matches has a text score of 1, so without this, a chance word would
    outrank a paraphrase. If no match covers enough of the query to be an answer, almost only
    meaning counts.
    """
    recipe = search.recipe
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    rows = search.store.fetch_rows(search.connection, best_first[:ANSWERS_WITHIN])
    best_coverage = 0.0
    for row in rows.values():
        coverage, _ = question.coverage(search.words, match_words(row, search.words))
        best_coverage = max(best_coverage, coverage)
    paragraph_weights = []
    for paragraph in question.split_words(search.words):
        paragraph_weights.append(sum(word.weight for word in paragraph))
    best_evidence = best_coverage * max(paragraph_weights)
    if best_coverage < recipe.min_coverage and best_evidence < 2 * recipe.min_evidence:
        return recipe.weights.meaning_only_share
    extra_share = recipe.weights.max_meaning_share - recipe.weights.min_meaning_share
    return recipe.weights.min_meaning_share + extra_share * (1 - best_coverage)


def _scale(similarities: Mapping[int, float]) -> dict[int, float]:
    """Scale cosine similarities to the range from 0 to 1."""
    lowest = min(similarities.values(), default=0.0)
    highest = max(similarities.values(), default=0.0)
    if highest == lowest:
        return dict.fromkeys(similarities, 1.0)
    return {
        key: (similarity - lowest) / (highest - lowest) for key, similarity in similarities.items()
    }


def _fuse(
    match_scores: Mapping[int, float],
    best_match: float,
    closeness: Mapping[int, float],
    meaning_share: float,
) -> dict[int, float]:
    """Combine words and meaning into one score from 0 to 1.

    A record without a vector is scored by its words alone.
    """
    fused = {key: score / best_match for key, score in match_scores.items()}
    for key, nearness in closeness.items():
        fused[key] = (1 - meaning_share) * fused.get(key, 0.0) + meaning_share * nearness
    return {key: round(score, SCORE_DIGITS) for key, score in fused.items()}


def _outstanding_similarity(similarities: Mapping[int, float]) -> float:
    if isinstance(similarities, Similarities):
        return similarities.outstanding_similarity
    return outstanding_similarity(list(similarities.values()))


def outstanding_similarity(cosines: Sequence[float]) -> float:
    """Return the cosine similarity from which a record stands out from the others.

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
        level = min(level, _far_above_median(cosines))
    return level


def _far_above_median(cosines: Sequence[float]) -> float:
    mean = sum(cosines) / len(cosines)
    variance = sum((cosine - mean) ** 2 for cosine in cosines) / len(cosines)
    deviation: float = variance**0.5
    median = sorted(cosines)[len(cosines) // 2]
    return median + _OUTSTANDING_DEVIATIONS * deviation


# --- 4: filter ----------------------------------------------------------------------------------


def _best_passing(search: Search, scores: Mapping[int, float], limit: int | None) -> list[int]:
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
        accepted = _filter_batch(search, batch, scores)
        passing += accepted
        # If few keys pass, fewer and larger queries are faster.
        if 2 * len(accepted) < batch_size:
            batch_size *= 2
    return passing[:limit]


def _extend_over_ties(keys: Sequence[int], scores: Mapping[int, float], size: int) -> int:
    """Return the size of a batch at the start of `keys` that splits no group of equal scores.

    It is `size` or slightly more.
    """
    while size < len(keys) and scores[keys[size]] == scores[keys[size - 1]]:
        size += 1
    return size


def _filter_batch(search: Search, batch: Sequence[int], scores: Mapping[int, float]) -> list[int]:
    """Return the keys in a batch that pass the filter, ordered by score, time and file."""
    allowed = search.store.filter_keys(search.connection, batch, search.record_filter)
    accepted = [key for key in batch if key in allowed]
    distinct_scores = {scores[key] for key in accepted}
    if len(distinct_scores) < len(accepted):
        sort_values = search.store.sort_values(search.connection, accepted)
        accepted.sort(
            key=lambda key: (scores[key], sort_values.get(key, ("", "", key))), reverse=True
        )
    return accepted
