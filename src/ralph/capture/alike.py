"""Whether two texts say the same in other words: by their stems, without a model.

Every word counts by how much it tells: a name, a path or a number most, a word of everybody's hardly. Two texts
are alike when the shorter one's weight is mostly in the other as well, and the other is not about much else. Among
many texts it is also known which words are rare there: two of them that share several words which hardly any other
has are about one thing, however differently they put it, and in whatever language the rest is. One name alone, with
all of its parts, is no likeness, nor is one sentence about two things (`distinct.py`). What is not found alike stands
twice and is seen by a person. `Shelf` finds the likeness of one text among many by the terms that they share.
`tests/capture/test_alike.py` holds the pairs on both sides.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ralph.capture.distinct import are_two
from ralph.capture.secret_values import words_of
from ralph.search.terms import EVERYDAY_WORDS as EVERYDAY
from ralph.search.terms import STOP_WORDS, is_cjk, split_words, unaccented, word_terms

_NAME, _WORD, _COMMON, _PAIR = 2.5, 1.0, 0.35, 0.6
_SHARED = 0.45
"""How much of the lighter text's weight must be in the other one."""
_NAMELESS = 0.8
"""How much, when no name is among it: tokens and invitations may both expire after 15 minutes."""
_WORDS = 2
"""Words that must be shared: one name alone is no likeness, whatever it consists of."""
_WHOLE = 0.25
"""How much of the heavier text's weight it must be."""
_LEAST = 3.0
"""Weight that must be shared in all: of two texts of three words nothing can be told."""
_FEW, _SHARE_OF_ALL = 2, 1 / 40
"""A term is rare when no more texts than these have it, and this part of all texts."""
_RARE_WORDS, _RARE_WEIGHT, _RARE_SHARE = 3, 3.0, 0.22
"""Words and weight of rare terms that two texts share, and the part of the lighter one that they are."""
_MANY_TEXTS, _RARE_SHARE_OF_FEW = 24, 0.4
"""Among fewer texts than this everything seems rare: more must be shared, and a word more without a name."""
_TOGETHER, _WITH_NAME, _SOME_TEXTS = 0.3, 0.25, 12
"""The part of the lighter text that is enough when rare words or a rare name are among it, and among how many texts."""
_REMEMBERED = 1024
_COMMON_WORDS = words_of(
    """fail failed fails failing passed pass passes change changed changes error errors test tests testing run runs
    running file files code need needs must always never because otherwise before after make sure work works add
    added fix fixed set use used should build check step first gotcha decision convention learned pattern tip note
    npm python git command commands project value values call called calls function class method it's don't instead
    src lib app index main without only every all new old same still also then when than into its this that"""
)


@lru_cache(_REMEMBERED)
def weights(text: str) -> Mapping[str, float]:
    """The terms of a text and how much each of them tells; a text is asked about several times in a row."""
    found: dict[str, float] = {}
    for word in split_words(unaccented(text)):
        low = word.lower()
        weight = _weight(word, low)
        terms = word_terms(word) if weight else ()
        whole = max(terms, key=len, default="")
        for term in terms:  # of a path or an identifier the whole is its name, and the parts are words
            if weight == _PAIR and term.isascii() and len(term) > 1:  # a name in front of a particle: `sRGB로`
                part = _NAME if term == whole and term not in EVERYDAY else _WORD
            else:
                part = weight if term == whole or weight != _NAME else _COMMON if term in _COMMON_WORDS else _WORD
            found[term] = max(found.get(term, 0.0), part)
    return found


def _weight(word: str, low: str) -> float:
    if low in STOP_WORDS or (len(low) < 2 and not low.isdigit()):
        return 0.0
    if is_cjk(word):
        return _PAIR
    if low in EVERYDAY or low in _COMMON_WORDS:
        return _COMMON
    if word.isdigit():
        return _WORD
    return _WORD if word.isalpha() and (len(word) == 1 or word[1:].islower()) else _NAME


def alike(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How alike two texts are, as their weights tell it: 0 when they are not."""
    if not one or not other:
        return 0.0
    both = [min(weight, other[term]) for term, weight in one.items() if term in other]
    shared = sum(both)
    light, heavy = sorted((sum(one.values()), sum(other.values())))
    wanted = _SHARED if _NAME in both or both.count(_PAIR) > len(both) / 2 else _NAMELESS
    if shared < min(_LEAST, light) or shared / light < wanted or shared / heavy < _WHOLE:
        return 0.0
    if (
        shared / heavy < _NAMELESS
        and _distinct({term: min(one[term], other[term]) for term in one if term in other}) < _WORDS
    ):
        return 0.0
    return shared / light


@dataclass(slots=True)
class Rarity:
    """How many of some texts have a term."""

    texts: int = 0
    having: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Rarity":
        """What is rare among these texts; the same text twice is one."""
        unique = dict.fromkeys(texts)
        return cls(len(unique), Counter(term for text in unique for term in weights(text)))

    def alike(self, one: Mapping[str, float], other: Mapping[str, float]) -> float:
        """How alike two texts are by the rare terms that they share: 0 when these are too few."""
        few = _FEW + self.texts * _SHARE_OF_ALL
        rare = {
            term: min(weight, other[term]) for term, weight in one.items() if term in other and self.having[term] <= few
        }
        shared = sum(rare.values())
        light = min(sum(one.values()), sum(other.values()))
        split_words = _distinct(rare)
        wanted = _RARE_SHARE if self.texts >= _MANY_TEXTS else _RARE_SHARE_OF_FEW
        sure = self.texts >= _MANY_TEXTS or _NAME in rare.values()
        least = _RARE_WORDS if sure else _RARE_WORDS + 1
        if shared >= _RARE_WEIGHT and shared / light >= wanted and split_words >= least:
            return shared / light
        names = sum(1 for weight in rare.values() if weight == _NAME)
        both = sum(min(weight, other[term]) for term, weight in one.items() if term in other)
        if (
            self.texts >= _SOME_TEXTS
            and split_words + names >= _RARE_WORDS
            and both / light >= (_WITH_NAME if names else _TOGETHER)
        ):
            return both / light if shared >= _RARE_WEIGHT else 0.0
        return 0.0


def _distinct(rare: Mapping[str, float]) -> float:
    """How many words these terms are: the parts of an identifier are none of their own, pairs of signs are half."""
    telling = [term for term, weight in rare.items() if weight > _COMMON]
    whole = [term for term in telling if not any(term != other and term in other for other in telling)]
    return sum(0.5 if rare[term] == _PAIR else 1.0 for term in whole)


class Shelf:
    """Texts by their terms, each under a number, to find the one that says the same as another."""

    def __init__(self, texts: Iterable[str] = (), among: Iterable[str] = ()) -> None:
        self._held: list[Mapping[str, float]] = []
        self._texts: list[str] = []
        self._by_term: dict[str, list[int]] = {}
        self._rarity = Rarity.of(among)
        for text in texts:
            self.add(text)

    def add(self, text: str) -> int:
        """Keep a text; gives its number."""
        number = len(self._held)
        self._held.append(weights(text))
        self._texts.append(text)
        for term, weight in self._held[number].items():
            if weight > _COMMON:
                self._by_term.setdefault(term, []).append(number)
        return number

    def nearest(self, text: str) -> int | None:
        """The number of the text that is most alike, the earliest of equals; None when none is."""
        wanted = weights(text)
        near = dict.fromkeys(
            number for term, weight in wanted.items() if weight > _COMMON for number in self._by_term.get(term, ())
        )
        best, found = 0.0, None
        for number in sorted(near):
            score = alike(wanted, self._held[number]) or self._by_rarity(wanted, number)
            if score > best and not are_two(text, self._texts[number]):
                best, found = score, number
        return found

    def _by_rarity(self, wanted: Mapping[str, float], number: int) -> float:
        return self._rarity.alike(wanted, self._held[number]) if self._rarity.texts else 0.0
