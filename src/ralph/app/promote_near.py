"""What a page already says in other words: looked for before something is promoted to it by hand.

The measure is the one by which insights are merged (`capture/alike.py`). In global-patterns.md each bullet is compared;
in AGENTS.md, CLAUDE.md and design pages those of the marked region, and the bullets that people wrote around it, since
whoever reads the page reads both. Code is no bullet. `tests/app/test_promote_near.py` holds the pairs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ralph.capture.similarity import TextMatcher
from ralph.formats.pages import parse_patterns, parse_region
from ralph.formats.text import Entry

_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?P<words>\S.*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class Near:
    """What stands at a place already, nearly in these words: the words, and their line."""

    text: str
    line: int

    @property
    def told(self) -> str:
        """The same in a line."""
        return f"already there: {' '.join(self.text.split())}, line {self.line}"


def in_patterns(page: str, text: str) -> Near | None:
    """The bullet of global-patterns.md that says nearly what a text says."""
    return _nearest([*_entries(parse_patterns(page).entries)], text)


def in_page(page: str, text: str) -> Near | None:
    """The bullet of a page that says nearly what a text says, in the marked region or around it."""
    own = [*_entries(parse_region(page).entries)]
    lines = {each.line for each in own}
    return _nearest([*own, *(each for each in _bullets(page) if each.line not in lines)], text)


def _nearest(held: list[Near], text: str) -> Near | None:
    found = TextMatcher(each.text for each in held).nearest(text)
    return held[found] if found is not None else None


def _entries(entries: tuple[Entry, ...]) -> Iterator[Near]:
    return (Near(entry.record.text, entry.line) for entry in entries)


def _bullets(page: str) -> Iterator[Near]:
    fence = ""
    for number, line in enumerate(page.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark is not None and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and (found := _BULLET.fullmatch(line)) is not None:
            yield Near(found["words"], number)
