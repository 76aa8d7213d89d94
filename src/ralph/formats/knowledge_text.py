"""The titles, tags, file names and bodies of knowledge entries."""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from ralph.core import ids, terms
from ralph.core import text as markdown
from ralph.lean import discovery

TRUNCATED = "[truncated]"

_MAX_SLUG = 80  # characters
_MAX_SLUG_BYTES = 240  # a file name has at most 255 bytes, including `.md` and a number
_MAX_WORDS = 500  # in a body
_ARTICLES = frozenset({"a", "an", "the"})
_LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")  # [[Title of another entry]]

# --- titles, tags and slugs --------------------------------------------------------------------


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Lowercase tags, and remove duplicates and empty tags."""
    cleaned = [" ".join(tag.lower().split()) for tag in tags]
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def fold_title(title: str) -> str:
    """Normalise case and whitespace in a title, for comparing links."""
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def slug_for(title: str, taken: Mapping[str, str]) -> str:
    """Return the slug that names a new entry's file. `taken` maps existing slugs to titles."""
    title = unicodedata.normalize("NFC", title)
    encoded = ids.slug(title).encode("utf-8")[:_MAX_SLUG_BYTES]
    base = encoded.decode("utf-8", "ignore").strip("-") or ids.derived("entry", title)
    if discovery.is_device_name(base) and base not in taken:
        base = f"entry-{base}"  # nobody could check out `aux.md` on Windows
    slug = base
    number = 1
    while slug in taken and fold_title(taken[slug]) != fold_title(title):
        number += 1
        suffix = f"-{number}"
        slug = base[: _MAX_SLUG - len(suffix)].rstrip("-") + suffix
    return slug


def same_entry(title_a: str, tags_a: Iterable[str], title_b: str, tags_b: Iterable[str]) -> bool:
    """Return whether two entries are about the same subject.

    Their titles are equal, or consist of the same words and most of their tags are the same. A
    title with a further word names another subject.
    """
    if fold_title(title_a) == fold_title(title_b):
        return True
    words = _title_words(title_a)
    if not words or words != _title_words(title_b):
        return False
    first_tags = set(clean_tags(tags_a))
    second_tags = set(clean_tags(tags_b))
    if not first_tags or not second_tags:
        return False
    common = len(first_tags & second_tags)
    return 2 * common > min(len(first_tags), len(second_tags))


def _title_words(title: str) -> tuple[str, ...]:
    """Return the stems of a title's words, without articles."""
    stems: list[str] = []
    for word in terms.split_words(fold_title(title)):
        if word not in _ARTICLES:
            stems += terms.word_terms(word)
    return tuple(stems)


# --- bodies ------------------------------------------------------------------------------------


def shorten(body: str, words: int = _MAX_WORDS) -> str:
    """Shorten a body to at most `words` words, cutting between two blocks if possible."""
    if len(body.rstrip().removesuffix(TRUNCATED).split()) <= words:
        return body
    newline = markdown.newline_of(body)
    return f"{_cut_body(body, words, newline)}{newline}{newline}{TRUNCATED}"


def _cut_body(body: str, words: int, newline: str) -> str:
    total = 0
    block_end = 0
    line_end = 0
    closer = ""  # closes the fence or comment that is open at `line_end`
    for line in markdown.scan_lines(body):
        total += len(line.text.split())
        if total > words:
            break
        if line.blank:
            if total and not line.closer:
                block_end = line.start
            continue
        needed = total
        if line.closer:
            needed += 1  # the closer counts as a word
        if needed <= words:
            line_end = line.start + len(line.text)
            closer = line.closer
    if block_end:
        return body[:block_end].rstrip()
    if line_end and closer:
        return body[:line_end] + newline + closer
    if line_end:
        return body[:line_end]
    first_words = list(itertools.islice(re.finditer(r"\S+", body), max(words, 1)))
    return body[: first_words[-1].end()]


def links_in(body: str) -> tuple[str, ...]:
    """Return the titles in `[[...]]` links outside code and comments, without duplicates."""
    if "[[" not in body:
        return ()
    titles: dict[str, str] = {}
    for line in markdown.scan_lines(body):
        if not line.is_markdown or "[[" not in line.text:
            continue
        for link in _LINK.findall(_without_code(line.text)):
            title = " ".join(link.split())
            if title:
                titles.setdefault(title.casefold(), title)
    return tuple(titles.values())


def _without_code(line: str) -> str:
    """Replace each code span in a line by a backtick."""
    pieces: list[str] = []
    copied_to = 0
    for start, end in code_spans(line):
        pieces.append(line[copied_to:start])
        copied_to = end
    pieces.append(line[copied_to:])
    return "`".join(pieces)


def code_spans(line: str) -> list[tuple[int, int]]:
    """Return the spans of inline code.

    A span extends from a run of backticks to the next run of the same length.
    """
    runs = list(re.finditer(r"`+", line))
    numbers_by_length: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        numbers_by_length.setdefault(len(run[0]), []).append(number)
    spans: list[tuple[int, int]] = []
    number = 0
    while number < len(runs):
        opening = runs[number]
        alike = numbers_by_length[len(opening[0])]
        following = bisect_right(alike, number)
        if following < len(alike):
            number = alike[following]
            spans.append((opening.start(), runs[number].end()))
        number += 1
    return spans
