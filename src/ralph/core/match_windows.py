"""Render search hits on one line each, as windows of words around the match.

All lines together have a budget in tokens. A window starts with a few words around the match, and
is then widened or narrowed to its share of the budget:

    mem-1a2b fix …restart the connection pool after a deploy, or the…
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from ralph.core.terms import TermMatcher, is_cjk, unaccented
from ralph.core.tokens import estimate

LINES_BUDGET = 100  # tokens for all lines together
MIN_HITS = 3  # hits that are shown even if they are long
_WINDOW_WORDS = 8  # words of a hit to start with
_WORDS_BEFORE_MATCH = 3
_MAX_WINDOW_CHARACTERS = 1_000  # on either side of a match
_MAX_POSITIONS = 100  # occurrences of a term that are considered
_CLOSE_CHARACTERS = 80  # terms within this many characters are close together
_MIN_WEIGHT_GAIN = 1e-9  # a smaller gain is only a rounding error
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

    It starts out with a few words around the match.
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
            after = self.last - self.match - 1
            before = self.match - self.first
            if not (after or before):
                return self.head
            if after >= before:
                self.last -= 1
            else:
                self.first += 1
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


# --- where the match is -------------------------------------------------------------------------


def best_match_position(text: str, weights: Mapping[str, float]) -> int:
    """Return the position in a one-line text where the heaviest group of terms is close together.

    If none of the terms is a word in the text, they are searched for as substrings. The result is 0
    if the text contains none of them.
    """
    positions = _term_positions(text, weights) or _literal_positions(text, weights)
    ordered = sorted(positions)
    best = 0
    best_weight = 0.0
    for number, (position, _) in enumerate(ordered):
        close_terms = set()
        for other_position, term in ordered[number : number + _MAX_POSITIONS]:
            if other_position < position + _CLOSE_CHARACTERS:
                close_terms.add(term)
        weight = sum(weights[term] for term in close_terms)
        if weight > best_weight + _MIN_WEIGHT_GAIN:
            best = position
            best_weight = weight
    return best


def _term_positions(text: str, terms: Mapping[str, float]) -> set[tuple[int, str]]:
    """Return the position of each word that has one of the terms, along with the term."""
    written_words = text.split(" ")
    words = written_words
    if not text.isascii():
        # Folding may turn an accent into a space, but each word must remain one chunk.
        words = ["".join(unaccented(word).split()) or "." for word in written_words]
    starts = _word_starts(written_words)
    matcher = TermMatcher(" ".join(words))
    positions: set[tuple[int, str]] = set()
    for term in terms:
        for number in islice(matcher.chunks_with(term), _MAX_POSITIONS):
            offset = 0
            if is_cjk(term[0]):
                offset = max(words[number].find(term), 0)
            positions.add((starts[number] + offset, term))
    return positions


def _word_starts(words: Sequence[str]) -> list[int]:
    """Return the positions of words that are joined by single spaces."""
    starts = []
    position = 0
    for word in words:
        starts.append(position)
        position += len(word) + 1
    return starts


def _literal_positions(text: str, terms: Mapping[str, float]) -> set[tuple[int, str]]:
    """Return the first position of each term that `text` contains as a substring."""
    lowered = text.lower()
    positions = set()
    for term in terms:
        position = lowered.find(term)
        if position >= 0:
            positions.add((position, term))
    return positions
