"""Porter's stemming algorithm for English (1980), so that a word's forms share one search term.

Done here and not by SQLite, so that the index's vocabulary holds the very terms that a query
asks for: document frequencies and the nearest terms are then plain look-ups. The five steps are
those of the paper; `tests/search/test_stem.py` compares every word of a long list with the
stemmer that is built into SQLite's FTS5.
"""

from functools import lru_cache
from itertools import pairwise

_STEP2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"),
    ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip
_LONGEST = 64


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lowercase word; anything but a plain English word is left as it is."""
    if len(word) < 3 or len(word) > _LONGEST or not word.isascii() or not word.isalpha():
        return word
    word = _plurals(word)
    word = _endings(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _swap(word, _STEP2)
    word = _swap(word, _STEP3)
    word = _cut(word)
    return _tidy(word)


def _vowels(word: str) -> list[bool]:
    """For each letter whether it is a vowel; y is one after a consonant."""
    found: list[bool] = []
    for letter in word:
        found.append(letter in "aeiou" or (letter == "y" and bool(found) and not found[-1]))
    return found


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    marks = _vowels(word)
    return sum(1 for before, after in pairwise(marks) if before and not after)


def _has_vowel(word: str) -> bool:
    return any(_vowels(word))


def _short(word: str) -> bool:
    """Ends in consonant, vowel, consonant, the last not w, x or y."""
    marks = _vowels(word)[-3:]
    return marks == [False, True, False] and word[-1] not in "wxy"


def _plurals(word: str) -> str:
    if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _endings(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: -len(ending)]
        if word.endswith(ending):
            if not _has_vowel(base):
                return word
            if base.endswith(("at", "bl", "iz")):
                return base + "e"
            if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "aeioulsz":
                return base[:-1]
            return base + "e" if _measure(base) == 1 and _short(base) else base
    return word


def _swap(word: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for ending, instead in sorted(pairs, key=lambda pair: -len(pair[0])):
        if word.endswith(ending):
            base = word[: -len(ending)]
            return base + instead if _measure(base) > 0 else word
    return word


def _cut(word: str) -> str:
    for ending in sorted(_STEP4, key=len, reverse=True):
        if word.endswith(ending):
            base = word[: -len(ending)]
            if _measure(base) > 1 and (ending != "ion" or base.endswith(("s", "t"))):
                return base
            return word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        if _measure(base) > 1 or (_measure(base) == 1 and not _short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
