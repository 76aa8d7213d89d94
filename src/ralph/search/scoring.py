"""Score the candidates of a query by what they contain.

A record's score is a weighted sum of four features, divided by the sum of their weights. It lies
between 0 and about 1:

    text * freshness + content_share * (tag_weight * tags + coverage_weight * coverage)
    -----------------------------------------------------------------------------------
                            1 + tag_weight + coverage_weight

- *text*: how well the words and the meaning match, from 0 to 1 (`candidates.Pool.scores`).
- *freshness*: 1 for a record from today, slightly less for an old one.
- *tags*: the share of up to two tags that the query mentions.
- *coverage*: the share of the query that the record contains, weighing each word by its rarity. For
  an observation, the words of its neighbours in the session count nearly as much.

`content_share` is 1 unless meaning dominates the text score. A single match in a tag lowers the
score, and a memory gets a bonus over a log line. All numbers are in `Recipe`.

For example, the query "gateway deploy" and the memory "the gateway deploy fails at night" have a
coverage of 1. If it is the best match, is recent and has no tags, its score is about
(1 + 0.3) / (1 + 0.15 + 0.3) * 1.2.

Two more numbers decide later whether a record is an answer (see `rank.is_answer`): the coverage of
the record alone, and the *evidence*, which is the summed weight of the words that it certainly
contains. `question.coverage` computes both.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING, record
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

_MAX_TAGS_COUNTED = 2  # matching tags that increase the score


# --- the values of a ranking --------------------------------------------------------------------


@record
class Recipe:
    """The parameters of the ranking, which are the same for all queries and kinds of records.

    They were set by measurement with `bench/retrieval.py` (ADR 0009) and are not user settings.
    A *share*, a *ratio* and a *factor* lie between 0 and 1. A *weight* is relative to the text
    score, whose best value is 1.
    """

    # --- the text score ---

    # BM25 weights of title, tags, text and file paths, in this order. Above 0; 1 is neutral.
    field_weights: tuple[float, ...] = (1.2, 1.5, 1.0, 0.8)

    # Share of the BM25 score of adjacent query words ("connection pool" as a phrase) that is added
    # to a record's score. From 0; 0 ignores word order.
    phrase_weight: float = 0.5

    # Weight of the paragraphs with the question of a long query, relative to its topic. From 0.
    question_weight: float = 0.5

    # Share of an observation's score that its neighbours in the session receive, at a distance of
    # one and of two. Each from 0 to 1; the number of values is the reach.
    neighbour_weights: tuple[float, ...] = (0.45, 0.25)

    # Share of an answer's score that the memories it links to receive. From 0 to 1.
    link_factor: float = 0.7

    # --- the other features: age, tags, family and coverage ---

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

    # Weight of the coverage if the record is an observation, which is one turn of a session, or if
    # the query has several paragraphs. In both cases, words that occur together matter most.
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
    min_coverage: float = 0.45

    # Evidence from which a record is an answer. From 0 (always); one unique word weighs 1.
    min_evidence: float = 0.7

    # A record may be injected if its score is at least this share of the best score. From 0 to 1.
    injection_min_ratio: float = 0.6

    # Maximum number of records that may be injected.
    max_injected: int = 5

    # --- effort: larger values find a little more and take longer ---

    # Maximum number of full-text matches that are scored.
    max_candidates: int = 300

    # Maximum number of matches that pass part of their score to their neighbours.
    max_spreading: int = 150

    # Maximum number of candidates that are read and scored by their content.
    max_scored: int = 20

    # Maximum number of matches, summed over the rarest terms, that select the candidates.
    max_term_matches: int = 40_000

    # Whether unknown words are compared with many terms, and frequencies are counted exactly up to
    # a higher limit.
    thorough: bool = True


STANDARD = Recipe()
QUICK = Recipe(
    max_candidates=60, max_spreading=30, max_scored=10, max_term_matches=800, thorough=False
)
"""For hooks: fewer candidates, selected by rarer words, and little effort on unknown words."""


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
    tagged = _words_in_tags(ranked, search.words)
    is_tag_only = _matches_only_in_tag(ranked, tagged)
    ranked.score = _weighted_sum(
        search,
        ranked,
        text=pool.scores[row.key] * freshness(row.created_at, today, search.recipe),
        tags=min(len(tagged), _MAX_TAGS_COUNTED) / _MAX_TAGS_COUNTED,
        coverage=_coverage_with_neighbours(search, ranked, neighbours),
        content_share=_content_share(pool.meaning_share, search.recipe),
        is_tag_only=is_tag_only,
    )
    if is_tag_only and len(search.words) > 1:
        # It is not an answer either. Otherwise a single tag would be enough to return hits.
        ranked.coverage = 0.0
        ranked.evidence = 0.0
    return ranked


def _weighted_sum(
    search: Search,
    ranked: RankedRow,
    *,
    text: float,
    tags: float,
    coverage: float,
    content_share: float,
    is_tag_only: bool,
) -> float:
    """Combine the features into a score, as the module docstring describes."""
    recipe = search.recipe
    coverage_weight = _coverage_weight(search, ranked.row.key)
    score = text + content_share * (recipe.tag_weight * tags + coverage_weight * coverage)
    if is_tag_only:
        score *= recipe.tag_only_factor
    if is_memory(ranked.row.key) and (ranked.matched or ranked.similarity > 0):
        score *= 1 + recipe.memory_bonus
    return score / (1 + recipe.tag_weight + coverage_weight)


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


def freshness(created_at: str, today: str, recipe: Recipe = STANDARD) -> float:
    """Return the factor for a record's age.

    It is 1 today and approaches `1 - Recipe.recency_weight` over time. A record without a date
    counts as old.
    """
    created = _day_number(created_at)
    now = _day_number(today)
    oldest = 1 - recipe.recency_weight
    if created is None or now is None:
        return oldest
    age_in_days = max(now - created, 0)
    remaining = 2 ** (-age_in_days / recipe.recency_half_life_days)
    return float(oldest + recipe.recency_weight * remaining)


def _day_number(time: str) -> int | None:
    from datetime import date  # only a search with candidates needs it

    iso_date = time[: len("YYYY-MM-DD")]
    if len(iso_date) < len("YYYY-MM-DD"):
        return None
    try:
        return date.fromisoformat(iso_date).toordinal()
    except ValueError:
        return None


def _content_share(meaning_share: float, recipe: Recipe) -> float:
    """Return how much tags and coverage count. The more meaning counts, the less they do."""
    return min(1.0, (1 - meaning_share) / (1 - recipe.min_meaning_share))


def _coverage_weight(search: Search, key: int) -> float:
    has_one_paragraph = search.words[0].paragraph == search.words[-1].paragraph
    if has_one_paragraph and not is_observation(key):
        return search.recipe.coverage_weight
    return search.recipe.turn_coverage_weight


def _coverage_with_neighbours(
    search: Search, ranked: RankedRow, neighbours: Sequence[Mapping[str, float]]
) -> float:
    """Return how much of the query a record and its neighbours cover together."""
    if not neighbours:
        return ranked.coverage
    together: dict[str, float] = {}
    for neighbour in neighbours:
        for word, share in neighbour.items():
            together[word] = search.recipe.neighbour_coverage_factor * share
    for word, share in ranked.matched.items():
        together[word] = max(share, together.get(word, 0.0))
    coverage, _ = question.coverage(search.words, together)
    return coverage


def _words_in_tags(ranked: RankedRow, words: Sequence[WeightedWord]) -> list[WeightedWord]:
    if not ranked.row.tags or not ranked.matched:
        return []
    tags = terms.TermMatcher(ranked.row.tags)
    return [word for word in words if word.word in ranked.matched and word.match(tags)]


def _matches_only_in_tag(ranked: RankedRow, tagged: Sequence[WeightedWord]) -> bool:
    """Return whether the only match of a record is one word in a tag."""
    if len(ranked.matched) != 1 or not tagged:
        return False
    title_and_text = terms.TermMatcher(f"{ranked.row.title} {ranked.row.text}")
    return not tagged[0].match(title_and_text)


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
