"""Find what somebody probably meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_WORD_CHARACTERS = 100  # a longer word is not a slip of the fingers
_MAX_CHOICES = 5_000  # more would make an error message slow


def closest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that is most similar to a word, ignoring case, or "" if none is."""
    from difflib import get_close_matches

    if len(word) > _MAX_WORD_CHARACTERS:
        return ""
    by_spelling: dict[str, str] = {}
    for choice in choices:
        by_spelling[choice.casefold()] = choice
        if len(by_spelling) >= _MAX_CHOICES:
            break
    for match in get_close_matches(word.casefold(), by_spelling, n=1):
        return by_spelling[match]
    return ""


def differs_by_one_character(word: str, other: str) -> bool:
    """Return whether two words of the same length differ in one character."""
    if len(word) != len(other):
        return False
    return sum(a != b for a, b in zip(word, other, strict=True)) == 1


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean X?` to be added to a message, or "" if nothing is similar."""
    choice = closest(word, choices)
    if not choice:
        return ""
    return f"; did you mean {choice}?"
