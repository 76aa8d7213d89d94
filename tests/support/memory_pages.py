"""Pages of memories, made from records."""

from dataclasses import replace

from ralph.core.record import MemoryKind, Origin, Record
from ralph.formats.memories import parse_memories


def record(
    number: int, text: str = "", kind: MemoryKind = MemoryKind.PATTERN, **fields: object
) -> Record:
    """A memory with a number."""
    name = f"mem-{1_794_800_000 + number}-{number:04x}"
    made = Record(
        name, kind, text or f"fact {number}", created_at="2026-11-16", origin=Origin(by="human")
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # by name, in a test


def page(*records: Record, prose: str = "") -> str:
    """A page with these memories."""
    document = parse_memories(
        f"# Memories\n\n{prose}## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n"
    )
    for each in records:
        document = document.add(each)
    return str(document)


def ids(text: str) -> list[str]:
    """The ids, in order."""
    return [entry.record.id for entry in parse_memories(text).entries]
