"""Bullets in Markdown: their markers, their continuation lines, and how they are written.

A bullet continues on lines that are indented, on lazy lines of the same paragraph, and in fences
and comments that it opens. For example, this is one bullet with the text "a\\nb\\n\\nc":

    - a
    b

      c
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core.text import BLANK, MARKERS, Line, LineRole, continues_paragraph, is_rule

ANY_DEPTH = 1_000_000  # columns; deeper than any bullet
_TOP_LEVEL_DEPTH = 3  # columns; Markdown treats a line that is indented further as nested or code
_TAB = 4  # columns
_MAX_MARKER_GAP = 5  # columns from a bullet's marker to its text; beyond that, the text is code
_NESTED_INDENT = 2  # columns by which a line must be indented to belong to the bullet above


class Bullet(NamedTuple):
    """A bullet, including its continuation lines."""

    start: int
    end: int
    number: int
    text: str


class BulletMarker(NamedTuple):
    """The column of a bullet's marker, and the column and index at which its text starts."""

    indent: int
    text_column: int
    text_index: int


def indentation(text: str) -> int:
    """Return the width of a line's indentation in columns. Tab stops are 4 columns apart."""
    spaces = text[: len(text) - len(text.lstrip(BLANK))]
    return len(spaces.expandtabs(_TAB))


def bullet_marker(text: str) -> BulletMarker | None:
    """Return the marker of the bullet that starts on this line, or None if none does."""
    item = text.lstrip(BLANK)
    content = item[1:].lstrip(BLANK)
    if item[:2] not in MARKERS or not content or is_rule(item):
        return None
    indent = indentation(text)
    index = len(text) - len(content)
    column = len(text[:index].expandtabs(_TAB))
    if column - indent > _MAX_MARKER_GAP:
        column = indent + 2
    return BulletMarker(indent, column, index)


@dataclass(slots=True)
class _OpenBullet:
    """A bullet that the following lines may continue."""

    first: Line
    marker: BulletMarker
    end: int
    parts: list[str]
    waiting: list[str]  # blank lines, which belong to the bullet only if it continues
    in_paragraph: bool  # the last line was plain text, which an unindented line may continue
    in_block: bool  # the open fence or comment belongs to the bullet

    def is_continued_by(self, line: Line, deepest: int) -> bool:
        """Return whether a non-blank line belongs to this bullet."""
        if line.role is LineRole.CONFLICT:
            return False
        if line.role is LineRole.INSIDE:
            return self.in_block
        column = indentation(line.text)
        if column >= self.marker.indent + _NESTED_INDENT or column > deepest:
            return True
        is_lazy = self.in_paragraph and line.role is LineRole.TEXT
        return is_lazy and bullet_marker(line.text) is None and continues_paragraph(line)

    def append(self, line: Line) -> None:
        self.parts += self.waiting
        self.waiting = []
        self.parts.append(dedent(line.text, self.marker.text_column))
        self.end = line.end
        if line.role is not LineRole.INSIDE:
            self.in_block = line.role is LineRole.OPENS
            self.in_paragraph = line.is_markdown

    def append_blank(self, line: Line) -> None:
        self.waiting.append(dedent(line.text, self.marker.text_column))
        self.in_paragraph = False

    def close(self) -> Bullet:
        text = "\n".join(self.parts).rstrip(BLANK)
        return Bullet(self.first.start, self.end, self.first.number, text)


def read_bullets(region: Iterable[Line], deepest: int = _TOP_LEVEL_DEPTH) -> Iterator[Bullet]:
    """Yield the bullets in a section.

    A bullet indented by more than `deepest` columns is nested, and belongs to the one above.
    """
    bullet: _OpenBullet | None = None
    for line in region:
        if bullet is not None:
            if line.blank and line.role is not LineRole.INSIDE:
                bullet.append_blank(line)
                continue
            if bullet.is_continued_by(line, deepest):
                bullet.append(line)
                continue
            yield bullet.close()
        bullet = _open_bullet(line, deepest)
    if bullet is not None:
        yield bullet.close()


def _open_bullet(line: Line, deepest: int) -> _OpenBullet | None:
    if line.role is LineRole.INSIDE:
        return None
    marker = bullet_marker(line.text)
    if marker is None or marker.indent > deepest:
        return None
    return _OpenBullet(
        line,
        marker,
        end=line.end,
        parts=[line.text[marker.text_index :]],
        waiting=[],
        in_paragraph=line.is_markdown,
        in_block=line.role is LineRole.OPENS,
    )


def dedent(text: str, width: int) -> str:
    """Remove the whitespace in a line's first `width` columns."""
    at = 0
    while text[at : at + 1] in (" ", "\t") and len(text[:at].expandtabs(_TAB)) < width:
        at += 1
    return text[at:]


def render_bullet(text: str, newline: str, lead: str = "- ", pad: int = 2) -> str:
    """Format text as a bullet. All lines but the first are indented by `pad` columns."""
    first, *rest = text.split("\n")
    lines = [lead + first]
    for line in rest:
        lines.append(" " * pad + line if line else "")
    return newline.join(lines) + newline
