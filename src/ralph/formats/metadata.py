"""The comment below an entry: `<!-- tags: a, b | created: 2025-01-20 | ... -->`.

Pairs of `key: value`, separated by `|`, in any order and with any spacing. Keys that we know
become members of the record, whatever their case (of `status` only `retired` is one that we know);
all others are kept in `extra` and written back as they were. What cannot stand in such a comment
is refused before anything is written. A comment that somebody was cut off in is torn: it is read
to the end of its line, so that it never hides the entry below. `tests/formats/test_sections.py` and
`test_sections_torn.py` hold the cases.
"""

import re
from dataclasses import replace
from typing import Any

from ralph.errors import Refused
from ralph.model.record import NO_EXTRA, Link, Origin, Record, Status

MADE = " | section: added"
"""Ends the comment of an entry that was written together with its section's heading."""

DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_MOMENT = re.compile(DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")
_KEYS = frozenset({"tags", "created", "updated", "supersedes", "valid-until", "source", "by"})
_HALF_CLOSED = (" -- >", " ->", " --", " -")
_HEADING = re.compile(r"\n {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)")


def metadata_of(line: str) -> str | None:
    """What stands inside a one-line metadata comment, or None when the comment is something else."""
    bare = line.rstrip()
    if bare[:4] != "<!--" or bare[-3:] != "-->" or len(bare) < 7:
        return None
    inner = bare[4:-3].strip()
    if "-->" in inner:
        inner = inner.replace("-->", "|").replace("<!--", "")
    if inner.startswith("tags:"):
        return inner
    for part in inner.split("|"):
        key, colon, _ = part.partition(":")
        if colon and key.strip().lower() in _KEYS:
            return inner
    return None


def torn_metadata(line: str) -> str | None:
    """What a comment without its `-->` says so far, or None when it does not begin with a key that we know."""
    bare = line[4:].strip()
    key, colon, _ = bare.partition(":")
    if not colon or key.strip().lower() not in _KEYS:
        return None
    for half in _HALF_CLOSED:
        if bare.endswith(half):
            return bare[: -len(half)].rstrip()
    return bare


class Ahead:
    """Whether a comment that is open at some place is closed before the next heading.

    Asked from top to bottom, it remembers the next `-->` and the next heading, so that each character is looked
    at once, however many comments are torn.
    """

    __slots__ = ("_close", "_heading", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._close = self._heading = -1

    def closes(self, at: int) -> bool:
        """Whether a `-->` comes after `at` and before any heading."""
        never = len(self._text)
        if self._close < at:
            found = self._text.find("-->", at)
            self._close = found if found >= 0 else never
        if self._heading < at:
            heading = _HEADING.search(self._text, at)
            self._heading = heading.start() if heading is not None else never
        return self._close < self._heading


def tags_of(words: str) -> tuple[str, ...]:
    """Tags as they stand between commas."""
    return tuple([tag.strip() for tag in words.split(",") if tag and not tag.isspace()])


def with_metadata(plain: Record, inner: str) -> Record:
    """The record with what a comment says of it; unknown keys are kept in `extra`."""
    known: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for part in inner.split("|"):
        word, colon, value = part.partition(":")
        word, value = word.strip(), value.strip()
        key = word.lower()
        if key == "tags" and colon:
            known["tags"] = tags_of(value)
        elif key == "created" and _MOMENT.fullmatch(value):
            known["created_at"] = value
        elif key == "supersedes" and value:
            links.append(Link("supersedes", value))
        elif key == "valid-until" and value:
            known["valid_until"] = value
        elif key == "updated" and value:
            known["updated_at"] = value
        elif key == "by" and value:
            known["origin"] = Origin(by=value)
        elif key == "status" and value.lower() == Status.RETIRED.value:
            known["status"] = Status.RETIRED
        elif word or value:
            extra[key if key in _KEYS else word] = value if colon else None
    return replace(plain, links=tuple(links), extra=extra or NO_EXTRA, **known)


def comment(record: Record, *, made: bool = False) -> str:
    """The comment that says what a record's metadata are; `made`: its section's heading was made for it."""
    pairs = [key if value is None else f"{key}: {value}" for key, value in _further(record)]
    inner = " | ".join([f"tags: {', '.join(record.tags)}", *pairs])
    return f"<!-- {inner}{MADE if made else ''} -->"


def check_metadata(record: Record) -> None:
    """Refuse tags and values that cannot stand in the comment."""
    for words in (record.tags, *_further(record)):
        for word in words:
            if word and ("-->" in word or any(mark in word for mark in "|\n\r\0")):
                hint = "leave out `|`, `-->` and line breaks"
                raise Refused(f"{word!r} cannot stand in the metadata comment", hint=hint)
    for tag in record.tags:
        if "," in tag or not tag.strip() or tag != tag.strip():
            raise Refused(f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces")


def _further(record: Record) -> list[tuple[str, str | None]]:
    """The metadata after the tags."""
    pairs: list[tuple[str, str | None]] = [("created", record.created_at)] if record.created_at else []
    if record.updated_at:
        pairs.append(("updated", record.updated_at))
    if record.links:
        pairs.extend(("supersedes", link.target) for link in record.links if link.relation == "supersedes")
    if record.valid_until:
        pairs.append(("valid-until", record.valid_until))
    if record.origin.by:
        pairs.append(("by", record.origin.by))
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    if record.extra is not NO_EXTRA:
        pairs.extend((key, None if value is None else str(value)) for key, value in record.extra.items())
    return pairs
