"""Render entries of memories.md in their canonical form.

### mem-1760000000-3f2a
> Run `make gen` before the tests.
<!-- tags: build, tests | created: 2025-10-09 -->
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ralph.core import ids
from ralph.core.errors import Refused
from ralph.core.record import SECTIONS, MemoryKind, Record
from ralph.core.text import scan_lines
from ralph.formats.memories_metadata import (
    first_comment_pairs,
    render_metadata,
    second_comment_pairs,
)

SIGN_LABEL = "Sign"
MEMORY_KINDS = (MemoryKind.PATTERN, MemoryKind.DECISION, MemoryKind.FIX, MemoryKind.CONTEXT)
"""The kinds of memories, in the order in which memories.md has sections for them."""
_HEADINGS: dict[str, str] = {kind: SECTIONS[kind] for kind in MemoryKind}


def render_memories(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORY_KINDS) -> str:
    """Render entries under their section headings. A Sign keeps its own form."""
    parts: list[str] = []
    for heading, section in _sections(records, kinds):
        parts.append(f"## {heading}")
        for record in section:
            parts.append(_render_sign(record) if is_sign(record) else render_block(record))
    if not parts:
        return ""
    return "\n\n".join(parts) + "\n"


def sort_by_section(
    records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORY_KINDS
) -> list[Record]:
    """Sort records by section heading, with the sections for `kinds` first."""
    sections = [section for _, section in _sections(records, kinds)]
    return list(itertools.chain.from_iterable(sections))


def _sections(
    records: Iterable[Record], kinds: Sequence[MemoryKind]
) -> list[tuple[str, list[Record]]]:
    """Return the headings in the order in which they are written, each with its records."""
    sections: dict[str, list[Record]] = {}
    for record in records:
        sections.setdefault(section_heading(record), []).append(record)
    ranks = {SECTIONS[kind]: number for number, kind in enumerate(kinds)}

    def sort_key(section: tuple[str, list[Record]]) -> tuple[int, str]:
        heading, _ = section
        return ranks.get(heading, len(ranks)), heading

    return sorted(sections.items(), key=sort_key)


def section_heading(record: Record) -> str:
    """Return the heading of the section that a record belongs in."""
    if record.label and record.label != record.kind and not is_sign(record):
        return record.label
    return _HEADINGS[record.kind]


def is_sign(record: Record) -> bool:
    """Return whether a record is a legacy Sign rather than an entry with an id."""
    return record.label == SIGN_LABEL and bool(record.title)


def render_block(record: Record, newline: str = "\n") -> str:
    """Render an entry in its canonical form, without a final line ending."""
    lines = [f"### {record.id}"]
    if record.text:
        for line in record.text.split("\n"):
            lines.append(f"> {line}" if line else ">")
    lines.append(render_metadata(record))
    return newline.join(lines)


def _render_sign(record: Record) -> str:
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    lines = [written]
    *_, last_line = scan_lines(written, hide_unclosed=True)
    if last_line.closer:  # the Sign leaves a fence or a comment open
        lines.append(last_line.closer)
    if record.tags or first_comment_pairs(record) or second_comment_pairs(record):
        lines.append(render_metadata(record))
    return "\n".join(lines)


def check_record(record: Record) -> None:
    """Raise Refused if a record cannot be stored in this format."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused(
            "the text contains a NUL or carriage return character", hint="remove it and try again"
        )
    if any(character in record.label for character in "\0\r\n"):
        raise Refused(f"{record.label!r} cannot be a heading", hint="a label is one line")
    metadata_texts = itertools.chain(
        record.tags, *first_comment_pairs(record), *second_comment_pairs(record)
    )
    for text in metadata_texts:
        if text and ("-->" in text or any(character in text for character in "|\n\r\0")):
            raise Refused(
                f"{text!r} cannot be part of the metadata comment",
                hint="leave out `|`, `-->` and line breaks",
            )
    for tag in record.tags:
        if "," in tag or not tag or tag != tag.strip():
            raise Refused(
                f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces"
            )
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(
            f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8"
        )
