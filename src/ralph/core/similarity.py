"""Decide whether two texts say the same thing in different words, without a model.

Texts are compared by weighted terms: names and paths weigh the most, everyday words hardly
anything. Two texts that are nearly identical can still contradict each other, if they differ in a
negation, a number, a subject, or the order around a word such as "before".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from ralph.core.terms import (
    EVERYDAY_WORDS,
    STOP_WORDS,
    is_cjk,
    split_words,
    stem,
    unaccented,
    word_terms,
)

# Term weights.
_NAME_WEIGHT = 2.5
_WORD_WEIGHT = 1.0
_COMMON_WEIGHT = 0.35
_CJK_PAIR_WEIGHT = 0.6

# The fraction of a text's weight that both texts must have in common.
_MIN_SHARE_OF_LIGHTER = 0.45
_MIN_SHARE_WITHOUT_NAME = 0.8
"""Used instead of the other two if the texts share no name, or only one word."""
_MIN_SHARE_OF_HEAVIER = 0.25

_MIN_SHARED_WEIGHT = 3.0
_MIN_SHARED_WORDS = 2
_MIN_RELATED_SHARE = 0.3
"""The fraction of the lighter text in common from which on two texts are related."""
_CJK_PAIRS_PER_WORD = 2
_MIN_SHARE_OF_WORDS = 0.55
"""The fraction of all words that two versions of a sentence have in common."""
_CJK_ROOT_LENGTH = 2
_MIN_SUBJECT_LENGTH = 8
_CACHED_TEXTS = 1024
_CACHED_WORDS = 65_536  # about 10 MB

_COMMON_WORDS = EVERYDAY_WORDS | frozenset(
    {
        "fail",
        "failed",
        "fails",
        "failing",
        "passed",
        "pass",
        "passes",
        "changed",
        "changes",
        "error",
        "errors",
        "test",
        "tests",
        "testing",
        "run",
        "runs",
        "running",
        "file",
        "files",
        "code",
        "needs",
        "works",
        "added",
        "fix",
        "fixed",
        "set",
        "build",
        "check",
        "step",
        "gotcha",
        "decision",
        "convention",
        "learned",
        "pattern",
        "tip",
        "note",
        "npm",
        "python",
        "git",
        "command",
        "commands",
        "value",
        "values",
        "called",
        "calls",
        "function",
        "class",
        "method",
        "it's",
        "don't",
        "src",
        "lib",
        "app",
        "index",
    }
)
_NEGATIONS = frozenset(
    {
        "not",
        "no",
        "never",
        "none",
        "nor",
        "cannot",
        "don't",
        "doesn't",
        "didn't",
        "won't",
        "can't",
        "mustn't",
        "shouldn't",
        "isn't",
        "aren't",
        "without",
        "nicht",
        "nie",
        "niemals",
        "kein",
        "keine",
        "keinen",
        "ohne",
        "pas",
        "jamais",
        "sans",
        "ne",
        "nunca",
        "nao",
        "sem",
        "sin",
        "dont",
        "doesnt",
    }
)
_AFFIRMATIONS = frozenset(
    {
        "always",
        "do",
        "does",
        "did",
        "with",
    }
)
"""Words that a negation replaces."""
_LABELS = frozenset(
    {
        "gotcha",
        "tip",
        "note",
        "convention",
        "decision",
        "pattern",
        "learning",
        "learned",
        "rule",
    }
)
_ORDER_WORDS = frozenset(
    {
        "before",
        "after",
        "then",
        "than",
        "instead",
        "first",
        "last",
        "over",
        "until",
        "vor",
        "nach",
        "erst",
        "statt",
        "avant",
        "apres",
        "puis",
        "antes",
        "depois",
        "despues",
        "luego",
        "from",
        "to",
        "into",
    }
)
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")


# --- similarity -----------------------------------------------------------------------------------


@lru_cache(_CACHED_TEXTS)
def term_weights(text: str) -> Mapping[str, float]:
    """Map each term in `text` to its weight."""
    weights: dict[str, float] = {}
    for word in split_words(unaccented(text)):
        lowered = word.lower()
        if lowered in STOP_WORDS or (len(lowered) < 2 and not lowered.isdigit()):
            continue
        word_weight = _word_weight(word, lowered)
        terms = word_terms(word)
        longest = max(terms, key=len, default="")
        for term in terms:
            weight = _term_weight(term, word_weight, is_longest=term == longest)
            weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def _word_weight(word: str, lowered: str) -> float:
    if is_cjk(word):
        return _CJK_PAIR_WEIGHT
    if lowered in _COMMON_WORDS:
        return _COMMON_WEIGHT
    if word.isdigit():
        return _WORD_WEIGHT
    if word.isalpha() and (len(word) == 1 or word[1:].islower()):
        return _WORD_WEIGHT
    return _NAME_WEIGHT


def _term_weight(term: str, word_weight: float, *, is_longest: bool) -> float:
    """Return the weight of one of a word's terms.

    A path or identifier as a whole counts as a name, and each of its parts as a word.
    """
    if word_weight == _CJK_PAIR_WEIGHT and term.isascii() and len(term) > 1:
        # A name followed by a particle, such as `sRGB로`.
        if is_longest and term not in EVERYDAY_WORDS:
            return _NAME_WEIGHT
        return _WORD_WEIGHT
    if word_weight == _NAME_WEIGHT and not is_longest:
        if term in _COMMON_WORDS:
            return _COMMON_WEIGHT
        return _WORD_WEIGHT
    return word_weight


def similarity(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how similar two texts are, given their term weights.

    It is the share of the shorter text that both have in common, or 0 if that is too little for the
    texts to have the same meaning.
    """
    if not one or not other:
        return 0.0
    shared = _shared_terms(one, other)
    shared_weight = sum(shared.values())
    lighter, heavier = sorted((sum(one.values()), sum(other.values())))
    if shared_weight < min(_MIN_SHARED_WEIGHT, lighter):
        return 0.0
    min_share_of_lighter = _MIN_SHARE_WITHOUT_NAME
    if _has_name(shared):
        min_share_of_lighter = _MIN_SHARE_OF_LIGHTER
    if shared_weight / lighter < min_share_of_lighter:
        return 0.0
    min_share_of_heavier = _MIN_SHARE_OF_HEAVIER
    if _count_words(shared) < _MIN_SHARED_WORDS:
        min_share_of_heavier = _MIN_SHARE_WITHOUT_NAME
    if shared_weight / heavier < min_share_of_heavier:
        return 0.0
    return shared_weight / lighter


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the weight that two texts share, as a part of the weight of the heavier one."""
    heavier = max(sum(one.values()), sum(other.values()))
    if not heavier:
        return 0.0
    return sum(_shared_terms(one, other).values()) / heavier


def relatedness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how closely two texts are related, given their term weights.

    Texts can be related without having the same meaning. The result is the share of the shorter
    text that both have in common, or 0 if they hardly have a subject in common.
    """
    if not one or not other:
        return 0.0
    shared = _shared_terms(one, other)
    share = sum(shared.values()) / min(sum(one.values()), sum(other.values()))
    has_subject = _has_name(shared) or _count_words(shared) >= _MIN_SHARED_WORDS
    if share < _MIN_RELATED_SHARE or not has_subject:
        return 0.0
    return share


def _shared_terms(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {term: min(weight, other[term]) for term, weight in one.items() if term in other}


def _has_name(shared: Mapping[str, float]) -> bool:
    weights = list(shared.values())
    return _NAME_WEIGHT in weights or weights.count(_CJK_PAIR_WEIGHT) > len(weights) / 2


def _count_words(shared: Mapping[str, float]) -> float:
    """Count the words among the shared terms.

    A part of an identifier does not count, and a pair of CJK characters counts as half a word.
    """
    terms = [term for term, weight in shared.items() if weight > _COMMON_WEIGHT]
    count = 0.0
    for term in terms:
        is_part = any(term != longer and term in longer for longer in terms)
        if is_part:
            continue
        if shared[term] == _CJK_PAIR_WEIGHT:
            count += 1 / _CJK_PAIRS_PER_WORD
        else:
            count += 1
    return count


class TextMatcher:
    """A numbered collection of texts, which finds the one that is most similar to another text."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._numbers_by_term: dict[str, list[int]] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> int:
        """Add a text, and return its number."""
        number = len(self._texts)
        self._texts.append(text)
        for term, weight in term_weights(text).items():
            if weight > _COMMON_WEIGHT:
                self._numbers_by_term.setdefault(term, []).append(number)
        return number

    def nearest(
        self, text: str, *, min_overlap: float = 0.0, ignored: Collection[int] = ()
    ) -> int | None:
        """Return the number of the most similar text, or None if none has the same meaning.

        With `min_overlap`, the texts must also share that part of the weight of the longer one. A
        short text that a long one merely mentions is then not similar. The texts whose numbers are
        `ignored` are not compared.
        """
        weights = term_weights(text)
        best_score = 0.0
        nearest = None
        for number in self._find_candidates(weights):
            if number in ignored:
                continue
            candidate = self._texts[number]
            candidate_weights = term_weights(candidate)
            if min_overlap and overlap(weights, candidate_weights) < min_overlap:
                continue
            score = similarity(weights, candidate_weights)
            if score > best_score and not contradict(text, candidate):
                best_score = score
                nearest = number
        return nearest

    def most_related(self, text: str) -> int | None:
        """Return the number of the most closely related text, or None if none is related."""
        weights = term_weights(text)
        best_score = 0.0
        related = None
        for number in self._find_candidates(weights):
            score = relatedness(weights, term_weights(self._texts[number]))
            if score > best_score:
                best_score = score
                related = number
        return related

    def _find_candidates(self, weights: Mapping[str, float]) -> list[int]:
        numbers: set[int] = set()
        for term, weight in weights.items():
            if weight > _COMMON_WEIGHT:
                numbers.update(self._numbers_by_term.get(term, ()))
        return sorted(numbers)


# --- contradictions -------------------------------------------------------------------------------


def contradict(one: str, other: str) -> bool:
    """Return whether two texts are nearly identical but contradict each other."""
    words = _key_words(one)
    other_words = _key_words(other)
    word_set = set(words)
    other_set = set(other_words)
    shared = word_set & other_set
    if words == other_words or len(shared) < _MIN_SHARE_OF_WORDS * len(word_set | other_set):
        return False
    if word_set == other_set:
        return not word_set.isdisjoint(_ORDER_WORDS)
    if _in_order(words, shared) != _in_order(other_words, shared):
        return False
    if word_set - other_set - _ORDER_WORDS and other_set - word_set - _ORDER_WORDS:
        return True
    return any(word in _NEGATIONS or word[:1].isdigit() for word in word_set ^ other_set)


def _in_order(words: Iterable[str], chosen: set[str]) -> list[str]:
    return [word for word in words if word in chosen]


def split_statement(text: str) -> tuple[tuple[str, ...], tuple[bool, tuple[str, ...]]]:
    """Split a text into its subject and its claim about the subject.

    The subject consists of all words except numbers and negations. It is () if there are too few
    words. The claim consists of whether the text contains a negation, and of its numbers. Two texts
    with the same subject and different claims contradict each other.
    """
    words = [word.lower().replace("’", "'") for word in split_words(unaccented(text))]
    subject = []
    numbers: list[str] = []
    is_negated = False
    for word in words:
        if not word.isalpha():
            numbers += _NUMBER.findall(word)
        if word in _NEGATIONS:
            is_negated = True
        elif word not in _AFFIRMATIONS:
            subject.append(_subject_word(word))
    if len(subject) < 2 or sum(map(len, subject)) < _MIN_SUBJECT_LENGTH:
        subject = []
    return tuple(subject), (is_negated, tuple(numbers))


@lru_cache(_CACHED_WORDS)
def _subject_word(word: str) -> str:
    return _NUMBER.sub("#", stem(word))


@lru_cache(_CACHED_TEXTS)
def _key_words(text: str) -> tuple[str, ...]:
    """Return the stems of the words that can change the meaning of a text."""
    words = []
    for word in split_words(unaccented(text)):
        lowered = word.lower().strip("'’").removesuffix("'s").removesuffix("’s")
        if lowered in _NEGATIONS or lowered in _ORDER_WORDS or lowered.isdigit():
            words.append(lowered)
        elif is_cjk(lowered):
            # Drop the particle at the end. A short word is nothing but an ending.
            if len(lowered) > _CJK_ROOT_LENGTH:
                words.append(lowered[:_CJK_ROOT_LENGTH])
        elif lowered not in STOP_WORDS and lowered not in _LABELS and len(lowered) > 1:
            words.append(stem(lowered))
    return tuple(words)
