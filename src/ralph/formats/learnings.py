"""Learnings: the bullets of a progress block that its author meant for the next iterations.

They stand under a bullet (`- **Learnings for future iterations:**`), under a label without a
dash, or under a heading; sometimes the one learning follows the colon on the same line. What
belongs to which form is decided here, in one pass over the block's lines; making records of
the bullets is up to `progress`. Proved by `tests/formats/test_progress.py`.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from ralph.formats.bullets import ANY_DEPTH, Bullet, bullets, indent_of, marker
from ralph.formats.lines import BLANK, Line, Place, heading, runs_on

_WORDS = re.compile(
    r"[*_]{0,3}learnings?(?: (?:for|from|in|about) [\w -]{1,40})?[ \t]*(?P<inner>:)?[*_]{0,3}(?P<outer>:)?[ \t]*",
    re.IGNORECASE,
)


class _Form(Enum):
    """How the word "Learnings" stands above its bullets."""

    HEADING = "heading"
    BULLET = "bullet"
    LABEL = "label"


class _Label(NamedTuple):
    """The line that announces learnings; `inline` is where its own learning begins, or the line's length."""

    form: _Form
    line: Line
    inline: int


def learnings(title: str, region: Sequence[Line]) -> Iterator[Bullet]:
    """The learnings in a block with this title, in file order."""
    if _WORDS.fullmatch(title):
        yield from bullets(region)
        return
    at = 0
    while at < len(region):
        label = _label(region[at])
        first = at
        at += 1
        if label is None:
            continue
        while at < len(region) and _is_under(label, region[at], region[at - 1]):
            at += 1
        yield from _under(label, region[first:at])


def _label(line: Line) -> _Label | None:
    if not line.plain or line.blank:
        return None
    named = heading(line)
    if named is not None:
        return _Label(_Form.HEADING, line, len(line.text)) if _WORDS.fullmatch(named[1]) else None
    found = marker(line.text)
    begins = found[2] if found is not None else len(line.text) - len(line.text.lstrip(BLANK))
    words = _WORDS.match(line.text, begins)
    if words is None or (words.end() < len(line.text) and not (words["inner"] or words["outer"])):
        return None
    return _Label(_Form.LABEL if found is None else _Form.BULLET, line, words.end())


def _is_under(label: _Label, line: Line, above: Line) -> bool:
    """Whether a line still belongs to the label; the line above it does."""
    if line.blank or line.place in (Place.INSIDE, Place.CONFLICT):
        return True
    if label.form is _Form.BULLET:
        return indent_of(line.text) > indent_of(label.line.text)
    if heading(line) is not None:
        return False
    if label.form is _Form.HEADING or marker(line.text) is not None or indent_of(line.text) >= 2:
        return True
    return not above.blank and line.place is Place.TEXT and runs_on(line)


def _under(label: _Label, region: Sequence[Line]) -> Iterator[Bullet]:
    """The bullets below a label, and the learning on its own line if there is one."""
    line = label.line
    if label.inline == len(line.text):
        yield from bullets(region[1:], ANY_DEPTH)
    elif label.form is _Form.BULLET:
        items = bullets(region, ANY_DEPTH)
        found = marker(line.text)
        for whole in items:
            skipped = label.inline - (found[2] if found is not None else 0)
            yield whole._replace(start=line.start + label.inline, text=whole.text[skipped:])
            break
        yield from items
    else:
        indent = indent_of(line.text)
        text = line.text[label.inline :].rstrip(BLANK)
        yield Bullet(line.start + label.inline, line.end, line.number, indent, indent + 2, text)
        yield from bullets(region[1:], ANY_DEPTH)
