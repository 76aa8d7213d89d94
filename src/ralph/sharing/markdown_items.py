"""Find list items and paragraphs in Markdown files that people wrote for agents.

For example, `list_items` finds two items under the heading "Testing" in this text:

    ## Testing

    - Run the linter first.
    - Use the fake clock,
      never the real one.

A continuation line is joined to its item with a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ralph.formats.front_matter import FrontMatter, read_front_matter

_COMMENT = re.compile(
    r"<!-- ralph:start.*?<!-- ralph:end[^>]*-->"  # the block of text that Ralph maintains
    r"|<!--.*?-->",
    re.DOTALL,
)
_BULLET = re.compile(r" {0,3}(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*$")


class ListItem(NamedTuple):
    """An item in a Markdown list, and the heading above it."""

    heading: str
    text: str


def list_items(text: str) -> Iterator[ListItem]:
    """Yield all list items in the text, including their continuation lines.

    Code blocks and comments are skipped.
    """
    heading = ""
    item = ""
    fenced = False
    lines = _COMMENT.sub("", text).splitlines()
    for line in [*lines, ""]:  # the blank line ends the last item
        bullet = None if fenced else _BULLET.match(line)
        is_continuation = line.strip() and line.startswith("  ")
        if item and (bullet or fenced or not is_continuation):
            yield ListItem(heading, item)
            item = ""
        if _is_fence(line):
            fenced = not fenced
        elif bullet:
            item = bullet["text"]
        elif item:
            item = f"{item} {line.strip()}"
        elif not fenced:
            title = _HEADING.match(line)
            if title:
                heading = title["title"]


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def paragraph_lines(text: str) -> list[int]:
    """Return the line numbers at which paragraphs of ordinary prose start.

    Lists, code blocks, comments, headings and front matter do not count.
    """
    matter = read_front_matter(text)
    if isinstance(matter, FrontMatter):
        text = _blank_lines(text[: matter.body_start]) + text[matter.body_start :]
    text = _COMMENT.sub(lambda comment: _blank_lines(comment[0]), text)
    starts = []
    fenced = False
    in_item = False
    in_paragraph = False
    for number, line in enumerate(text.splitlines(), 1):
        if _is_fence(line):
            fenced = not fenced
            is_text = False
        else:
            is_text = not fenced and not _HEADING.match(line) and any(map(str.isalnum, line))
        continues_item = in_item and line.startswith("  ")
        in_item = is_text and (bool(_BULLET.match(line)) or continues_item)
        was_in_paragraph = in_paragraph
        in_paragraph = is_text and not in_item
        if in_paragraph and not was_in_paragraph:
            starts.append(number)
    return starts


def _blank_lines(text: str) -> str:
    """Reduce text to its newlines, so that the lines after it keep their numbers."""
    return "\n" * text.count("\n")
