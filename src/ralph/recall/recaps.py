"""Find the turn of a session that restates what was decided.

At the end of a discussion, the agent often says everything again: "So percent discounts come first,
then fixed amounts, and the order of entry does not matter." Such a recap is the best short form of
a decision. It is found by its form, never by words such as "recap" in a particular language: most
of its telling words have been said before, and it has many of them. Code is not counted, because a
program repeats its own names. Hooks load this module.
"""

from __future__ import annotations

from ralph.core.terms import EVERYDAY_WORDS, is_cjk, query_terms
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.storage.lookup import RecordRow

_MAX_CHARACTERS = 4_000  # of a turn that are examined
_CODE_FENCE = "```"
_MIN_RESTATED_TERMS = 4
_MIN_SHARE_OF_BEST = 0.9  # a later turn that restates nearly as much is the recap
_MIN_RECURRING_TURNS = 3
# A recap of a whole discussion has at least this share of the recurring terms. In the delivery
# benchmark, recaps have at least 0.47, and other answers in long sessions at most 0.36.
_MIN_RECURRING_SHARE = 0.42


def telling_terms(text: str) -> set[str]:
    """Return the terms for the words of a text, without everyday words and code blocks.

    An identifier counts as a whole, without its parts.
    """
    prose = " ".join(text[:_MAX_CHARACTERS].split(_CODE_FENCE)[::2])
    telling: set[str] = set()
    for word in query_terms(prose):
        if is_cjk(word.text):
            telling.update(word.terms)
        elif word.text.lower() not in EVERYDAY_WORDS:
            telling.add(max(word.terms, key=len))
    return telling


def find_recap(turns: Iterable[RecordRow]) -> RecordRow | None:
    """Return the agent's turn that restates most of the turns before it, if any restates enough.

    The measure is the number of restated terms, multiplied by their share of the turn.
    """
    said: set[str] = set()
    recap = None
    best_measure = 0.0
    for turn in turns:
        own = telling_terms(turn.text)
        restated = len(own & said)
        said |= own
        if turn.by != "agent" or restated < _MIN_RESTATED_TERMS:
            continue
        measure = restated * restated / len(own)
        if measure >= _MIN_SHARE_OF_BEST * best_measure:
            recap = turn
        best_measure = max(best_measure, measure)
    return recap


def recurring_terms(turns: Iterable[set[str]]) -> set[str]:
    """Return the terms that occur in several turns. They are what a session is about."""
    counts: dict[str, int] = {}
    for terms in turns:
        for term in terms:
            counts[term] = counts.get(term, 0) + 1
    return {term for term, count in counts.items() if count >= _MIN_RECURRING_TURNS}


def is_complete(recap: set[str], recurring: set[str]) -> bool:
    """Return whether the terms of a recap cover a whole discussion, not only its last point."""
    return len(recap & recurring) >= _MIN_RECURRING_SHARE * len(recurring)
