"""The words of a query: the indexed terms for each, and how much each of them tells.

A word tells the more the fewer records contain it. Everyday words tell less than their count says, names never nothing.
A word that occurs nowhere is replaced by the nearest indexed terms (a prefix, one typo, a part).
Hooks load this module.
"""

from __future__ import annotations

import math
from itertools import islice

from ralph.lean import TYPE_CHECKING
from ralph.search import terms
from ralph.store import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from sqlite3 import Connection

    from ralph.store.lookup import RankingStore

PRINTED = -1  # the paragraph of a long text that a tool printed
GAP = "[…]"  # in the place of text that is left out
HALF = 0.5  # how much a longer word, or a replacement, counts
_TYPO_SHARE = 0.9  # of a replacement of a long word by one with a single typo
_LONG = 6
_MOST_REPLACED = 8  # a log as a query must not take for ever
_FEW_WORDS = 3  # a query of so few words also finds longer words that begin with one of them
_HEAD = 400  # characters of a text that are its beginning, up to the end of a sentence
# lines with an error, characters of each, and identifiers, of the rest
_ERRORS = 3
_LINE = 160
_NAMES = 8
_EXIT = "exit code"  # in lines that name no error, only its number
_MOST_OF_LONG = 16  # words of a paragraph of a long text that are looked for
_PLAIN = 0.7  # part of a sentence that are plain words
_BLOCK = 3  # lines that may be what a tool printed
# of a query that a record must contain as evidence, and how much is enough for a long one
_PART = 0.3
_ENOUGH = 3.0
_COUNTED = 500  # records with a term that a hook counts; of commoner ones the number is estimated
_OPENING = " \t\r-*#>`\"'("  # what may precede the first word of a sentence or line
# an identifier that so few records have, or one in so many, is distinctive
_FEW = 3
_ONE_IN = 50
_PAIR = 0.5  # the weight of a pair of CJK characters: about half a word
# longer terms are hashes, and trying every part of one takes for ever
_SHORTEST = 3
_LONGEST = 40
_MOST = 8
_PAIRS = 50
_RANGE = 20_000
_SMALL = 10_000  # only in an index of up to so many records are terms found by their inside; that reads all of them


class WeightedWord:
    """One word of a query: its indexed terms with their counts, and how much it tells.

    `longer` are longer indexed words, `share` is how much a match counts, `replaced` says that the terms are the
    nearest ones, `identifier` is the term of a whole identifier of so many `parts`, and `distinctive` says that
    few records have that identifier. `named` says that it is written as a name that few
    records have, `paragraph` is its number among the paragraphs of a long text.
    """

    __slots__ = (
        "counts", "distinctive", "identifier", "longer", "named", "paragraph", "parts", "replaced", "share", "weight",
        "word",
    )  # fmt: skip

    def __init__(self, word: str, counts: Mapping[str, int], weight: float) -> None:
        self.word = word
        self.counts = counts
        self.weight = weight
        self.longer: Mapping[str, int] = {}
        self.share = 1.0
        self.replaced = False
        self.identifier = ""
        self.parts = 0
        self.distinctive = self.named = False
        self.paragraph = 0

    @property
    def certain(self) -> bool:
        """Whether the terms very likely are the word."""
        return self.share > HALF

    @property
    def whole_terms(self) -> Iterable[str]:
        """Its terms, but none of the parts of an identifier."""
        return (self.identifier,) if self.parts > 1 else self.counts

    def match(self, text: terms.TermMatcher) -> float:
        """How much of this word a text contains: all, some parts of an identifier, or a longer word."""
        matches = [term for term in self.counts if text.contains(term)]
        if matches:
            complete = self.replaced or self.parts < 2 or self.identifier in matches
            return self.share if complete else self.share * min(len(matches) / self.parts, 1.0)
        return HALF if self.longer and any(map(text.contains, self.longer)) else 0.0


def weigh_words(
    connection: Connection | None,
    text: str,
    *,
    everyday: float,
    named: float,
    hurried: bool = False,
    store: RankingStore = lookup,
) -> list[WeightedWord]:
    """Return the words of a query with their weights; one that occurs nowhere is replaced by the nearest terms."""
    paragraphs = {0: terms.query_terms(text)} if len(text) <= _HEAD else split_paragraphs(text)
    words = [word for paragraph in paragraphs.values() for word in paragraph]
    distinct = list(dict.fromkeys(term for word in words for term in word.terms))
    known = store.frequencies(connection, distinct, _COUNTED if hurried else lookup.COUNTED)
    count = max(store.size(connection), 2)
    most = max(_FEW, count // _ONE_IN)
    weighted: list[WeightedWord] = []
    # in a long text, an unknown word is rarely a typo
    replaced = 0
    hurried = hurried or len(text) > _HEAD
    for number, word in (
        (number, word) for number, paragraph in paragraphs.items() for word in paragraph
    ):
        if terms.is_cjk(word.text):
            pairs = [
                _pair(connection, store, term, count, known.get(term, 0)) for term in word.terms
            ]
            for each in pairs:
                each.paragraph = number
            weighted += pairs
            continue
        counts = {term: known[term] for term in word.terms if term in known}
        factor = everyday if word.text.lower() in terms.EVERYDAY_WORDS else 1.0
        if counts:
            weight = factor * _weight(count, min(counts.values()))
            each = WeightedWord(
                word.text, counts, max(weight, named) if is_name(word.text, text) else weight
            )
            each.identifier = max(word.terms, key=len)
            each.parts = len(word.terms) - 1
            few = number != PRINTED and 0 < counts.get(each.identifier, 0) <= most
            each.named = few and is_name(word.text, text)
            each.distinctive = (
                few and each.parts > 1 and sum(map(str.isalpha, word.text)) >= _SHORTEST
            )
            if len(words) <= _FEW_WORDS:
                each.longer = longer_terms(connection, next(iter(counts)), store)
        else:
            replaced += factor == 1.0
            replace = factor == 1.0 and replaced <= _MOST_REPLACED
            near = nearest_terms(connection, word, hurried=hurried, store=store) if replace else {}
            each = WeightedWord(
                word.text, near, factor * _weight(count, min(near.values(), default=0))
            )
            each.replaced = True
            typo = len(word.text) >= _LONG and any(
                terms.one_typo(word.terms[0], term) for term in near
            )
            each.share = _TYPO_SHARE if typo else HALF
            each.named = 0 < min(near.values(), default=0) <= most and is_name(word.text, text)
        each.paragraph = number
        weighted.append(each)
    if len(text) > _HEAD:
        telling = [
            each
            for paragraph in split_words(weighted)
            for each in sorted(paragraph, key=lambda each: -each.weight if each.counts else 0.0)[
                :_MOST_OF_LONG
            ]
        ]
        weighted = [each for each in weighted if each in telling]
    for each in weighted:
        if each.replaced:
            _join_compounds(each, weighted)
    return weighted


def split_words(words: Sequence[WeightedWord]) -> list[list[WeightedWord]]:
    """Return the words of each paragraph of a query; a short one is a single paragraph."""
    paragraphs: dict[int, list[WeightedWord]] = {}
    if words and words[0].paragraph == words[-1].paragraph:
        return [list(words)]  # paragraphs are in order
    for each in words:
        paragraphs.setdefault(each.paragraph, []).append(each)
    return list(paragraphs.values())


def split_paragraphs(text: str) -> dict[int, list[terms.QueryWord]]:
    """Return the telling words of the paragraphs of a long text that may say what it asks: the first and the last.

    Of what a tool printed, the last line with an error is one more. Where nobody wrote anything, identifiers count too.
    """
    if len(text) > terms.LONGEST_QUERY:
        text = f"{text[: terms.LONGEST_QUERY - _HEAD]}\n\n{text[-_HEAD:].partition(chr(10))[2]}"
    blocks = text.split("```")
    written: list[str] = []
    printed = [line for block in blocks[1::2] for line in block.split("\n")]
    for paragraph in (part.strip("\n") for block in blocks[::2] for part in block.split("\n\n")):
        lines = paragraph.split("\n")
        if len(lines) < _BLOCK or all(map(_is_sentence, lines)):
            written += [paragraph] if len(paragraph) <= 2 * _HEAD else lines
        else:
            printed += lines
    first = _first_question(written)
    last = _first_question(reversed(written))
    lines = [
        line
        for line in dict.fromkeys(printed)
        if "error" in line.lower() and _EXIT not in line.lower()
    ]
    errors = [line[:_LINE] for line in lines[-_ERRORS:]]
    if first:
        error = _telling_words(errors[-1]) if errors else []
        asked = {0: first} if first[0].terms == last[0].terms else {0: first, 1: last}
        return {**asked, PRINTED: error} if len(error) >= _FEW_WORDS else asked
    names = islice(
        filter(_is_identifier, dict.fromkeys(" ".join([*errors, *printed]).split())), _NAMES
    )
    rest = "\n".join([*written, *printed[:1], *names, *errors])
    return {0: _telling_words(rest) or terms.query_terms(text)}


def _first_question(paragraphs: Iterable[str]) -> list[terms.QueryWord]:
    """Return the telling words of the first paragraph that has two of them, or one of several terms."""
    for paragraph in paragraphs:
        words = _telling_words(paragraph if len(paragraph) <= 2 * _HEAD else paragraph[:_HEAD])
        if sum(len(word.terms) for word in words) > 1:
            return words
    return []


def _telling_words(text: str) -> list[terms.QueryWord]:
    return [
        word for word in terms.query_terms(text) if word.text.lower() not in terms.EVERYDAY_WORDS
    ]


def _is_sentence(line: str) -> bool:
    """Whether a line is written by a person: it begins at the margin and most of it are plain words."""
    words = [word.strip(terms.AROUND) for word in line.split()]
    return line[:1].strip() != "" and sum(map(str.isalpha, words)) > _PLAIN * len(words)


def _is_identifier(word: str) -> bool:
    """Whether a word has parts: joined by a character, or with a capital letter inside."""
    word = word.strip(terms.AROUND)
    inner = word[1:-1]
    if sum(map(str.isalpha, word)) < _SHORTEST:
        return False  # a number, a version or a time
    return any(char in inner for char in "_./") or (
        any(map(str.isupper, inner)) and not word.isupper()
    )


def _join_compounds(inner: WeightedWord, words: Sequence[WeightedWord]) -> None:
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
            if other is not inner and any(
                before.endswith(start[:n]) or after.startswith(start[:n]) for n in sizes
            ):
                joined[term] = count
                if other.replaced and not other.counts.keys() - joined.keys():
                    other.counts = {**other.counts, term: count}
                    other.share = _TYPO_SHARE
                else:
                    other.longer = {**other.longer, term: count}
    if joined:
        inner.counts = joined
        inner.share = _TYPO_SHARE


def rarest_terms(words: Sequence[WeightedWord], most: int) -> list[str]:
    """The terms that choose candidates: the rarest, as long as they occur in few enough records."""
    counts = {
        term: count
        for each in words
        for term, count in (*each.counts.items(), *each.longer.items())
    }
    chosen: list[str] = []
    spent = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        spent += counts[term]
        if chosen and spent > most:
            break
        chosen.append(term)
    return chosen


def coverage(words: Sequence[WeightedWord], matched: Mapping[str, float]) -> tuple[float, float]:
    """How much of the query a record contains, as a share and as evidence; of a long one, how much of a paragraph.

    One word, everyday words, parts of identifiers, replacements, and a small part of the query are no evidence. A
    single word is no share of a paragraph.
    """
    best = (0.0, 0.0)
    paragraphs = split_words(words) if matched else []
    for paragraph in paragraphs:
        present = [each for each in paragraph if each.word in matched]
        sure = [each for each in present if each.share > HALF and matched[each.word] > HALF]
        certain = [
            each.weight * matched[each.word]
            for each in sure
            if each.word.lower() not in terms.EVERYDAY_WORDS
        ]
        if not present or (len(paragraphs) > 1 and len(certain) < min(2, len(paragraph))):
            continue
        total = sum([each.weight for each in paragraph])
        share = (
            sum([each.weight * matched[each.word] for each in present]) / total if total else 0.0
        )
        if paragraph[0].paragraph == PRINTED and (share < HALF or len(certain) < _FEW_WORDS):
            continue  # not the same error
        pairs = sum([terms.is_cjk(each.word) for each in paragraph])  # some of them are no words
        least = min((HALF * _PART if 2 * pairs > len(paragraph) else _PART) * total, _ENOUGH)
        evidence = sum(certain) if len(certain) > 1 and sum(certain) >= least else 0.0
        best = max(best, (share, evidence))
    return best


def is_name(word: str, text: str) -> bool:
    """Whether a word is written as a name: with a capital letter that does not begin a sentence."""
    if (word.isascii() and word.islower()) or not any(char.isupper() for char in word):
        return False
    if any(char.isupper() for char in word[1:]):
        return not text.isupper()
    at = max(text.find(word), 0)
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip(_OPENING)
    return bool(before) and before[-1] not in ".!?:"


def _pair(
    connection: Connection | None, store: RankingStore, term: str, count: int, holding: int
) -> WeightedWord:
    """A pair of CJK characters, as indexed; a single one is also looked for inside of pairs."""
    if len(term) > 1 or holding:
        return WeightedWord(
            term, {term: holding} if holding else {}, _PAIR * _weight(count, holding)
        )
    pairs = pairs_with(connection, term, store)
    each = WeightedWord(term, {}, _PAIR * _weight(count, min(pairs.values(), default=0)))
    each.longer = pairs
    return each


def _weight(count: int, holding: int) -> float:
    """How much a word tells: 1 if a single record contains it, towards 0 if all do."""
    return math.log(1 + count / (max(holding, 1) + 0.5)) / math.log(1 + count / 1.5)


def nearest_terms(
    connection: Connection | None,
    word: terms.QueryWord,
    *,
    hurried: bool = False,
    store: RankingStore = lookup,
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


def longer_terms(
    connection: Connection | None, term: str, store: RankingStore = lookup
) -> dict[str, int]:
    """Longer indexed terms that begin with a term, the shortest first."""
    if len(term) < _SHORTEST or terms.is_cjk(term):
        return {}
    longer = [pair for pair in store.terms_starting(connection, term, 200) if pair[0] != term]
    return dict(sorted(longer, key=lambda pair: (len(pair[0]), -pair[1]))[:_MOST])


def pairs_with(
    connection: Connection | None, character: str, store: RankingStore = lookup
) -> dict[str, int]:
    """The indexed pairs that a CJK character is part of."""
    if store.size(connection) > _SMALL:
        return dict(store.terms_starting(connection, character, _PAIRS))
    return dict(store.terms_with(connection, character, _PAIRS))


def _containing(connection: Connection | None, store: RankingStore, term: str) -> dict[str, int]:
    """Terms that contain the word, else the longest that are part of it."""
    if not _SHORTEST < len(term) <= _LONGEST:
        return {}
    matches = (
        dict(store.terms_with(connection, term, _MOST)) if store.size(connection) <= _SMALL else {}
    )
    size = len(term) - 1
    while not matches and size > max(_SHORTEST, len(term) // 2):
        matches = store.frequencies(
            connection, [term[at : at + size] for at in range(len(term) - size + 1)]
        )
        size -= 1
    return matches


def _typos(
    connection: Connection | None, store: RankingStore, term: str, starts: tuple[str, ...]
) -> dict[str, int]:
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


def shorten(text: str, most: int, cost: Callable[[str], int]) -> str:
    """Leave out code, then the sentences without digits or identifiers, until a turn costs so much; the last first."""
    if cost(text) <= most:
        return text
    parts = text.split("```")
    text = GAP.join(parts[::2]) if len(parts) > 2 else text
    sentences = text.replace("\n", " \n").split(". ")
    plain = [at for at, sentence in enumerate(sentences) if at and not has_form(sentence)]
    while plain and cost(". ".join(sentences)) > most:
        sentences[plain.pop()] = ""
    return ". ".join(filter(None, sentences)).replace(" \n", "\n")


def has_form(sentence: str) -> bool:
    """Whether a sentence has a digit, or a word that is written as an identifier or a path."""
    return any(char.isdigit() or char in "_/`=<>\\" for char in sentence) or any(
        char.isupper() for word in sentence.split() for char in word[1:]
    )
