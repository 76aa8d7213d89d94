"""The words of a query: the indexed terms for each, and how much each of them tells.

A word tells the more the fewer records contain it. Everyday words tell less than their count says, names never nothing.
A word that occurs nowhere is replaced by the nearest indexed terms (a prefix, one typo, a part).
Hooks load this module.
"""

import math

from ralph.search import terms
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from sqlite3 import Connection

    from ralph.store.lookup import RankingStore

HALF = 0.5  # how much a longer word, or a replacement, counts
_TYPO_SHARE = 0.9  # of a replacement of a long word by one with a single typo
_LONG = 6
_MOST_REPLACED = 8  # a log as a query must not take for ever
_FEW_WORDS = 3  # a query of so few words also finds longer words that begin with one of them
_HEAD = 400  # characters of a text that are its beginning, up to the end of a sentence
_ERRORS, _NAMES = 3, 12  # lines with an error, and identifiers and paths, of the rest of a long text
_OPENING = " \t\r-*#>`\"'("  # what may precede the first word of a sentence or line
_FEW, _ONE_IN = 3, 50  # an identifier that so few records have, or one in so many, is distinctive
_PAIR = 0.5  # the weight of a pair of CJK characters: about half a word
_SHORTEST, _LONGEST = 3, 40  # longer terms are hashes, and trying every part of one takes for ever
_MOST = 8
_PAIRS = 50
_RANGE = 20_000
_SMALL = 10_000  # only in an index of up to so many records are terms found by their inside; that reads all of them


class WeightedWord:
    """One word of a query: its indexed terms with their counts, and how much it tells.

    `longer` are longer indexed words, `share` is how much a match counts, `replaced` says that the terms are the
    nearest ones, `identifier` is the term of a whole identifier of so many `parts`, and `distinctive` says that
    few records have that identifier.
    """

    __slots__ = ("counts", "distinctive", "identifier", "longer", "parts", "replaced", "share", "weight", "word")

    def __init__(self, word: str, counts: "Mapping[str, int]", weight: float) -> None:
        self.word = word
        self.counts = counts
        self.weight = weight
        self.longer: Mapping[str, int] = {}
        self.share = 1.0
        self.replaced = False
        self.identifier = ""
        self.parts = 0
        self.distinctive = False

    @property
    def certain(self) -> bool:
        """Whether the terms very likely are the word."""
        return self.share > HALF

    def match(self, text: terms.TermMatcher) -> float:
        """How much of this word a text contains: all, some parts of an identifier, or a longer word."""
        matches = [term for term in self.counts if text.contains(term)]
        if matches:
            complete = self.replaced or self.parts < 2 or self.identifier in matches
            return self.share if complete else self.share * min(len(matches) / self.parts, 1.0)
        return HALF if self.longer and any(map(text.contains, self.longer)) else 0.0


def weigh_words(
    connection: "Connection",
    text: str,
    *,
    everyday: float,
    named: float,
    hurried: bool = False,
    store: "RankingStore" = lookup,
) -> list[WeightedWord]:
    """Return the words of a query with their weights; one that occurs nowhere is replaced by the nearest terms."""
    words = terms.query_terms(text)
    if len(text) > _HEAD:
        words = _main_words(text, words)
    known = store.frequencies(connection, list(dict.fromkeys(term for word in words for term in word.terms)))
    count = max(store.size(connection), 2)
    weighted: list[WeightedWord] = []
    replaced = 0
    for word in words:
        if terms.is_cjk(word.text):
            weighted += [_pair(connection, store, term, count, known.get(term, 0)) for term in word.terms]
            continue
        counts = {term: known[term] for term in word.terms if term in known}
        factor = everyday if word.text.lower() in terms.EVERYDAY_WORDS else 1.0
        if counts:
            least = named if is_name(word.text, text) else 0.0
            each = WeightedWord(word.text, counts, max(least, factor * _weight(count, min(counts.values()))))
            each.identifier, each.parts = max(word.terms, key=len), len(word.terms) - 1
            each.distinctive = each.parts > 1 and 0 < counts.get(each.identifier, 0) <= max(_FEW, count // _ONE_IN)
            if len(words) <= _FEW_WORDS:
                each.longer = longer_terms(connection, next(iter(counts)), store)
        else:
            replaced += factor == 1.0
            replace = factor == 1.0 and replaced <= _MOST_REPLACED
            near = nearest_terms(connection, word, hurried=hurried, store=store) if replace else {}
            each = WeightedWord(word.text, near, factor * _weight(count, min(near.values(), default=0)))
            each.replaced = True
            typo = len(word.text) >= _LONG and any(terms.one_typo(word.terms[0], term) for term in near)
            each.share = _TYPO_SHARE if typo else HALF
        weighted.append(each)
    for each in weighted:
        if each.replaced:
            _join_compounds(each, weighted)
    return weighted


def _main_words(text: str, words: "Sequence[terms.QueryWord]") -> "list[terms.QueryWord]":
    """Return the words of a long text that say what it is about: of its beginning, of errors, and identifiers."""
    end = min((at for mark in (". ", ".\n", "\n") if (at := text.find(mark, _HEAD)) > 0), default=_HEAD)
    errors = [line[:_HEAD] for line in text[_HEAD:].split("\n") if "error" in line.lower()][:_ERRORS]
    main = {word.terms for word in terms.query_terms("\n".join([text[: min(end, 2 * _HEAD)], *errors]))}
    first = [word for word in words if word.terms in main]
    names = [word for word in words if word.terms not in main and len(word.terms) > 2][:_NAMES]
    return [*first, *names] if len(first) >= _FEW_WORDS else list(words)


def _join_compounds(inner: WeightedWord, words: "Sequence[WeightedWord]") -> None:
    """Let terms such as `econnrefus` stand for two words of the query: `refused` is in it, next to a part of another.

    That part is at least three letters with which the other word begins. Terms that confirm no other word are dropped.
    """
    joined: dict[str, int] = {}
    for term, count in inner.counts.items():
        written = inner.word.lower()
        part = written if written in term else terms.stem(written)
        before, found, after = term.partition(part)
        for other in words if found else ():
            start = other.word.lower()
            sizes = range(_SHORTEST, len(start) + 1)
            if other is not inner and any(before.endswith(start[:n]) or after.startswith(start[:n]) for n in sizes):
                joined[term] = count
                if other.replaced and not other.counts.keys() - joined.keys():
                    other.counts, other.share = {**other.counts, term: count}, _TYPO_SHARE
                else:
                    other.longer = {**other.longer, term: count}
    if joined:
        inner.counts, inner.share = joined, _TYPO_SHARE


def rarest_terms(words: "Sequence[WeightedWord]", most: int) -> list[str]:
    """The terms that choose candidates: the rarest, as long as they occur in few enough records."""
    counts = {term: count for each in words for term, count in (*each.counts.items(), *each.longer.items())}
    chosen: list[str] = []
    spent = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        spent += counts[term]
        if chosen and spent > most:
            break
        chosen.append(term)
    return chosen


def coverage(words: "Sequence[WeightedWord]", matched: "Mapping[str, float]") -> tuple[float, float]:
    """How much of the query a record contains, as a share and as evidence; one word or a replacement is no evidence."""
    total = sum(each.weight for each in words)
    present = [each for each in words if each.word in matched]
    share = sum(each.weight * matched[each.word] for each in present) / total if total else 0.0
    certain = [each.weight * matched[each.word] for each in present if each.certain]
    return share, sum(certain) if len(certain) > 1 else 0.0


def is_name(word: str, text: str) -> bool:
    """Whether a word is written as a name: with a capital letter that does not begin a sentence."""
    if not any(char.isupper() for char in word):
        return False
    if any(char.isupper() for char in word[1:]):
        return not text.isupper()
    at = max(text.find(word), 0)
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip(_OPENING)
    return bool(before) and before[-1] not in ".!?:"


def _pair(connection: "Connection", store: "RankingStore", term: str, count: int, holding: int) -> WeightedWord:
    """A pair of CJK characters, as indexed; a single one is also looked for inside of pairs."""
    if len(term) > 1 or holding:
        return WeightedWord(term, {term: holding} if holding else {}, _PAIR * _weight(count, holding))
    pairs = pairs_with(connection, term, store)
    each = WeightedWord(term, {}, _PAIR * _weight(count, min(pairs.values(), default=0)))
    each.longer = pairs
    return each


def _weight(count: int, holding: int) -> float:
    """How much a word tells: 1 if a single record contains it, towards 0 if all do."""
    return math.log(1 + count / (max(holding, 1) + 0.5)) / math.log(1 + count / 1.5)


def nearest_terms(
    connection: "Connection", word: terms.QueryWord, *, hurried: bool = False, store: "RankingStore" = lookup
) -> dict[str, int]:
    """Return indexed terms to look for instead, with their counts; when `hurried`, by the word's first letters only."""
    near: dict[str, int] = {}
    for term in word.terms:
        if len(term) < _SHORTEST or terms.is_cjk(term):
            continue
        starts = (term[:3],) if hurried else (term[:2], term[:1], term[1:2])
        similar = longer_terms(connection, term, store) or _typos(connection, store, term, starts)
        near |= similar or ({} if hurried else _containing(connection, store, term))
    return dict(sorted(near.items(), key=lambda pair: -pair[1])[:_MOST])


def longer_terms(connection: "Connection", term: str, store: "RankingStore" = lookup) -> dict[str, int]:
    """Longer indexed terms that begin with a term, the shortest first."""
    if len(term) < _SHORTEST or terms.is_cjk(term):
        return {}
    longer = [pair for pair in store.terms_starting(connection, term, 200) if pair[0] != term]
    return dict(sorted(longer, key=lambda pair: (len(pair[0]), -pair[1]))[:_MOST])


def pairs_with(connection: "Connection", character: str, store: "RankingStore" = lookup) -> dict[str, int]:
    """The indexed pairs that a CJK character is part of."""
    if store.size(connection) > _SMALL:
        return dict(store.terms_starting(connection, character, _PAIRS))
    return dict(store.terms_with(connection, character, _PAIRS))


def _containing(connection: "Connection", store: "RankingStore", term: str) -> dict[str, int]:
    """Terms that contain the word, else the longest that are part of it."""
    if not _SHORTEST < len(term) <= _LONGEST:
        return {}
    matches = dict(store.terms_with(connection, term, _MOST)) if store.size(connection) <= _SMALL else {}
    size = len(term) - 1
    while not matches and size > max(_SHORTEST, len(term) // 2):
        matches = store.frequencies(connection, [term[at : at + size] for at in range(len(term) - size + 1)])
        size -= 1
    return matches


def _typos(connection: "Connection", store: "RankingStore", term: str, starts: tuple[str, ...]) -> dict[str, int]:
    """Terms one typo away that begin in one of these ways: those of the first way that has any."""
    if len(term) <= _SHORTEST:
        return {}
    for start in dict.fromkeys(starts):
        near = {
            other: count
            for other, count in store.terms_starting(connection, start, _RANGE, len(term))
            if terms.one_typo(term, other)
        }
        if near:
            return near
    return {}
