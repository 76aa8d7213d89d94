"""Whether two texts that look alike say different things: the same sentence about something else, or its opposite.

The queue rounds down and the ledger rounds down; retry 3 times and retry 30 times; tests before migrations and the
other way round. A measure of likeness sees how much is the same, and it is the rest that counts here: where nearly all
words are the same and in the same order, one that only the one has and one that only the other has make two
statements, and so do a no and a number, and the same words in another order around a word like "before". Texts that put
it quite differently are left to the measure. Whoever is in doubt keeps both: a thing that stands twice is seen by a
person, one that was left out is gone. `tests/capture/test_distinct.py` has pairs.
"""

from ralph.capture.secret_values import words_of
from ralph.search.terms import STOP_WORDS, is_cjk, split_words, stem, unaccented

_MOST = 0.55
"""The part of all their words which two texts share that are one sentence with something changed."""
_ROOT = 2
"""Signs by which a word in Korean, Chinese or Japanese is known."""
_NO = words_of(
    """not no never none nor cannot don't doesn't didn't won't can't mustn't shouldn't isn't aren't without nicht nie
    niemals kein keine keinen ohne pas jamais sans ne nunca nao sem sin nunca dont doesnt"""
)
_LABELS = words_of("gotcha tip note convention decision pattern learning learned rule")
_ORDER = words_of(
    """before after then than instead first last over until vor nach erst statt avant apres puis antes depois despues
    luego from to into"""
)


def are_two(one: str, other: str) -> bool:
    """Whether two texts are nearly one sentence, and yet say two things."""
    first, second = _telling(one), _telling(other)
    if first == second:
        return False
    left, right = set(first), set(second)
    if len(left & right) < _MOST * len(left | right):
        return False
    if left == right:
        return bool(left & _ORDER)
    shared = left & right
    if [word for word in first if word in shared] != [word for word in second if word in shared]:
        return False
    if left - right - _ORDER and right - left - _ORDER:
        return True
    return any(word in _NO or word[:1].isdigit() for word in left ^ right)


def _telling(text: str) -> list[str]:
    """The words that tell something, by their stems, in their order."""
    found = []
    for word in split_words(unaccented(text)):
        low = word.lower().strip("'’")
        if low in _NO or low in _ORDER or low.isdigit():
            found.append(low)
        elif is_cjk(low):  # without the particle at its end; what is short is an ending
            found.extend([low[:_ROOT]] if len(low) > _ROOT else [])
        elif low not in STOP_WORDS and low not in _LABELS and len(low) > 1:
            found.append(stem(low))
    return found
