"""Decide whether two texts say the same in other words: by the weights of their terms, without a model.

A name, a path or a number has the most weight, an everyday word hardly any. Texts that are nearly one sentence differ
by a negation, a number, a subject or the order around a word such as "before".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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

_NAME = 2.5
_WORD = 1.0
_COMMON = 0.35
_PAIR = 0.6
_SHARED = 0.45
_SHARED_WITHOUT_NAME = 0.8
"""How much of the lighter text's weight must be shared; more where no name is among it."""
_SHARE_OF_HEAVIER = 0.25
_MIN_WEIGHT = 3.0
_MIN_WORDS = 2
_ONE_SENTENCE = 0.55  # the part of all their words that two texts share which are one sentence with something changed
_CJK_ROOT = 2
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
)  # what a negation takes the place of
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")
_MIN_SUBJECT = 8
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
_ORDER = frozenset(
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


@lru_cache(1024)
def term_weights(text: str) -> Mapping[str, float]:
    """Return the terms of a text and the weight of each."""
    weights: dict[str, float] = {}
    for word in split_words(unaccented(text)):
        low = word.lower()
        weight = _NAME
        if low in STOP_WORDS or (len(low) < 2 and not low.isdigit()):
            continue
        if is_cjk(word):
            weight = _PAIR
        elif low in _COMMON_WORDS:
            weight = _COMMON
        elif word.isdigit() or (word.isalpha() and (len(word) == 1 or word[1:].islower())):
            weight = _WORD
        terms = word_terms(word)
        longest = max(terms, key=len, default="")
        for (
            term
        ) in terms:  # of a path or an identifier the whole is its name, and the parts are words
            part = weight
            if (
                weight == _PAIR and term.isascii() and len(term) > 1
            ):  # a name in front of a particle: `sRGB로`
                part = _NAME if term == longest and term not in EVERYDAY_WORDS else _WORD
            elif weight == _NAME and term != longest:
                part = _COMMON if term in _COMMON_WORDS else _WORD
            weights[term] = max(weights.get(term, 0.0), part)
    return weights


def similarity(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how similar two texts are; 0 when they do not say the same."""
    if not one or not other:
        return 0.0
    common = {term: min(weight, other[term]) for term, weight in one.items() if term in other}
    shared = sum(common.values())
    light, heavy = sorted((sum(one.values()), sum(other.values())))
    pairs = sum(weight == _PAIR for weight in common.values())
    has_name = _NAME in common.values() or pairs > len(common) / 2
    if shared < min(_MIN_WEIGHT, light) or shared / light < (
        _SHARED if has_name else _SHARED_WITHOUT_NAME
    ):
        return 0.0
    # Parts of an identifier are no words of their own, and pairs of CJK characters count half.
    terms = [term for term, weight in common.items() if weight > _COMMON]
    words = [
        term for term in terms if not any(term != longer and term in longer for longer in terms)
    ]
    is_one_name = sum(0.5 if common[term] == _PAIR else 1.0 for term in words) < _MIN_WORDS
    if shared / heavy < (_SHARED_WITHOUT_NAME if is_one_name else _SHARE_OF_HEAVIER):
        return 0.0
    return shared / light


def differ(one: str, other: str) -> bool:
    """Whether two texts are nearly one sentence and yet say two things."""
    first = _key_words(one)
    second = _key_words(other)
    left = set(first)
    right = set(second)
    shared = left & right
    if first == second or len(shared) < _ONE_SENTENCE * len(left | right):
        return False
    if left == right:
        return bool(left & _ORDER)
    if [word for word in first if word in shared] != [word for word in second if word in shared]:
        return False
    if left - right - _ORDER and right - left - _ORDER:
        return True
    return any(word in _NEGATIONS or word[:1].isdigit() for word in left ^ right)


def statement(text: str) -> tuple[tuple[str, ...], tuple[bool, tuple[str, ...]]]:
    """Return what a text is about and what it says of it: two of one subject that say different things contradict.

    The subject is every word but numbers and negations, () of a text with few words.
    """
    words = [word.lower().replace("’", "'") for word in split_words(unaccented(text))]
    subject = tuple(
        _NUMBER.sub("#", stem(word)) for word in words if word not in _NEGATIONS | _AFFIRMATIONS
    )
    numbers = tuple(number for word in words for number in _NUMBER.findall(word))
    has_subject = len(subject) > 1 and len("".join(subject)) >= _MIN_SUBJECT
    return subject if has_subject else (), (any(word in _NEGATIONS for word in words), numbers)


def _key_words(text: str) -> list[str]:
    words = []
    for word in split_words(unaccented(text)):
        low = word.lower().strip("'’")
        if low in _NEGATIONS or low in _ORDER or low.isdigit():
            words.append(low)
        elif is_cjk(low):  # without the particle at its end; what is short is an ending
            words.extend([low[:_CJK_ROOT]] if len(low) > _CJK_ROOT else [])
        elif low not in STOP_WORDS and low not in _LABELS and len(low) > 1:
            words.append(stem(low))
    return words


class TextMatcher:
    """Numbered texts, to find the one that says the same as another."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._by_term: dict[str, list[int]] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> int:
        """Add a text, and return its number."""
        number = len(self._texts)
        self._texts.append(text)
        for term, weight in term_weights(text).items():
            if weight > _COMMON:
                self._by_term.setdefault(term, []).append(number)
        return number

    def nearest(self, text: str) -> int | None:
        """Return the number of the most similar text, if one says the same."""
        weights = term_weights(text)
        near = (self._by_term.get(term, ()) for term, weight in weights.items() if weight > _COMMON)
        best = 0.0
        nearest = None
        for number in sorted({number for numbers in near for number in numbers}):
            score = similarity(weights, term_weights(self._texts[number]))
            if score > best and not differ(text, self._texts[number]):
                best = score
                nearest = number
        return nearest
