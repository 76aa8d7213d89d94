"""Score the candidates of a query by named features.

Each feature is a number from 0 to 1, and each has a weight in `Weights`. The score of a record is
the sum of its features times their weights, divided by the largest possible sum of text and
coverage. It lies between 0 and about 1.

- *text*: how well the words of the query match, by BM25, relative to the best candidate.
- *phrase*: the same for adjacent words that occur as a phrase.
- *question*: the same for the paragraphs of a long query that contain its question.
- *neighbour*: what an observation gets from the turns around it in the session.
- *meaning*: the similarity in meaning, if there is a model.
- *coverage*: the share of the query that the record contains, weighing each word by its rarity. For
  an observation, the words of its neighbours in the session count nearly as much.
- *age*: 1 for a record from today, one half after a month, and so on.
- *kind*: the match by words once more, if the record is a memory and not a line of a log.

The first four come from `candidates.py` and are scaled so that the best candidate has a weighted
sum of 1. If meaning counts, they share this weight with it (`query_weights`).

For example, the query "gateway deploy" and the memory "the gateway deploy fails at night" have a
coverage of 1. If it is the best match and from today, its score is
(1 + 0.4 * 1 + 0.05 * 1 + 0.15 * 1) / (1 + 0.4).

Two more numbers decide later whether a record is an answer (see `rank.is_answer`): the coverage of
the record alone, and the *evidence*, which is the summed weight of the words that it certainly
contains. `question.coverage` computes both.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING, record, replace
from ralph.search import question
from ralph.storage.index_schema import is_memory, is_observation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from sqlite3 import Connection

    from ralph.search.candidates import Pool
    from ralph.search.question import WeightedWord
    from ralph.storage.lookup import RankingStore, RecordRow
    from ralph.storage.record_filters import Filter

SCORE_DIGITS = 9
"""Number of decimals compared, so that the order of a summation cannot decide the ranking."""


# --- the values of a ranking --------------------------------------------------------------------


@record
class Weights:
    """What each feature counts, relative to the match by words, which counts 1.

    The numbers are the same for all queries and kinds of records, and they are not user settings.
    They were set with `bench/retrieval.py`. The loss behind a number is what `bench/ablate.py`
    measured without it, as any@5 and MRR on the data set where it matters most.
    """

    # BM25 weights of title, tags, text and file paths, in this order. Above 0; 1 is neutral.
    # Loss: .000 and .022 (precision).
    fields: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)

    # Adjacent words of the query that occur as a phrase, such as "connection pool". From 0.
    # Loss: .024 and .079 (changelog).
    phrase: float = 0.5

    # The paragraphs of a long query that contain its question, relative to its topic. From 0.
    # Loss: .034 in any@5 (issue-sessions), .015 in MRR (issue-commits).
    question: float = 0.5

    # Share of an observation's match that its neighbours in the session get, at a distance of one
    # and of two. Each from 0 to 1; the number of values is the reach.
    # Loss: .111 and .040 (locomo-turns).
    neighbours: tuple[float, ...] = (0.45, 0.25)

    # Coverage of a short query by a memory or a journal entry. From 0.
    # Loss: .024 and .007 (issues).
    coverage: float = 0.4

    # Coverage if the record is an observation, which is one turn of a session, or if the query has
    # several paragraphs. In both cases, words that occur together matter most. From 0.
    # Loss: .045 and .038 (locomo-turns).
    turn_coverage: float = 1.0

    # How much a word of the query in a neighbour counts for the coverage, compared with the same
    # word in the observation itself. From 0 to 1. Loss: .039 and .016 (locomo-turns).
    neighbour_coverage: float = 0.8

    # Age, which decides between records that match almost equally. From 0. Up to .06 it costs no
    # set more than .002; with less, the newer of two almost equal journal entries is not first.
    age: float = 0.05

    # Days after which the age counts half. Above 0.
    age_half_life_days: float = 30.0

    # Memories over lines of a log that match as well. From 0. Loss: .018 and .034 (mixed-dev).
    kind: float = 0.15

    # Share of an answer's score that the memories it links to get. From 0 to 1.
    # Loss: .018 and .010 (mixed-dev).
    link: float = 0.7

    # A newer decision that matches the same words ranks before an older one if its score is at
    # least this share of the older one's. From 0 (always) to 1 (only if it scores as well).
    # Loss: .000 and .013 (own-dev).
    newer_decision_min_ratio: float = 0.8

    # --- the words of the query ---

    # Factor for the weight of everyday English words. From 0 to 1; 1 is neutral.
    # Loss: .003 and .015 (locomo-sessions).
    everyday_word_factor: float = 0.5

    # Minimum weight of a word that is written as a name, however common it is. From 0 to 1. It does
    # not change the order, but which records are answers.
    min_name_weight: float = 0.5

    # --- meaning: the share of the cosine similarity in the score; the rest is the text ---

    # Share if a record covers the whole query. From 0 to below 1. A half is the largest share that
    # costs the changelog set nothing (ADR 0009).
    min_meaning_share: float = 0.5

    # Share as the best coverage approaches 0. From `min_meaning_share` to 1.
    max_meaning_share: float = 0.7

    # Share if no record covers enough of the query to be an answer. From 0 to 1.
    meaning_only_share: float = 0.9


WEIGHTS = Weights()


@record
class Recipe:
    """How to rank: the weights, what counts as an answer, and how much effort to make."""

    weights: Weights = WEIGHTS

    # --- what counts as an answer, and what may be injected ---

    # Coverage from which a record is an answer. From 0 (always) to 1.
    min_coverage: float = 0.45

    # Evidence from which a record is an answer. From 0 (always); one unique word weighs 1.
    min_evidence: float = 0.7

    # A record may be injected if its score is at least this share of the best score. From 0 to 1.
    injection_min_ratio: float = 0.6

    # Maximum number of records that may be injected.
    max_injected: int = 5

    # --- effort: larger values find a little more and take longer ---

    # Maximum number of full-text matches that are scored. More than 100 change no data set, but
    # there may be more that match equally well, of which the newest come first.
    max_candidates: int = 150

    # Maximum number of matches that pass part of their score to their neighbours.
    max_spreading: int = 75

    # Maximum number of candidates that are read and scored by their content.
    max_scored: int = 20

    # Maximum number of matches, summed over the rarest terms, that select the candidates.
    max_term_matches: int = 40_000

    # Maximum number of words of a long query that are considered for its topic.
    max_topic_words: int = 400

    # Whether unknown words are compared with many terms, and frequencies are counted exactly up to
    # a higher limit.
    thorough: bool = True


SEARCH = Recipe()
HOOK = Recipe(
    max_candidates=60,
    max_spreading=30,
    max_scored=10,
    max_term_matches=800,
    max_topic_words=25,
    thorough=False,
)
"""For hooks: fewer candidates, selected by rarer words, and little effort on unknown words."""


@record
class Features:
    """The features of one record, each from 0 to 1. The module's docstring describes them."""

    text: float = 0.0
    phrase: float = 0.0
    question: float = 0.0
    neighbour: float = 0.0
    meaning: float = 0.0
    coverage: float = 0.0
    age: float = 0.0
    kind: float = 0.0


@record
class Search:
    """One query against one index. All steps of a ranking share it.

    The records with the keys in `ignored` are treated as if they did not exist.
    """

    connection: Connection | None
    store: RankingStore
    words: Sequence[WeightedWord]
    record_filter: Filter
    recipe: Recipe
    ignored: Collection[int] = ()


class RankedRow:
    """A row with its score and its relation to the query.

    `matched` maps each query word found in the row to the share of the word that was found, which
    is below 1 for part of an identifier. `coverage` is the share of the query found in the row,
    weighted by word, and `evidence` the summed weight of the words that are certain matches.
    `subject` is set if the query mentions the record's title, one of its tags or a distinctive
    identifier in it. `similarity` is the similarity in meaning, `outstanding` is set if it is far
    above that of other records, and `meaning_alone` if no word led to the record. `linked_from` is
    the id of the answer that links to this record, and `amends` the id of an older decision that
    matches the same words. `weak` is set if the record is only similar to the query and not an
    answer.
    """

    __slots__ = (
        "amends",
        "coverage",
        "evidence",
        "linked_from",
        "matched",
        "meaning_alone",
        "outstanding",
        "row",
        "score",
        "similarity",
        "subject",
        "weak",
    )

    def __init__(self, row: RecordRow, score: float = 0.0) -> None:
        self.row = row
        self.score = score
        self.matched: Mapping[str, float] = {}
        self.coverage = 0.0
        self.evidence = 0.0
        self.similarity = 0.0
        self.linked_from = ""
        self.amends = ""
        self.meaning_alone = False
        self.outstanding = False
        self.subject = False
        self.weak = False


# --- scoring ------------------------------------------------------------------------------------


def score_candidates(
    search: Search, keys: Sequence[int], pool: Pool, *, today: str
) -> list[RankedRow]:
    """Read candidates, score them by their content, and return them best first.

    Candidates with equal scores are ordered by time, and then as in `keys`.
    """
    wanted = set(keys)
    for key in keys:
        wanted.update(pool.contributors.get(key, ()))
    rows = search.store.fetch_rows(search.connection, list(wanted))
    matches = {key: match_words(row, search.words) for key, row in rows.items()}
    scored = []
    for key in keys:
        if key in rows:
            scored.append(_score_row(search, rows[key], matches, pool, today))
    position = {key: number for number, key in enumerate(keys)}
    scored.sort(
        key=lambda candidate: (
            round(candidate.score, SCORE_DIGITS),
            candidate.row.created_at,
            -position[candidate.row.key],
        ),
        reverse=True,
    )
    return scored


def _score_row(
    search: Search,
    row: RecordRow,
    matches: Mapping[int, Mapping[str, float]],
    pool: Pool,
    today: str,
) -> RankedRow:
    """Score one candidate.

    `matches` has the matched words of all candidates and their neighbours, by key.
    """
    ranked = RankedRow(row)
    ranked.matched = matches[row.key]
    ranked.coverage, ranked.evidence = question.coverage(search.words, ranked.matched)
    ranked.similarity = pool.similarities.get(row.key, 0.0)
    ranked.outstanding = ranked.similarity >= pool.outstanding_similarity
    ranked.subject = _is_subject(ranked, search.words)
    neighbours = [matches[key] for key in pool.contributors.get(row.key, ()) if key in matches]
    ranked.meaning_alone = bool(ranked.similarity) and not (ranked.matched or neighbours)
    features = replace(
        pool.features(row.key),
        coverage=_coverage_with_neighbours(search, ranked, neighbours),
        age=age(row.created_at, today, search.recipe.weights),
        kind=_kind(ranked, pool.scores[row.key]),
    )
    ranked.score = _score(search, row.key, features, pool.meaning_share_of(row.key))
    if _matches_only_in_tag(ranked, search.words) and len(search.words) > 1:
        # It is not an answer. Otherwise a single tag would be enough to return hits.
        ranked.coverage = 0.0
        ranked.evidence = 0.0
    return ranked


def query_weights(weights: Weights, meaning_share: float) -> Features:
    """Return the weight of each feature for a query in which meaning has this share.

    What meaning gets is taken from the match by words. The weight of the coverage is the same for
    all shares that leave the words enough.
    """
    word_share = 1 - meaning_share
    return Features(
        text=word_share,
        phrase=word_share * weights.phrase,
        question=word_share * weights.question,
        neighbour=word_share,
        meaning=meaning_share,
        coverage=min(1.0, word_share / (1 - weights.min_meaning_share)),
        age=weights.age,
        kind=weights.kind,
    )


def weighted_sum(features: Features, weights: Features) -> float:
    """Return the sum of the features times their weights."""
    values = vars(features)
    total: float = sum([values[name] * weight for name, weight in vars(weights).items()])
    return total


def _score(search: Search, key: int, features: Features, meaning_share: float) -> float:
    """Return the weighted sum of the features, relative to a perfect match."""
    weights = query_weights(search.recipe.weights, meaning_share)
    coverage_weight = _coverage_weight(search, key)
    weights = replace(weights, coverage=weights.coverage * coverage_weight)
    return weighted_sum(features, weights) / (1 + coverage_weight)


# --- the features -------------------------------------------------------------------------------


def match_words(row: RecordRow, words: Sequence[WeightedWord]) -> dict[str, float]:
    """Map the query words found in a record to the share of each word that was found."""
    text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
    matched = {}
    for word in words:
        share = word.match(text)
        if share:
            matched[word.word] = share
    return matched


def age(created_at: str, today: str, weights: Weights = WEIGHTS) -> float:
    """Return the feature for a record's age: 1 today, one half after the half-life.

    A record without a date counts as old.
    """
    created = _day_number(created_at)
    now = _day_number(today)
    if created is None or now is None:
        return 0.0
    age_in_days = max(now - created, 0)
    return float(2 ** (-age_in_days / weights.age_half_life_days))


def _kind(ranked: RankedRow, match: float) -> float:
    """Return the match by words once more, if the record is a memory."""
    if is_memory(ranked.row.key) and (ranked.matched or ranked.similarity > 0):
        return min(match, 1.0)
    return 0.0


def _day_number(time: str) -> int | None:
    """Return the number of a day, one more than that of the day before, or None without a date.

    Hooks load this module, and `datetime` would take longer to load than the ages to compute.
    """
    try:
        year, month, day = map(int, time[: len("YYYY-MM-DD")].split("-"))
    except ValueError:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    # Years are counted from March, so that a leap day is the last day of its year. The months from
    # March on begin after 0, 31, 61, 92, ... days.
    year, month = divmod(12 * year + month - 3, 12)
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (153 * month + 2) // 5 + day


def _coverage_weight(search: Search, key: int) -> float:
    has_one_paragraph = search.words[0].paragraph == search.words[-1].paragraph
    if has_one_paragraph and not is_observation(key):
        return search.recipe.weights.coverage
    return search.recipe.weights.turn_coverage


def _coverage_with_neighbours(
    search: Search, ranked: RankedRow, neighbours: Sequence[Mapping[str, float]]
) -> float:
    """Return how much of the query a record and its neighbours cover together."""
    if not neighbours:
        return ranked.coverage
    together: dict[str, float] = {}
    for neighbour in neighbours:
        for word, share in neighbour.items():
            together[word] = search.recipe.weights.neighbour_coverage * share
    for word, share in ranked.matched.items():
        together[word] = max(share, together.get(word, 0.0))
    coverage, _ = question.coverage(search.words, together)
    return coverage


def _matches_only_in_tag(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether the only match of a record is one word in a tag."""
    if len(ranked.matched) != 1 or not ranked.row.tags:
        return False
    tags = terms.TermMatcher(ranked.row.tags)
    title_and_text = terms.TermMatcher(f"{ranked.row.title} {ranked.row.text}")
    return all(
        word.match(tags) and not word.match(title_and_text)
        for word in words
        if word.word in ranked.matched
    )


# --- subjects -----------------------------------------------------------------------------------


def _is_subject(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether the query mentions a distinctive identifier, the title or a tag."""
    for word in words:
        if word.distinctive and ranked.matched.get(word.word) == 1.0:
            return True
    return is_memory(ranked.row.key) and _mentions_title_or_tag(ranked, words)


def _mentions_title_or_tag(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Return whether the query contains all words of a record's title or of one of its tags.

    A one-word tag must be written as a name in the query.
    """
    query_terms: set[str] = set()
    name_terms: set[str] = set()
    for word in words:
        if not word.certain or ranked.matched.get(word.word, 0.0) <= question.HALF:
            continue
        if word.named:
            name_terms.update(word.whole_terms)
        if word.named or not word.replaced:
            query_terms.update(word.whole_terms)
    title = ranked.row.title
    for name in (title, *_tags_of(ranked.row)):
        wanted = _whole_terms(name)
        if not wanted or not wanted <= query_terms:
            continue
        if len(wanted) > 1 or name == title or wanted <= name_terms:
            return True
    return False


def _tags_of(row: RecordRow) -> list[str]:
    """Split the tags of a row, which are stored as a JSON list without spaces.

    A JSON parser is not needed, because only the words in a tag are compared.
    """
    return row.tags.strip('[]"').split('","')


def _whole_terms(name: str) -> set[str]:
    """Return the terms for the words in a name, without the parts of identifiers."""
    whole: set[str] = set()
    for word in terms.query_terms(name.replace("_", " ")):
        if terms.is_cjk(word.text):
            whole.update(word.terms)
        else:
            whole.add(max(word.terms, key=len))
    return whole
