"""The question: its words, the indexed terms that stand for each, and how telling each of them is.

A word tells the more the fewer records hold it. Words that people put around what they mean (`everyday`) tell
less than their count says, names (a capital letter inside a sentence, `JWT`, `camelCase`) never nothing. A word
that occurs nowhere is replaced by the nearest indexed terms; it is then half a word, unless it is a long one
that differs by a single letter. Hooks load this module: it imports little.
"""

import math

from ralph.search import fuzzy, terms
from ralph.search.everyday import WORDS as EVERYDAY
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

HALF = 0.5
"""How much a longer word, or one that stands in for a word that occurs nowhere, counts as an answer."""
_SLIP = 0.9
"""... and how much when it is a long word that differs by one letter."""
_LONG = 6
_MOST_REPLACED = 8
"""Looking for the nearest terms takes time: somebody's whole log as a question must not take for ever."""
_FEW_WORDS = 3
"""A question of so few words also finds longer words that begin with one of them."""
_OPENING = " \t\r-*#>`\"'("
"""What may stand between the beginning of a sentence, or of a line, and its first word."""
_FEW, _ONE_IN = 3, 50
"""An identifier that so few records have, or one in so many, says what is meant."""
_PAIR = 0.5
"""A pair of Chinese, Japanese or Korean characters is about half a word."""


class Asked:
    """One word of the question: the terms that stand for it with their counts, and how telling it is."""

    __slots__ = ("counts", "longer", "parts", "replaced", "share", "singular", "weight", "whole", "word")

    def __init__(self, word: str, counts: "Mapping[str, int]", weight: float) -> None:
        self.word = word
        self.counts = counts
        self.weight = weight
        self.longer: Mapping[str, int] = {}
        self.share = 1.0
        self.replaced = False
        self.whole = ""
        self.parts = 0
        self.singular = False

    @property
    def sure(self) -> bool:
        """Whether what stands for the word is very likely that word."""
        return self.share > HALF

    def held(self, text: terms.Text) -> float:
        """How much of this word a text holds: all of it, of an identifier some parts, or a longer word."""
        here = [term for term in self.counts if text.holds(term)]
        if here:
            whole = self.replaced or self.parts < 2 or self.whole in here
            return self.share if whole else self.share * min(len(here) / self.parts, 1.0)
        return HALF if self.longer and any(map(text.holds, self.longer)) else 0.0


def asked(
    connection: "sqlite3.Connection", text: str, *, everyday: float, named: float, hurried: bool = False
) -> list[Asked]:
    """The words of a question with their weights; one that occurs nowhere is replaced by the nearest terms."""
    words = terms.query_terms(text)
    known = lookup.frequencies(connection, list(dict.fromkeys(term for word in words for term in word.terms)))
    count = max(lookup.size(connection), 2)
    found: list[Asked] = []
    replaced = 0
    for word in words:
        if terms.is_cjk(word.text):
            found += [_pair(connection, term, count, known.get(term, 0)) for term in word.terms]
            continue
        there = {term: known[term] for term in word.terms if term in known}
        telling = everyday if word.text.lower() in EVERYDAY else 1.0
        if there:
            least = named if is_name(word.text, text) else 0.0
            each = Asked(word.text, there, max(least, telling * _weight(count, min(there.values()))))
            each.whole, each.parts = _parted(word)
            each.singular = each.parts > 1 and 0 < there.get(each.whole, 0) <= max(_FEW, count // _ONE_IN)
            if len(words) <= _FEW_WORDS:
                each.longer = fuzzy.beginning_with(connection, next(iter(there)))
        else:
            replaced += telling == 1.0
            looked = telling == 1.0 and replaced <= _MOST_REPLACED
            near = fuzzy.nearest(connection, word, hurried=hurried) if looked else {}
            each = Asked(word.text, near, telling * _weight(count, min(near.values(), default=0)))
            each.replaced = True
            each.share = _SLIP if _is_slip(word, near) else HALF
        found.append(each)
    return found


def rarest(words: "Sequence[Asked]", most: int) -> list[str]:
    """The terms that choose candidates: the rarest ones, as long as they hold few enough records."""
    counts = {term: count for each in words for term, count in (*each.counts.items(), *each.longer.items())}
    chosen: list[str] = []
    spent = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        spent += counts[term]
        if chosen and spent > most:
            break
        chosen.append(term)
    return chosen


def holds(words: "Sequence[Asked]", matched: "Mapping[str, float]") -> tuple[float, float]:
    """How much of the question a record holds, weighted by how telling its words are: as a share, and in all.

    One word alone, or one that was only found by its nearest terms, is no evidence.
    """
    whole = sum(each.weight for each in words)
    held = [each for each in words if each.word in matched]
    share = sum(each.weight * matched[each.word] for each in held) / whole if whole else 0.0
    sure = [each.weight * matched[each.word] for each in held if each.sure]
    return share, sum(sure) if len(sure) > 1 else 0.0


def is_name(word: str, text: str) -> bool:
    """Whether a word is written as a name: with a capital letter that no beginning of a sentence explains."""
    if not any(char.isupper() for char in word):
        return False
    if any(char.isupper() for char in word[1:]):
        return not text.isupper()
    at = max(text.find(word), 0)
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip(_OPENING)
    return bool(before) and before[-1] not in ".!?:"


def _parted(word: terms.Word) -> tuple[str, int]:
    """The term of a whole identifier, and how many parts it has."""
    whole = max(word.terms, key=len)
    return whole, len(word.terms) - 1


def _is_slip(word: terms.Word, near: "Mapping[str, int]") -> bool:
    return len(word.text) >= _LONG and any(terms.one_typo(word.terms[0], term) for term in near)


def _pair(connection: "sqlite3.Connection", term: str, count: int, holding: int) -> Asked:
    """Two characters, as the index has them; a character of its own is also looked for inside of pairs."""
    if len(term) > 1 or holding:
        return Asked(term, {term: holding} if holding else {}, _PAIR * _weight(count, holding))
    around = fuzzy.around(connection, term)
    each = Asked(term, {}, _PAIR * _weight(count, min(around.values(), default=0)))
    each.longer = around
    return each


def _weight(count: int, holding: int) -> float:
    """How telling a word is: 1 for one that a single record holds, towards 0 for one that all hold."""
    return math.log(1 + count / (max(holding, 1) + 0.5)) / math.log(1 + count / 1.5)
