r"""Remove private sections: everything between `<private>` and `</private>`.

    strip_private("port 80 <private>on host x</private> is open")  ->  ("port 80  is open", 1)

Tags count in any spelling in which a log or a page may quote them, such as `&lt;private&gt;` or
`\u003cprivate\u003e`, and even with invisible characters inside. Sections may be nested. When in
doubt, more is removed: a section that is not closed extends to the end, and so does everything
after too many tags.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record
from ralph.lean.secret_prefilter import has_invisible
from ralph.privacy.word_splitters import (
    fold_lookalikes,
    lowercase,
    remove_terminal_codes,
    view_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_LESS = r"(?:<|\\{1,8}(?:u003c|x3c)|&(?:amp;){0,4}(?:lt|\#0{0,4}60|\#x0{0,4}3c);|%3c)"
_MORE = r"(?:>|\\{1,8}(?:u003e|x3e)|&(?:amp;){0,4}(?:gt|\#0{0,4}62|\#x0{0,4}3e);|%3e)"
_SLASH = r"(?:\\{0,8}/|\\{1,8}(?:u002f|x2f)|&(?:amp;){0,4}(?:sol|\#0{0,4}47|\#x0{0,4}2f);|%2f)"
_SPACE = r"(?:\s|\\{1,8}[nrt]|%20|&nbsp;)"
_SPACES = rf"(?>{_SPACE}{{0,8}})"
_TAG_HEAD = rf"(?i){_LESS}{_SPACES}(?P<close>{_SLASH})?{_SPACES}"
_ATTRIBUTES = rf"(?:{_SPACE}|{_SLASH})(?>(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*)"
_TAG = rf"{_TAG_HEAD}private(?P<rest>{_ATTRIBUTES})?{_MORE}"
"""A `<private>` or `</private>` tag in any spelling, such as `&lt;private&gt;` or `%3Cprivate%3E`.

Its attributes end at the next `<` or `>`, however that is spelled.
"""
_MAX_TAG_LENGTH = 600  # a `<private` without a `>` within this many characters is not a tag
_MAX_TAG_HEAD = 260  # no spelling of what precedes the word `private` is longer
MAX_TAGS = 20_000  # per text; everything after that many is private
MAX_OPEN_PARTS = 8  # sections open at the same time; with that many, everything else is private


@record
class _Tag:
    """An opening or closing `private` tag at `text[start:end]`. An empty tag ends with `/>`."""

    start: int
    end: int
    closes: bool
    is_empty: bool


@record
class _Cut:
    """What remains of a text once its private sections are removed.

    `parts` counts those that were removed and `open` those that are still open at the end.
    `is_astray` says that there was a closing tag without an opening one.
    """

    text: str
    parts: int
    open: int
    is_astray: bool = False


def strip_private(text: str) -> tuple[str, int]:
    """Remove the private sections of a text. Returns the rest and their number.

    A part that is not closed extends to the end of the text.
    """
    cut = cut_private_parts(text)
    return cut.text, cut.parts


def cut_private_parts(text: str, depth: int = 0, *, wary: bool = False) -> _Cut:
    """Remove the private sections of a text that begins inside `depth` open ones.

    If `wary`, everything before a closing tag without an opening one is private as well, because
    the opening tag may be in an earlier text.
    """
    tags = find_tags(text, MAX_TAGS + 1)
    pieces: list[str] = []
    parts = 0
    position = 0
    is_astray = False
    for number, tag in enumerate(tags):
        if depth == 0:
            pieces.append(text[position : tag.start])
        position = tag.end
        if number == MAX_TAGS:
            return _Cut("".join(pieces), parts + 1, MAX_OPEN_PARTS, is_astray)
        if tag.closes and depth > 0:
            depth -= 1
        elif tag.closes:
            is_astray = True
            if wary:
                if any(pieces):
                    parts += 1
                pieces.clear()
        elif _opens_part(tags, number):
            if depth == 0:
                parts += 1
            depth += 1
    if depth == 0:
        pieces.append(text[position:])
    rest = "".join(pieces)
    joined_tag = _find_joined_tag(pieces)
    if joined_tag is not None:
        return _Cut(rest[: joined_tag.start], parts + 1, MAX_OPEN_PARTS, is_astray)
    return _Cut(rest, parts, min(depth, MAX_OPEN_PARTS), is_astray)


def _find_joined_tag(pieces: Sequence[str]) -> _Tag | None:
    """Return the first tag that came about when the part between its halves was cut out.

    Nobody writes that by accident, so everything after such a tag is private.
    """
    if len(pieces) < 2:
        return None
    tags = find_tags("".join(pieces), 1)
    return tags[0] if tags else None


def _opens_part(tags: Sequence[_Tag], number: int) -> bool:
    """Check whether an opening tag opens a part. An empty tag does only before a closing tag."""
    if not tags[number].is_empty:
        return True
    return number + 1 < len(tags) and tags[number + 1].closes


def find_tags(text: str, limit: int) -> list[_Tag]:
    """Return the `private` tags in a text, at most `limit` of them."""
    view = view_text(text)
    folded = fold_lookalikes(view.text if view else text)
    lowered = lowercase(folded)
    tags: list[_Tag] = []
    position = 0
    word = lowered.find("private")
    while word >= 0 and len(tags) < limit:
        match = _match_tag(folded, position, word)
        if match is None:
            position = word + len("private")
        else:
            position = match.end()
            start, end = match.span()
            if view:
                start, end = view.locate(start, end)
            is_empty = (match["rest"] or "").rstrip().endswith("/")
            tags.append(_Tag(start, end, bool(match["close"]), is_empty))
        word = lowered.find("private", position)
    return tags


def _match_tag(folded: str, earliest: int, word: int) -> re.Match[str] | None:
    """Return the tag around the word `private` at position `word`, or None if there is none."""
    head_pattern = re.compile(rf"{_TAG_HEAD}\Z")
    head = head_pattern.search(folded, max(earliest, word - _MAX_TAG_HEAD), word)
    if head is None:
        return None
    return re.compile(_TAG).match(folded, head.start(), head.start() + _MAX_TAG_LENGTH)


def has_private_parts(text: str) -> bool:
    """Check for private sections or a private key, from which a piece of a file might come."""
    if "private" not in text.lower() and not has_invisible(text):
        return False  # nearly every text
    text = remove_terminal_codes(text)
    if "PRIVATE KEY" in text:
        from ralph.privacy.private_keys import has_private_key  # few texts need it

        if has_private_key(text):
            return True
    return strip_private(text)[0] != text
