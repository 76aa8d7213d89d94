"""Cut the list of frequent words from the data of wordfreq.

`pip install wordfreq==3.1.1`, then `python tools/frequent_words.py`. The result is
`src/ralph/search/frequent_words.txt`, with one term per line, sorted, as the index stores terms
(`core/terms.py`: English stems, pairs of CJK characters). Each is followed by a letter for its frequency on
the Zipf scale, which is the logarithm of the frequency per billion words: A is 4, B is 4.25, and so on.
A term that several languages have is listed once, with its highest frequency. Run this again when the rules
for terms change.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from ralph.core import terms

FILE = Path(__file__).resolve().parents[1] / "src/ralph/search/frequent_words.txt"
LOWEST_LEVELS = {"en": 4.0, "ru": 5.25}
"""The least frequent words of a language that are listed. English words are also listed so that
ordinary ones are not taken for typos."""
OTHER_LANGUAGES = ("de", "es", "fr", "it", "ko", "nl", "pl", "pt", "ru", "sv")
OTHER_LEVEL = 5.0
FIRST_LEVEL = 4.0  # the letter A
LEVELS_PER_UNIT = 4
MAX_BYTES = 100_000
PER_BILLION = 9  # powers of ten


def levels_of(frequencies: dict[str, float], lowest: float) -> dict[str, float]:
    """Return the level of each term of a language, down to the lowest one."""
    by_term: dict[str, float] = {}
    for word, frequency in frequencies.items():
        for term in set(terms.word_terms(word)):
            by_term[term] = by_term.get(term, 0.0) + frequency
    levels = {}
    for term, frequency in by_term.items():
        zipf = math.log10(frequency) + PER_BILLION
        level = math.floor(zipf * LEVELS_PER_UNIT) / LEVELS_PER_UNIT
        if level >= lowest and term.isalpha():
            levels[term] = level
    return levels


def render(levels: dict[str, float]) -> str:
    """Return the content of the file."""
    lines = []
    for term in sorted(levels, key=str.encode):
        level = levels[term]
        letter = chr(ord("A") + round((level - FIRST_LEVEL) * LEVELS_PER_UNIT))
        lines.append(f"{term}{letter}\n")
    return "".join(lines)


def main(languages: Iterable[str] = ("en", *OTHER_LANGUAGES)) -> None:
    """Write the list."""
    import wordfreq  # type: ignore[import-not-found]  # only needed to make the list again

    highest: dict[str, float] = {}
    for language in languages:
        frequencies = wordfreq.get_frequency_dict(language)
        lowest = LOWEST_LEVELS.get(language, OTHER_LEVEL)
        for term, level in levels_of(frequencies, lowest).items():
            highest[term] = max(level, highest.get(term, 0.0))
    content = render(highest)
    if len(content.encode()) > MAX_BYTES:
        sys.exit(f"{len(content.encode())} bytes are too many")
    FILE.write_text(content, encoding="utf-8", newline="")
    print(f"{len(highest)} terms, {len(content.encode())} bytes")


if __name__ == "__main__":
    main()
