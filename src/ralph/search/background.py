"""Tell how ordinary a word is, from a list of frequent words in eleven languages.

How many records contain a word says little in a young project: "wants" may occur in one record or
in none, and is still not what a prompt is about. `frequent_words.txt` has the terms of ordinary
words with their frequency in everyday text, sorted (`tools/frequent_words.py` makes it). It is
searched by bisection, which takes less time than building a dictionary for a few words.

Prompt hooks load this module, so it imports neither `typing` nor `dataclasses` (see `ralph.lean`).
"""

from __future__ import annotations

import os

from ralph.lean import hook_files

_FILE = "frequent_words.txt"
_MAX_BYTES = 1 << 18
_LOWEST_LETTER = ord("A")  # the letter after a term stands for its frequency
_LOWEST_FREQUENCY = 4.0
_FREQUENCY_STEP = 0.25
_MAX_CACHED_TERMS = 10_000
_lists: dict[str, bytes] = {}
_frequencies: dict[str, float] = {}

# From here up, a word says less and less about a prompt, on the Zipf scale: 4.75 is once in 18,000
# words ("mail"), 6.5 once in 300 ("get", "was"). With 5 and 6.25 instead, written weeks 1 to 4
# reach as many prompts but leave fewer unrelated ones in silence (.81 instead of .88).
_ORDINARY_FREQUENCY = 4.75
_MEANINGLESS_FREQUENCY = 6.5
_MIN_INFORMATION = 0.2
_MAX_NUMBER_DIGITS = 2  # a number with so few digits is a quantity, not a name


def frequency(term: str) -> float:
    """Return the frequency of a term in everyday text on the Zipf scale, or 0 if it is not listed.

    The Zipf scale is logarithmic: 6 is once in a thousand words, 4 once in a hundred thousand.
    """
    known = _frequencies.get(term)
    if known is None:
        if len(_frequencies) >= _MAX_CACHED_TERMS:
            _frequencies.clear()
        known = _look_up(term)
        _frequencies[term] = known
    return known


def _look_up(term: str) -> float:
    wanted = term.encode("utf-8", "replace")
    listed = _read_list()
    first = 0
    end = len(listed)
    while first < end:
        start = listed.rfind(b"\n", first, (first + end) // 2) + 1
        start = max(start, first)
        line_end = listed.index(b"\n", start)
        entry = listed[start : line_end - 1]
        if entry == wanted:
            return _LOWEST_FREQUENCY + (listed[line_end - 1] - _LOWEST_LETTER) * _FREQUENCY_STEP
        if entry < wanted:
            first = line_end + 1
        else:
            end = start
    return 0.0


def information(term: str) -> float:
    """Return how much a term says about a text, from 0.2 for an ordinary word to 1."""
    if term.isdigit() and len(term) <= _MAX_NUMBER_DIGITS:
        return _MIN_INFORMATION
    ordinariness = frequency(term) - _ORDINARY_FREQUENCY
    share = ordinariness / (_MEANINGLESS_FREQUENCY - _ORDINARY_FREQUENCY)
    return 1 - (1 - _MIN_INFORMATION) * min(max(share, 0.0), 1.0)


def _read_list() -> bytes:
    if _FILE not in _lists:
        path = os.path.join(os.path.dirname(__file__), _FILE)
        _lists[_FILE] = hook_files.read_file(path, _MAX_BYTES) or b""
    return _lists[_FILE]
