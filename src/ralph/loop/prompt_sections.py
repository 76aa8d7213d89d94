"""Fit the sections of a prompt into a token budget.

Every section has a rank. Sections are given their share of the budget by rank, and then joined in
their original order, so a section in the middle of the prompt may be the first one to be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ralph.core import render
from ralph.core.budget import TRUNCATED
from ralph.core.tokens import estimate

_CUT_TOKENS = estimate(f"\n```\n{TRUNCATED}\n") + 2
ALWAYS = 0  # the rank of sections that are never left out


class Section(NamedTuple):
    """A section of the prompt. The higher its rank, the sooner it is left out."""

    text: str
    rank: int


def join_sections(sections: Sequence[Section], budget: int) -> str:
    """Join the sections that fit into the budget, in their original order.

    Sections with the rank `ALWAYS` are included even if they exceed the budget.
    """
    room = budget
    included: dict[int, str] = {}
    by_rank = sorted(enumerate(sections), key=lambda numbered: numbered[1].rank)
    for position, section in by_rank:
        text = section.text
        if section.rank != ALWAYS:
            text = truncate_text(text, room)
        if text:
            included[position] = text
            room -= estimate(text) + 1
    return "\n".join(included[position] for position in sorted(included))


def truncate_text(text: str, budget: int) -> str:
    """Cut text to a number of tokens, at the end of a line.

    Returns "" if only headings would be left.
    """
    if estimate(text) <= budget:
        return text
    lines = render.cut(text, budget - _CUT_TOKENS, "").split("\n")
    is_whole_line = text.startswith("\n".join([*lines, ""]))
    if not is_whole_line:
        lines.pop()
    if all(not line.strip() or line.startswith("#") for line in lines):
        return ""
    shortened = "\n".join(lines).rstrip()
    fences = sum(line.lstrip().startswith("```") for line in lines)
    if fences % 2:  # the last one is open
        shortened += "\n```"
    return f"{shortened}\n{TRUNCATED}\n"


def titled_section(title: str, text: str) -> str:
    """Put text below a second-level heading. Blank text has no section."""
    if not text.strip():
        return ""
    return f"## {title}\n\n{text.strip()}\n"
