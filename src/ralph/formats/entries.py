"""What the scan of a memories.md found, made into records with their places.

The section's heading gives the kind, the id's prefix where the section is nobody's; Signs get ids
from their names. What stands as we write it is read in one step (`usual_reader`): a large file
holds tens of thousands of those, and this is where its time goes (`bench/parse.py`).
"""

import re
from collections.abc import Iterable, Sequence

from ralph.formats.document import Entry
from ralph.formats.found import Block
from ralph.formats.metadata import MADE, tags_of, with_metadata
from ralph.formats.scan import ReadUsual
from ralph.model import ids
from ralph.model.record import MemoryKind, Record, kind_of, label_of

SIGN_LABEL = "Sign"


def entries_of(blocks: Sequence[Block | Entry]) -> Iterable[Entry]:
    """The entries of a scan, in file order."""
    names = _SignIds(blocks)
    for found in blocks:
        if isinstance(found, Entry):
            yield found
            continue
        if found.name:
            found.id = names.next(found.name)
            kind, label = MemoryKind.FIX, SIGN_LABEL
        else:
            kind, label = _kind(found.section, found.id.partition("-")[0])
        yield Entry(_record(found, kind, label), found.start, found.end, found.line)


def usual_reader() -> ReadUsual:
    """Makes entries of what stands as we write it; remembers what it worked out for earlier ones."""
    kinds: dict[tuple[str | None, str], tuple[MemoryKind, str]] = {}
    tags: dict[str, tuple[str, ...]] = {}

    def read(found: re.Match[str], section: str | None, line: int) -> Entry:
        block_id, quote, words, created = found.groups()
        place = (section, block_id[: block_id.index("-")])
        if place not in kinds:
            kinds[place] = _kind(*place)
        if words not in tags:
            tags[words] = tags_of(words)
        kind, label = kinds[place]
        text = quote[2:] if "\n" not in quote and quote.startswith("> ") else _unquoted(quote)
        return Entry(Record.quick(block_id, kind, text, label, tags[words], created), found.start(), found.end(), line)

    return read


def _unquoted(quote: str) -> str:
    if "\n" not in quote:
        return quote[2:] if quote.startswith("> ") else quote[1:]
    return "\n".join([line[2:] if line.startswith("> ") else line[1:] for line in quote.split("\n")])


def _kind(section: str | None, prefix: str) -> tuple[MemoryKind, str]:
    known = kind_of(section) if section is not None else None
    if section is not None and known is not None:
        return known, label_of(section)
    return kind_of(prefix) or MemoryKind.CONTEXT, section or ""


def _record(found: Block, kind: MemoryKind, label: str) -> Record:
    text = "\n".join(found.lines)
    meta = found.meta
    if meta is not None and meta.endswith(MADE):
        meta = meta[: -len(MADE)]
        found.made = True
    dated = "" if found.name else ids.date_of(found.id)
    plain = Record(found.id, kind, text, label=label, title=found.name, created_at=dated)
    return plain if meta is None else with_metadata(plain, meta)


class _SignIds:
    """Ids from names: the second of a name ends in `-2`, and none is like any other entry's."""

    def __init__(self, blocks: Sequence[Block | Entry]) -> None:
        self._blocks = blocks
        self._taken: set[str] = set()
        self._count: dict[str, int] = {}

    def next(self, name: str) -> str:
        self._taken = self._taken or {
            found.record.id if isinstance(found, Entry) else found.id for found in self._blocks
        }
        base = "sign-" + (ids.slug(name) or ids.derived("name", name))
        while True:
            number = self._count[base] = self._count.get(base, 0) + 1
            candidate = base if number == 1 else f"{base}-{number}"
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate
