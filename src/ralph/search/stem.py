"""Porter's stemming algorithm for English (1980), so that a word's forms share one search term.

Done here and not by SQLite, so that the index's vocabulary holds the very terms that a query
asks for: document frequencies and the nearest terms are then plain look-ups. The five steps are
those of the paper; `tests/search/test_stem.py` compares every word of a long list with the
stemmer that is built into SQLite's FTS5.
"""

_STEP2 = (
    ("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"), ("ation", "ate"), ("alism", "al"),
    ("aliti", "al"), ("iviti", "ive"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("alli", "al"), ("ator", "ate"), ("bli", "ble"), ("eli", "e"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip
_STEP4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
    "al", "er", "ic", "ou",
)  # fmt: skip
"""Endings, the longest first."""
_REMEMBERED = 65_536
_known: dict[str, str] = {}
_LONGEST = 64


def stem(word: str) -> str:
    """The stem of a lowercase word; anything but a plain English word is left as it is."""
    found = _known.get(word)
    if found is None:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        found = _known[word] = _stem(word)
    return found


def _stem(word: str) -> str:
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
    return sum(1 for before, after in zip(marks, marks[1:]) if before and not after)  # noqa: B905, RUF007 - hooks: no itertools


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
    for ending, instead in pairs:
        if word.endswith(ending):
            base = word[: -len(ending)]
            return base + instead if _measure(base) > 0 else word
    return word


def _cut(word: str) -> str:
    for ending in _STEP4:
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
