"""The learnings in the blocks of a progress.txt.

Agents list what they learned below a label, which may be a bullet, a heading or a line of its own:

    - **Learnings for future iterations:**
      - Gotcha: the lexer skips tabs.
      - Run `make gen` first.

Here the learnings are the two nested bullets. A learning may also follow on the line of the label,
as in `Learnings: run the generator first`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ralph.core import bullets
from ralph.core import text as markdown
from ralph.core.bullets import Bullet
from ralph.core.text import BLANK, Line, LineRole

# `Learnings`, `**Learnings:**` or `Learnings for future iterations:`. The colon may be inside or
# outside the emphasis.
_LEARNINGS = re.compile(
    r"[*_]{0,3}learnings?(?: (?:for|from|in|about) [\w -]{1,40})?[ \t]*"
    r"(?P<inner>:)?[*_]{0,3}(?P<outer>:)?[ \t]*",
    re.IGNORECASE,
)
_ITEM_INDENT = 2  # columns by which a line below a label must be indented to be part of its list


def read_learnings(title: str, lines: Sequence[Line]) -> Iterator[Bullet]:
    """Yield the learnings in a block, given its title and the lines below its heading."""
    if _LEARNINGS.fullmatch(title):
        yield from bullets.read_bullets(lines)
        return
    number = 0
    while number < len(lines):
        label = lines[number]
        label_end = _label_end(label)
        number += 1
        if label_end is None:
            continue
        first_below = number
        while number < len(lines) and _is_under(label, lines[number], above=lines[number - 1]):
            number += 1
        yield from _learnings_after(label, label_end, lines[first_below:number])


def _learnings_after(label: Line, label_end: int, below: Sequence[Line]) -> Iterator[Bullet]:
    """Yield the learnings after a label, both on the same line and in the list below."""
    if label_end == len(label.text):
        yield from bullets.read_bullets(below, bullets.ANY_DEPTH)
        return
    start = label.start + label_end
    marker = bullets.bullet_marker(label.text)
    if marker is None:
        text = label.text[label_end:].rstrip(BLANK)
        yield Bullet(start, label.end, label.number, text)
        yield from bullets.read_bullets(below, bullets.ANY_DEPTH)
        return
    # The label is a bullet itself, so the lines below it may continue its learning.
    first, *others = bullets.read_bullets([label, *below], bullets.ANY_DEPTH)
    yield first._replace(start=start, text=first.text[label_end - marker.text_index :])
    yield from others


def _label_end(line: Line) -> int | None:
    """Return where the label `Learnings:` ends on a line, or None if the line has no label."""
    if not line.is_markdown or line.blank:
        return None
    heading = markdown.parse_heading(line)
    if heading is not None:
        return len(line.text) if _LEARNINGS.fullmatch(heading.title) else None
    marker = bullets.bullet_marker(line.text)
    if marker is not None:
        start = marker.text_index
    else:
        start = len(line.text) - len(line.text.lstrip(BLANK))
    label = _LEARNINGS.match(line.text, start)
    if label is None:
        return None
    has_colon = label["inner"] or label["outer"]
    if label.end() < len(line.text) and not has_colon:
        return None
    return label.end()


def _is_under(label: Line, line: Line, *, above: Line) -> bool:
    """Return whether a line belongs to the learnings below a label.

    `above` is the line before it.
    """
    if line.blank or line.role in (LineRole.INSIDE, LineRole.CONFLICT):
        return True
    indent = bullets.indentation(line.text)
    if bullets.bullet_marker(label.text) is not None:
        return indent > bullets.indentation(label.text)
    if markdown.parse_heading(line) is not None:
        return False
    is_item = bullets.bullet_marker(line.text) is not None or indent >= _ITEM_INDENT
    if is_item or markdown.parse_heading(label) is not None:
        return True
    return not above.blank and line.role is LineRole.TEXT and markdown.continues_paragraph(line)
