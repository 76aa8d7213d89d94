"""Render search hits on one line each, as windows of words around the match.

All lines together have a budget in tokens. A window starts with a few words around the match, and
is then widened or narrowed to its share of the budget:

    mem-1a2b fix …restart the connection pool after a deploy, or the…
"""

from __future__ import annotations

from collections.abc import Sequence

from ralph.core.tokens import estimate

LINES_BUDGET = 100  # tokens for all lines together
MIN_HITS = 3  # hits that are shown even if they are long
_WINDOW_WORDS = 12  # words of a hit to start with
_WORDS_BEFORE_MATCH = 3
_MAX_WINDOW_CHARACTERS = 1_000  # on either side of a match
_WORD_PIECE_CHARACTERS = 20  # size of the pieces that a very long word is split into


def hit_lines(hits: Sequence[tuple[str, str, int]], *, fit: bool = False) -> list[str]:
    """Render hits on one line each. A hit is its head, its text and the position of the match.

    With `fit`, hits are dropped from the end until the rest fits, but three are always kept.
    """
    windows = [MatchWindow(head, text, position) for head, text, position in hits]
    costs = [estimate(window.line() + "\n") for window in windows]
    while fit and len(costs) > MIN_HITS and sum(costs) > LINES_BUDGET:
        costs.pop()
    if not costs:
        return []
    room = LINES_BUDGET
    if not fit:
        room = LINES_BUDGET // MIN_HITS * max(len(costs), MIN_HITS)
    spare = max(LINES_BUDGET - sum(costs), 0) // len(costs)
    lines = [""] * len(costs)
    shortest_first = sorted(range(len(costs)), key=lambda number: costs[number])
    for position, number in enumerate(shortest_first):  # short lines leave more room for the others
        share = room // (len(costs) - position)
        lines[number] = windows[number].resize(min(costs[number] + spare, share))
        room -= estimate(lines[number] + "\n")
    return lines


class MatchWindow:
    """The part of the text that a hit's line shows, from word `first` up to word `last`.

    It starts out with twelve words around the match.
    """

    def __init__(self, head: str, text: str, position: int) -> None:
        self.head = head
        self.text = text
        self.spans = _word_spans(text, position) or [(0, 0)]
        self.match = 0
        for number, (_, end) in enumerate(self.spans):
            if end > position:
                self.match = number
                break
        first = max(0, self.match - _WORDS_BEFORE_MATCH)
        self.last = min(len(self.spans), first + _WINDOW_WORDS)
        self.first = max(0, self.last - _WINDOW_WORDS)

    def line(self) -> str:
        """Return the head and the words, with an ellipsis wherever words are missing."""
        start = self.spans[self.first][0]
        end = self.spans[self.last - 1][1]
        words = self.text[start:end]
        if start > 0:
            words = f"…{words}"
        if end < len(self.text):
            words = f"{words}…"
        return f"{self.head} {words}".rstrip()

    def resize(self, budget: int) -> str:
        """Return the line with as many words as fit into the budget. The head is never cut."""
        while estimate(self.line() + "\n") > budget:
            if self.last > self.match + 1:
                self.last -= 1
            elif self.first < self.match:
                self.first += 1
            else:
                return self.head
        line = self.line()
        while self.first or self.last < len(self.spans):
            if self.last < len(self.spans):
                self.last += 1
            else:
                self.first -= 1
            if estimate(self.line() + "\n") > budget:
                break
            line = self.line()
        return line


def _word_spans(text: str, position: int) -> list[tuple[int, int]]:
    """Return where the words around a position start and end.

    A long word is split into pieces.
    """
    start = text.rfind(" ", 0, max(position - _MAX_WINDOW_CHARACTERS, 0)) + 1
    spans: list[tuple[int, int]] = []
    for word in text[start : position + _MAX_WINDOW_CHARACTERS].split(" "):
        end = start + len(word)
        size = max(len(word), 1)
        if len(word) > 2 * _WORD_PIECE_CHARACTERS:
            size = _WORD_PIECE_CHARACTERS
        for begin in range(start, end, size):
            spans.append((begin, min(begin + size, end)))
        start = end + 1
    return spans
