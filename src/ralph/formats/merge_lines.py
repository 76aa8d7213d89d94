"""The line-by-line merge that git provides, and the result of any merge."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

MergeLines = Callable[[str, str, str], tuple[str, int]]
"""Merges base, ours and theirs line by line, like `git merge-file`.

Returns the text and the number of conflicts.
"""

# Blank lines beyond the first, both between paragraphs and at the end of the file.
_SURPLUS_BLANK_LINES = re.compile(r"\n+(?=\n\Z)|(?<=\n\n)\n+")


class Merged(NamedTuple):
    """The merged text, the number of conflicts left in it, and notes for the user."""

    text: str
    conflicts: int = 0
    notes: tuple[str, ...] = ()


def merge_prose(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge the text between entries. On a conflict, try again without surplus blank lines."""
    merged = _merge_if_both_changed(base, ours, theirs, merge_lines)
    if not merged.conflicts:
        return merged
    base, ours, theirs = [_SURPLUS_BLANK_LINES.sub("", text) for text in (base, ours, theirs)]
    return _merge_if_both_changed(base, ours, theirs, merge_lines)


def _merge_if_both_changed(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    text, conflicts = merge_lines(base, ours, theirs)
    return Merged(text, conflicts)
