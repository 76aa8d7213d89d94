"""Weigh the words of a query: find the indexed terms for each, and how informative it is.

For example, "why does parseHttpHeader fail?" becomes words such as

    parseHttpHeader   counts {"parsehttphead": 1, "pars": 9, "http": 30, ...}   weight 1.0
    fail              counts {"fail": 210}                                      weight 0.2

The fewer records contain a word, the more it weighs. Everyday words weigh less than their count
suggests, and names have a minimum weight. A word that occurs nowhere is replaced by the nearest
indexed terms: longer words, words with one typo, or parts. If the query is a long text, only the
paragraphs that are likely to contain its question are used (`long_queries.py`).

`coverage` then measures how much of the query a record contains. The *evidence* is the summed
weight of the query words that the record certainly contains. A *term* is a word as the index stores
it, usually a stem.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

import math

from ralph.core import terms
from ralph.lean import TYPE_CHECKING
from ralph.storage import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from sqlite3 import Connection

    from ralph.storage.lookup import RankingStore

PRINTED = -1
"""The paragraph number of an error that a tool printed, in a long text."""
LONG_QUERY_CHARACTERS = 400
"""A longer query is searched for by its topic and its paragraphs."""
HALF = 0.5
"""How much a longer word or a replacement counts, compared with the word itself."""

# --- words ---
_TYPO_SHARE = 0.9  # how much a replacement counts if it differs from a long word by one typo
_MIN_TYPO_CHARACTERS = 6  # word length from which a replacement with one typo is very likely meant
_MAX_REPLACED_WORDS = 8  # unknown words to replace; a pasted log has hundreds
_MAX_SHORT_QUERY_WORDS = 3  # a query of at most this many also matches longer words
_CJK_PAIR_WEIGHT = 0.5  # weight of a pair of CJK characters: about half a word
_SENTENCE_OPENING = " \t\r-*#>`\"'("  # may precede the first word of a sentence or line
_SENTENCE_ENDS = ".!?:"
# An identifier is distinctive if it occurs in a few records, or in at most one of 50.
_FEW_RECORDS = 3
_DISTINCTIVE_ONE_IN = 50
_QUICK_MAX_COUNT = 500  # records with a term that a hook counts exactly

# --- long queries ---
_MAX_PARAGRAPH_WORDS = 16  # most informative words of a paragraph that are searched for

# --- evidence ---
_MIN_EVIDENCE_SHARE = 0.3  # share of a query's weight that a record must contain as evidence
_ENOUGH_EVIDENCE = 3.0  # summed weight that is always enough evidence, however long the query
_MIN_SAME_ERROR_WORDS = 3  # informative words that a record must share with a printed error

# --- nearest terms ---
_MIN_TERM_CHARACTERS = 3
_MAX_TERM_CHARACTERS = 40  # longer terms are hashes, and trying all their parts takes far too long
_MAX_NEAREST_TERMS = 8
_MAX_CJK_PAIRS = 50
_MAX_LONGER_TERMS = 200  # terms with the same prefix that are read to find the shortest ones
_MAX_TYPO_TERMS = 20_000  # terms with the same first letters that are compared
_MAX_SCANNED_RECORDS = 10_000  # the whole vocabulary is read in an index up to this size


class WeightedWord:
    """One word of a query: its indexed terms with their counts, and its weight.

    `longer` holds longer indexed words that begin with it. `share` is how much a match counts.
    `replaced` says that the word is not indexed, and that its terms are only the nearest ones.
    `identifier` is the term for a whole identifier, `parts` is the number of its parts, and
    `distinctive` says that few records contain it. `named` says that the word is written as a name
    and that few records contain it. `paragraph` is the number of its paragraph in a long text.
    """

    __slots__ = (
        "counts",
        "distinctive",
        "identifier",
        "longer",
        "named",
        "paragraph",
        "parts",
        "replaced",
        "share",
        "weight",
        "word",
    )

    def __init__(self, word: str, counts: Mapping[str, int], weight: float) -> None:
        self.word = word
        self.counts = counts
        self.weight = weight
        self.longer: Mapping[str, int] = {}
        self.share = 1.0
        self.replaced = False
        self.identifier = ""
        self.parts = 0
        self.distinctive = False
        self.named = False
        self.paragraph = 0

    @property
    def certain(self) -> bool:
        """Whether the terms very likely stand for the word itself."""
        return self.share > HALF

    @property
    def whole_terms(self) -> Iterable[str]:
        """The terms for the word, without the parts of an identifier."""
        if self.parts > 1:
            return (self.identifier,)
        return self.counts

    def match(self, text: terms.TermMatcher) -> float:
        """Return how much of this word occurs in a text, from 0 to 1.

        The text may contain the whole word, some parts of an identifier, or a longer word.
        """
        matches = [term for term in self.counts if text.contains(term)]
        if matches:
            is_complete = self.replaced or self.parts < 2 or self.identifier in matches
            if is_complete:
                return self.share
            return self.share * min(len(matches) / self.parts, 1.0)
        if any(text.contains(term) for term in self.longer):
            return HALF
        return 0.0


# --- weighing -----------------------------------------------------------------------------------


def weigh_words(
    connection: Connection | None,
    text: str,
    *,
    everyday_factor: float,
    min_name_weight: float,
    thorough: bool = True,
    store: RankingStore = lookup,
    repetitions: int = 0,
) -> list[WeightedWord]:
    """Return the words of a query in order, with their terms and weights.

    The weight of an everyday word is multiplied by `everyday_factor`, and a name weighs at least
    `min_name_weight`. Unless `thorough` is set, high counts are estimated and unknown words are
    compared with few terms. `repetitions` is the number of records that only repeat the query; the
    words are weighed as if these did not exist.
    """
    is_long = len(text) > LONG_QUERY_CHARACTERS
    if is_long:
        paragraphs = _paragraphs_of(text)
    else:
        paragraphs = {0: terms.query_terms(text)}
    weigher = _Weigher(connection, store, text, paragraphs, thorough, repetitions)
    weighted: list[WeightedWord] = []
    for number, words in paragraphs.items():
        for word in words:
            weighted += weigher.weigh(word, number, everyday_factor, min_name_weight)
    if is_long:
        weighted = _most_informative(weighted)
    for weighted_word in weighted:
        if weighted_word.replaced:
            _confirm_by_compounds(weighted_word, weighted)
    return weighted


def _paragraphs_of(long_text: str) -> dict[int, list[terms.QueryWord]]:
    """Return the informative words of a long text by paragraph number."""
    from ralph.search import long_queries  # loaded only if needed, since hooks load this module

    written, error = long_queries.split_paragraphs(long_text)
    paragraphs = dict(enumerate(written))
    if error:
        paragraphs[PRINTED] = error
    return paragraphs


class _Weigher:
    """Turns the words of one query into weighted words.

    It looks up the counts of all terms at once, and keeps track of how many words are unknown.
    """

    def __init__(
        self,
        connection: Connection | None,
        store: RankingStore,
        text: str,
        paragraphs: Mapping[int, Sequence[terms.QueryWord]],
        thorough: bool,
        repetitions: int,
    ) -> None:
        distinct_terms: dict[str, None] = {}
        word_count = 0
        for words in paragraphs.values():
            word_count += len(words)
            for word in words:
                distinct_terms.update(dict.fromkeys(word.terms))
        max_count = lookup.COUNTED if thorough else _QUICK_MAX_COUNT
        self._connection = connection
        self._store = store
        self._text = text
        self._repetitions = repetitions
        counts = store.frequencies(connection, list(distinct_terms), max_count)
        self._counts = self._without_repetitions(counts)
        self._record_count = max(store.size(connection) - repetitions, 2)
        self._max_distinctive = max(_FEW_RECORDS, self._record_count // _DISTINCTIVE_ONE_IN)
        self._is_short_query = word_count <= _MAX_SHORT_QUERY_WORDS
        # In a long text, an unknown word is rarely a typo.
        self._thorough = thorough and len(text) <= LONG_QUERY_CHARACTERS
        self._unknown_words = 0

    def _without_repetitions(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {
            term: count - self._repetitions
            for term, count in counts.items()
            if count > self._repetitions
        }

    def weigh(
        self,
        word: terms.QueryWord,
        paragraph: int,
        everyday_factor: float,
        min_name_weight: float,
    ) -> list[WeightedWord]:
        """Return a word with its weight. A word in CJK characters may become several words."""
        if terms.is_cjk(word.text):
            weighted = [self._weigh_cjk(term) for term in word.terms]
        else:
            is_everyday = word.text.lower() in terms.EVERYDAY_WORDS
            factor = everyday_factor if is_everyday else 1.0
            counts = {term: self._counts[term] for term in word.terms if term in self._counts}
            if counts:
                is_printed = paragraph == PRINTED
                weighted = [self._weigh_indexed(word, counts, factor, min_name_weight, is_printed)]
            else:
                weighted = [self._weigh_unknown(word, factor)]
        for weighted_word in weighted:
            weighted_word.paragraph = paragraph
        return weighted

    def _weigh_cjk(self, term: str) -> WeightedWord:
        """Weigh a pair of CJK characters. A single character is also searched for inside pairs."""
        count = self._counts.get(term, 0)
        if count:
            return WeightedWord(term, {term: count}, self._cjk_weight(count))
        if len(term) > 1:
            return WeightedWord(term, {}, self._cjk_weight(0))
        pairs = pairs_with(self._connection, term, self._store)
        weighted = WeightedWord(term, {}, self._cjk_weight(min(pairs.values(), default=0)))
        weighted.longer = pairs
        return weighted

    def _cjk_weight(self, count: int) -> float:
        return _CJK_PAIR_WEIGHT * rarity(self._record_count, count)

    def _weigh_indexed(
        self,
        word: terms.QueryWord,
        counts: Mapping[str, int],
        factor: float,
        min_name_weight: float,
        is_printed: bool,
    ) -> WeightedWord:
        """Weigh a word that occurs in the index. `factor` is below 1 for an everyday word."""
        is_named = is_name(word.text, self._text)
        weight = factor * rarity(self._record_count, min(counts.values()))
        if is_named:
            weight = max(weight, min_name_weight)
        weighted = WeightedWord(word.text, counts, weight)
        weighted.identifier = max(word.terms, key=len)
        weighted.parts = len(word.terms) - 1
        is_rare = 0 < counts.get(weighted.identifier, 0) <= self._max_distinctive
        if is_rare and not is_printed:
            weighted.named = is_named
            weighted.distinctive = weighted.parts > 1 and _has_letters(word.text)
        if self._is_short_query:
            first_term = next(iter(counts))
            weighted.longer = longer_terms(self._connection, first_term, self._store)
        return weighted

    def _weigh_unknown(self, word: terms.QueryWord, factor: float) -> WeightedWord:
        """Weigh a word that occurs nowhere by the terms that replace it."""
        near: Mapping[str, int] = {}
        is_everyday = factor != 1.0
        if not is_everyday:
            self._unknown_words += 1
            if self._unknown_words <= _MAX_REPLACED_WORDS:
                near = self._without_repetitions(
                    nearest_terms(
                        self._connection, word, thorough=self._thorough, store=self._store
                    )
                )
        lowest_count = min(near.values(), default=0)
        weight = factor * rarity(self._record_count, lowest_count)
        weighted = WeightedWord(word.text, near, weight)
        weighted.replaced = True
        weighted.share = _replacement_share(word, near)
        is_rare = 0 < lowest_count <= self._max_distinctive
        weighted.named = is_rare and is_name(word.text, self._text)
        return weighted


def rarity(record_count: int, count: int) -> float:
    """Return how rare a word is: 1 if one record contains it, less the more records do."""
    return math.log(1 + record_count / (max(count, 1) + 0.5)) / math.log(1 + record_count / 1.5)


def _replacement_share(word: terms.QueryWord, near: Iterable[str]) -> float:
    """Return how much it counts if a record matches a word's replacement."""
    if len(word.text) < _MIN_TYPO_CHARACTERS:
        return HALF
    has_typo = any(terms.one_typo(word.terms[0], term) for term in near)
    if not has_typo and near and _may_be_corrected(word):
        has_typo = not terms.corrected_stems(word.text.lower()).isdisjoint(near)
    return _TYPO_SHARE if has_typo else HALF


def _has_letters(word: str) -> bool:
    """Return whether a word has enough letters to be an identifier rather than a version."""
    return sum(map(str.isalpha, word)) >= _MIN_TERM_CHARACTERS


def _most_informative(words: Sequence[WeightedWord]) -> list[WeightedWord]:
    """Return the words with the highest weights in each paragraph, ordered as in the text."""
    chosen: set[WeightedWord] = set()
    for paragraph in split_words(words):
        paragraph.sort(key=lambda word: -word.weight if word.counts else 0.0)
        chosen.update(paragraph[:_MAX_PARAGRAPH_WORDS])
    return [word for word in words if word in chosen]


def is_name(word: str, text: str) -> bool:
    """Return whether a word is written as a name.

    A name has a capital letter that is not just the beginning of a sentence.
    """
    if (word.isascii() and word.islower()) or not any(map(str.isupper, word)):
        return False
    if any(map(str.isupper, word[1:])):
        return not text.isupper()
    position = max(text.find(word), 0)
    line_start = text.rfind("\n", 0, position) + 1
    before = text[line_start:position].rstrip(_SENTENCE_OPENING)
    return before != "" and before[-1] not in _SENTENCE_ENDS


def _confirm_by_compounds(unknown: WeightedWord, words: Sequence[WeightedWord]) -> None:
    """Let a compound such as `econnrefus` stand for two words of the query.

    A compound is a replacement for an unknown word (`refused`) that also contains, right next to
    it, at least the first three letters of another word (`connection`). If there are compounds, all
    other replacements for the unknown word are dropped.
    """
    compounds: dict[str, int] = {}
    for term, other in _find_compounds(unknown, words):
        count = unknown.counts[term]
        compounds[term] = count
        has_no_other_terms = not other.counts.keys() - compounds.keys()
        if other.replaced and has_no_other_terms:
            other.counts = {**other.counts, term: count}
            other.share = _TYPO_SHARE
        else:
            other.longer = {**other.longer, term: count}
    if compounds:
        unknown.counts = compounds
        unknown.share = _TYPO_SHARE


def _find_compounds(
    unknown: WeightedWord, words: Sequence[WeightedWord]
) -> list[tuple[str, WeightedWord]]:
    """Return the compounds among an unknown word's terms, each with the other word in it."""
    found = []
    written = unknown.word.lower()
    for term in unknown.counts:
        part = written if written in term else terms.stem(written)
        if part not in term:
            continue
        before, _, after = term.partition(part)
        for other in words:
            if other is not unknown and _adjoins(other.word.lower(), before, after):
                found.append((term, other))
    return found


def _adjoins(word: str, before: str, after: str) -> bool:
    """Return whether `before` ends with, or `after` starts with, the first letters of a word."""
    for size in range(_MIN_TERM_CHARACTERS, len(word) + 1):
        start = word[:size]
        if before.endswith(start) or after.startswith(start):
            return True
    return False


# --- what a record contains ---------------------------------------------------------------------


def split_words(words: Sequence[WeightedWord]) -> list[list[WeightedWord]]:
    """Group the words of a query by paragraph. A short query is a single paragraph."""
    if words and words[0].paragraph == words[-1].paragraph:
        return [list(words)]  # the paragraphs are in order
    paragraphs: dict[int, list[WeightedWord]] = {}
    for word in words:
        paragraphs.setdefault(word.paragraph, []).append(word)
    return list(paragraphs.values())


def rarest_terms(words: Sequence[WeightedWord], max_matches: int) -> list[str]:
    """Return the rarest terms, which select the candidates.

    Their counts add up to at most `max_matches`, but at least one term is returned if there is any.
    The longer forms of a word are left out if the word itself is indexed. They are rarer than the
    word and would outweigh it.
    """
    counts: dict[str, int] = {}
    for word in words:
        counts |= word.counts or word.longer
    return _rarest(counts, max_matches)


def rarest_longer_terms(words: Sequence[WeightedWord], max_matches: int) -> list[str]:
    """Return the rarest of the longer forms that `rarest_terms` leaves out."""
    counts: dict[str, int] = {}
    for word in words:
        if word.counts:
            counts |= word.longer
    return _rarest(counts, max_matches)


def _rarest(counts: Mapping[str, int], max_matches: int) -> list[str]:
    chosen: list[str] = []
    occurrences = 0
    for term in sorted(counts, key=counts.__getitem__):
        occurrences += counts[term]
        if chosen and occurrences > max_matches:
            break
        chosen.append(term)
    return chosen


def coverage(words: Sequence[WeightedWord], matched: Mapping[str, float]) -> tuple[float, float]:
    """Return how much of a query a record contains, as a share and as evidence.

    `matched` maps the query words in the record to how much of each it contains. For a long query,
    only the best-covered paragraph counts. A single word, everyday words, parts of identifiers,
    uncertain replacements, and a small part of the query are not evidence. In a query with several
    paragraphs, a single word does not count as a share either.
    """
    best = (0.0, 0.0)
    if not matched:
        return best
    paragraphs = split_words(words)
    for paragraph in paragraphs:
        best = max(best, _paragraph_coverage(paragraph, matched, len(paragraphs) == 1))
    return best


def _paragraph_coverage(
    paragraph: Sequence[WeightedWord], matched: Mapping[str, float], is_whole_query: bool
) -> tuple[float, float]:
    """Return what share of a paragraph a record contains, and the evidence in it."""
    nothing = (0.0, 0.0)
    present = [word for word in paragraph if word.word in matched]
    certain_weights = _certain_weights(present, matched)
    if not present:
        return nothing
    if not is_whole_query and len(certain_weights) < min(2, len(paragraph)):
        return nothing
    total = sum([word.weight for word in paragraph])
    share = 0.0
    if total:
        share = sum([word.weight * matched[word.word] for word in present]) / total
    if paragraph[0].paragraph == PRINTED:
        is_same_error = share >= HALF and len(certain_weights) >= _MIN_SAME_ERROR_WORDS
        if not is_same_error:
            return nothing
    evidence = sum(certain_weights)
    if len(certain_weights) < 2 or evidence < _required_evidence(paragraph, total):
        evidence = 0.0
    return share, evidence


def _certain_weights(present: Sequence[WeightedWord], matched: Mapping[str, float]) -> list[float]:
    """Return the weights of the words that a record certainly contains.

    Everyday words are left out.
    """
    weights = []
    for word in present:
        is_certain = word.certain and matched[word.word] > HALF
        if is_certain and word.word.lower() not in terms.EVERYDAY_WORDS:
            weights.append(word.weight * matched[word.word])
    return weights


def _required_evidence(paragraph: Sequence[WeightedWord], total: float) -> float:
    """Return the summed weight below which matching words are chance, not evidence."""
    required_share = _MIN_EVIDENCE_SHARE
    cjk_pairs = sum([terms.is_cjk(word.word) for word in paragraph])
    if 2 * cjk_pairs > len(paragraph):
        # Some of the pairs are not words, so no record contains them all.
        required_share = HALF * _MIN_EVIDENCE_SHARE
    return min(required_share * total, _ENOUGH_EVIDENCE)


# --- nearest terms ------------------------------------------------------------------------------


def nearest_terms(
    connection: Connection | None,
    word: terms.QueryWord,
    *,
    thorough: bool = True,
    store: RankingStore = lookup,
) -> dict[str, int]:
    """Return the indexed terms to search for instead of a word, and their counts.

    Unless `thorough` is set, only terms with the same first letters are considered.
    """
    near: dict[str, int] = {}
    for term in word.terms:
        if len(term) >= _MIN_TERM_CHARACTERS and not terms.is_cjk(term):
            near |= _similar_terms(connection, store, term, word if thorough else None)
    most_frequent_first = sorted(near.items(), key=lambda pair: -pair[1])
    return dict(most_frequent_first[:_MAX_NEAREST_TERMS])


def _similar_terms(
    connection: Connection | None, store: RankingStore, term: str, word: terms.QueryWord | None
) -> dict[str, int]:
    """Return the indexed terms most similar to a term, and their counts.

    These are longer terms, or else terms with one typo, or else terms that contain this one or are
    contained in it. `word` is the word of a thorough search. Without it, only terms with the same
    first letters are considered.
    """
    longer = longer_terms(connection, term, store)
    if longer:
        return longer
    if word is None:
        return _terms_with_typo(connection, store, term, [term[:3]])
    misspelled = _terms_with_typo(connection, store, term, [term[:2], term[:1], term[1:2]])
    if _may_be_corrected(word):
        stems = terms.corrected_stems(word.text.lower())
        misspelled |= store.frequencies(connection, sorted(stems))
    if misspelled:
        return misspelled
    return _overlapping_terms(connection, store, term)


def _may_be_corrected(word: terms.QueryWord) -> bool:
    """Return whether a word may have a typo: it is plain, long enough, and not an ordinary word."""
    text = word.text
    is_plain = len(word.terms) == 1 and text.isascii() and text.isalpha()
    if not is_plain or not _MIN_TYPO_CHARACTERS <= len(text) <= _MAX_TERM_CHARACTERS:
        return False
    from ralph.search import background  # only a thorough search needs it, and hooks load this

    return background.frequency(word.terms[0]) == 0


def longer_terms(
    connection: Connection | None, term: str, store: RankingStore = lookup
) -> dict[str, int]:
    """Return longer indexed terms that begin with a term, and their counts, shortest first."""
    if len(term) < _MIN_TERM_CHARACTERS or terms.is_cjk(term):
        return {}
    longer = []
    for other, count in store.terms_with_prefix(connection, term, _MAX_LONGER_TERMS):
        if other != term:
            longer.append((other, count))
    longer.sort(key=lambda pair: (len(pair[0]), -pair[1]))
    return dict(longer[:_MAX_NEAREST_TERMS])


def pairs_with(
    connection: Connection | None, character: str, store: RankingStore = lookup
) -> dict[str, int]:
    """Return the indexed pairs that contain a CJK character, and their counts.

    In a large index, only pairs that begin with it are returned, because finding the others would
    require reading all terms.
    """
    if store.size(connection) > _MAX_SCANNED_RECORDS:
        return dict(store.terms_with_prefix(connection, character, _MAX_CJK_PAIRS))
    return dict(store.terms_containing(connection, character, _MAX_CJK_PAIRS))


def _terms_with_typo(
    connection: Connection | None, store: RankingStore, term: str, prefixes: Iterable[str]
) -> dict[str, int]:
    """Return the terms that are one typo away and start with one of the prefixes.

    The prefixes are tried in order until one yields any terms.
    """
    if len(term) <= _MIN_TERM_CHARACTERS:
        return {}
    for prefix in dict.fromkeys(prefixes):
        near = {}
        for other, count in store.terms_with_prefix(connection, prefix, _MAX_TYPO_TERMS, len(term)):
            if terms.one_typo(term, other):
                near[other] = count
        if near:
            return near
    return {}


def _overlapping_terms(
    connection: Connection | None, store: RankingStore, term: str
) -> dict[str, int]:
    """Return the terms that contain a term, or else the longest terms contained in it."""
    if not _MIN_TERM_CHARACTERS < len(term) <= _MAX_TERM_CHARACTERS:
        return {}
    if store.size(connection) <= _MAX_SCANNED_RECORDS:
        containing = store.terms_containing(connection, term, _MAX_NEAREST_TERMS)
        if containing:
            return dict(containing)
    min_size = max(_MIN_TERM_CHARACTERS, len(term) // 2) + 1
    for size in range(len(term) - 1, min_size - 1, -1):
        parts = [term[start : start + size] for start in range(len(term) - size + 1)]
        found = store.frequencies(connection, parts)
        if found:
            return found
    return {}
