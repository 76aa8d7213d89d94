"""Redact the texts of one event or session, in order and within a limit.

One text may open a private section that only a later one closes. A `Redactor` therefore counts the
open sections from text to text:

    redactor = Redactor(patterns)
    redactor("deploy <private>with")       ->  "deploy "
    redactor("my key</private> to prod")   ->  " to prod"

Hooks have little time, so the rules search only a limited number of characters and texts. Whatever
exceeds the limit is dropped, because nobody has checked it.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING
from ralph.lean.secret_prefilter import (
    PATCH_MARKS,
    has_invisible,
    index_keywords,
    needs_rules,
    token_prefixes,
)
from ralph.privacy.privacy import redact
from ralph.privacy.private_parts import MAX_OPEN_PARTS, cut_private_parts
from ralph.privacy.secrets import find_secrets, replace_secrets
from ralph.privacy.word_splitters import fold_lookalikes, lowercase, remove_terminal_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

_WINDOW = 64_000  # characters to search with the rules at either end of a long text
_EDGE = 8_000  # characters to drop at the inner end of a window, where a secret may be cut
_PATTERN_WINDOW = 160_000  # the window if the user has patterns, which may match long texts
_PRIVATE_WINDOW = 1_000_000  # characters to search for private sections at either end
# How much the rules search in one event. The worst case takes about 2 seconds.
_MAX_CHARACTERS = 320_000
_MAX_TEXTS = 12_000
_MAX_HUNK_LINES = 400  # at either end of a long hunk; what is between them is dropped
_MAX_HUNK_CHARACTERS = 32_000  # at either end of a long hunk
_MIN_UNCHECKED = 2_000  # characters from which the pre-filter costs about as much as the rules
_HARMLESS_COST = 8  # the rules take about this many times as long as the pre-filter
_MAX_HARMLESS_LENGTH = 40
_MAX_HARMLESS_TEXTS = 10_000
_HARMLESS: set[str] = set()
"""Short texts with nothing to redact. An import sees the same member and tool names often."""
_PATCH_LINE = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"


class AstrayTag(Exception):
    """Raised for a `</private>` tag that closes a part nothing opened."""


class Redactor:
    """Redacts the texts of one event, which must be passed in order.

    `open` counts the private sections that are still open and hide later texts. A closing tag
    without an opening one sets `astray`, and raises AstrayTag unless `tolerant`. Text beyond what
    the rules can search in time is dropped.
    """

    def __init__(self, patterns: Sequence[str], *, tolerant: bool = False) -> None:
        self.patterns = patterns
        self.tolerant = tolerant
        self.open = 0
        self.astray = False
        self._characters_left = _MAX_CHARACTERS
        self._texts_left = _MAX_TEXTS
        index_keywords()

    def __call__(self, text: str, window: int = _WINDOW) -> str:
        """Return the text in a form that may be stored. Only the two ends of a long text are kept.

        Raises AstrayTag for a closing tag without an opening one, unless `tolerant`.
        """
        if self.open >= MAX_OPEN_PARTS or self._characters_left <= 0 or self._texts_left <= 0:
            return ""
        self._texts_left -= 1
        if not self.open and not self.patterns:
            if text in _HARMLESS:
                return text
            if self._is_worth_checking(text, window) and not needs_rules(text):
                self._note_harmless(text)
                return text
        text = self._without_private_parts(text)
        if self.patterns:
            window = max(window, _PATTERN_WINDOW)
        self._characters_left -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._without_secrets(text)
        head = self._without_secrets(text[:window])
        tail = self._without_secrets(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"

    def redact_hunk(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of a patch's hunk, judged together. Only the two ends are kept if long.

        The lines may still contain private sections.
        """
        from ralph.privacy.patches import redact_hunk  # few events have a patch

        if self._characters_left <= 0 or self._texts_left <= 0:
            return []
        self._texts_left -= 1
        head, tail = _ends_of_hunk(lines)
        left_out = len(lines) - len(head) - len(tail)
        self._characters_left -= sum(map(len, head)) + sum(map(len, tail))
        if not left_out:
            return redact_hunk(head, self.patterns)
        note = f" [... {left_out:,} lines left out ...]"
        return [
            *redact_hunk(head, self.patterns),
            note,
            *redact_hunk(tail, self.patterns),
        ]

    def _is_worth_checking(self, text: str, window: int) -> bool:
        """Check whether to run the pre-filter first.

        The rules search for the same keywords, so a long text is pre-filtered only when the budget
        runs low.
        """
        if len(text) > 2 * window:
            return False
        is_budget_low = 2 * self._characters_left < _MAX_CHARACTERS
        return len(text) < _MIN_UNCHECKED or is_budget_low

    def _note_harmless(self, text: str) -> None:
        self._characters_left -= len(text) // _HARMLESS_COST
        if len(text) <= _MAX_HARMLESS_LENGTH and len(_HARMLESS) < _MAX_HARMLESS_TEXTS:
            _HARMLESS.add(text)

    def _without_private_parts(self, text: str) -> str:
        hides_tag = False
        if len(text) > 2 * _PRIVATE_WINDOW:
            middle = text[_PRIVATE_WINDOW - _EDGE : _EDGE - _PRIVATE_WINDOW]
            # If there may be a tag in the dropped text, everything after it is private.
            hides_tag = has_invisible(middle) or "private" in lowercase(fold_lookalikes(middle))
            note = f"\n[... {len(text) - 2 * _PRIVATE_WINDOW:,} characters left out ...]\n"
            tail = "" if hides_tag else note + text[-_PRIVATE_WINDOW:]
            text = text[:_PRIVATE_WINDOW] + tail
        cut = cut_private_parts(text, self.open, wary=True)
        self.open = MAX_OPEN_PARTS if hides_tag else cut.open
        self.astray = self.astray or cut.is_astray
        if cut.is_astray and not self.tolerant:
            raise AstrayTag
        return cut.text

    def _without_secrets(self, text: str) -> str:
        """Redact a text before and after removing its terminal codes.

        A code may directly precede a secret, or be inside one.
        """
        redacted = _redact_patch(text, self.patterns)
        stored = remove_terminal_codes(redacted)
        if stored == redacted:
            return redacted
        return _redact_patch(stored, self.patterns)


def _ends_of_hunk(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the first and the last lines of a hunk, or all of a short one and no last lines."""
    size = sum(map(len, lines))
    if len(lines) <= 2 * _MAX_HUNK_LINES and size <= 2 * _MAX_HUNK_CHARACTERS:
        return list(lines), []
    head = _lines_within_limit(lines[:_MAX_HUNK_LINES])
    rest = lines[len(head) :]
    tail = _lines_within_limit(rest[::-1][:_MAX_HUNK_LINES])
    return head, tail[::-1]


def _lines_within_limit(lines: Sequence[str]) -> list[str]:
    kept = []
    size = 0
    for line in lines:
        size += len(line)
        if size > _MAX_HUNK_CHARACTERS:
            break
        kept.append(line)
    return kept


def _redact_patch(text: str, patterns: Sequence[str]) -> str:
    """Redact a text, including the lines of a patch and secrets after the `-` of a patch.

    In `-ghp_...`, the token is on a line that the patch removes.
    """
    if any(mark in text for mark in PATCH_MARKS):
        from ralph.privacy.patches import redact_patch_text  # few texts contain a patch

        text = redact_patch_text(text, patterns)
    text = redact(text, patterns).text
    if "-" not in text or not token_prefixes(text):
        return text
    unsigned = re.sub(_PATCH_LINE, " ", text)
    if unsigned == text:
        return text
    return replace_secrets(text, find_secrets(unsigned, patterns))
